"""Share groups (KIP-932) on the broker's side: share partitions and share sessions.

State machines without input or output, as Apache Kafka 4.3 keeps them. The group itself is in
`tandem_kafka.testing.coordinator`, and `tandem_kafka.testing.cluster` connects the two.
"""
