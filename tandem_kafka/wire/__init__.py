"""What is said on the wire: messages and the choice of their versions."""
