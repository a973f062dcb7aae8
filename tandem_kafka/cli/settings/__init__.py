"""Where the options of a connection come from: flags, the environment, a file."""
