"""The wire protocol: messages and the choice of their versions."""
