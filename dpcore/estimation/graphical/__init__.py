"""Graphical models over junction trees: structure, inference, estimation, answers, rows."""
