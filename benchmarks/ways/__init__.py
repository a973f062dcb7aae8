"""The usual ways of reading: a loop, deserializers, lists."""
