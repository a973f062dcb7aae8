"""Common mistakes, and what is said of each: `table.py` has them, `test_mistakes.py` makes them."""
