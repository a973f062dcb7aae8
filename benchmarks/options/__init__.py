"""The effect of single options of this consumer on its speed."""
