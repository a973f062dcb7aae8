"""The program with which Kafka's system tests run a consumer, and their cases for it.

__main__.py   the program: options on the command line, events as lines of JSON
group.py      a group of such processes, and what their events say
cases.py      the cases, on three real brokers; `python -m tests.verifiable_consumer.cases` runs all
"""
