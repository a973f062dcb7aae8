"""Membership in a classic group."""
