"""A real Apache Kafka for tests: brokers in processes of their own, on free ports of this machine.

It needs Java 17 and Maven, which downloads Kafka once. The tests, benchmarks and the pipeline of
this project use it. `broker.py` is a cluster, `jars.py` fetches Kafka, and `proxy.py` cuts
connections.
"""
