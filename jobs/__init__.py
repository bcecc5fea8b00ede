"""Composition roots: parse, wire, run, write."""
