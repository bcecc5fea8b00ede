"""Differentially private query release: arrays in, arrays out."""
