"""Where the options of a connection come from: flags, the environment, a file.

`layers.py` combines them, `files.py` reads the files, and `names.py` knows the names of other
clients.
"""
