"""What is fetched from which broker, and when."""
