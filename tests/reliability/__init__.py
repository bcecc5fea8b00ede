"""Faults at every point of a release, and long series of releases: nothing is lost, and nothing is overspent."""
