"""Best responses of the data player."""
