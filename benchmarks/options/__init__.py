"""What single options of this consumer do to its speed."""
