"""Whatever a broker answers, for ever: each answer to each request, and what a consumer must do.

table.py      the answers: from the message classes, and from the tables of reactions
consumers.py  the kinds of consumers that ask, and the cluster that answers
check.py      one answer for two minutes: what is bounded, what is told, what `health()` says

`python -m tests.answers` tries every answer, tests/simulation/test_answers.py some of each kind.
"""
