"""Request managers: one state machine per subject, which the loop polls for requests."""
