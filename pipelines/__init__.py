"""Parquet in, exact bounded aggregates out; a model in, Parquet out. Noise is never drawn here."""
