"""Group membership: state machines whose requests and callbacks keep us in the group."""
