"""The manual; `make docs` builds it."""
