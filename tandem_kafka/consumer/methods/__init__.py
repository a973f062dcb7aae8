"""What users call: the facade.

`awaitable_methods.py` puts together the coroutines of `subscription_methods.py`,
`offset_methods.py` and `cluster_methods.py`, which wait for a broker; `blocking_methods.py` are the
same ones for threads. `plain_methods.py` wait for no broker.
"""
