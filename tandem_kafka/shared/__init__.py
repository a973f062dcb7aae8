"""The only mutable state both threads touch; every field names its one writer."""
