"""Membership in a KIP-848 group."""
