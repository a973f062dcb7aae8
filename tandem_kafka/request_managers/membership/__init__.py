"""Group membership: state machines for both group protocols."""
