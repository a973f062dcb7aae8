"""One state machine per subject; each turn they say what they want to send."""
