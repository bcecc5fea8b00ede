"""One file a paper; one row a mechanism."""
