"""Builds and checks what a release consists of; RELEASING.md describes the steps."""
