"""Parity with Spark's own connector: one generated table of combinations.

`cases.py` has the combinations that `batches.py`, `streams.py` and `sinks.py` make of the values in
`dimensions.py`. `topics.py` prepares a cluster for them, and `outcomes.py` runs one with either
source. `connector.json` has what the connector did, because few machines have its jars.
`python -m packages.spark.tests.parity record` writes that file and the page of the manual, and
`tests/test_parity.py` compares it with our source. `reasons.py` lists every difference.
"""
