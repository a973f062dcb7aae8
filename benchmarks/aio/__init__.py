"""Clients for asyncio: this consumer beside aiokafka and confluent-kafka's AIOConsumer."""
