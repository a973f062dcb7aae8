"""The tests of tandem-kafka."""
