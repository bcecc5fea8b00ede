"""The experiments of the MWEM paper, and what they are compared with."""
