"""Tests of other clients, with this consumer or on the simulated cluster."""
