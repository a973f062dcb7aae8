"""What the two threads say to each other."""
