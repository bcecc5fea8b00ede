"""Writes Parquet files: synthetic rows of a model, and generated public data.

* ``rows`` writes synthetic rows of a release's model. Open it first.
* ``baskets`` writes Netflix-like baskets with the probabilities of ``basket_law``.
* ``table`` writes a census-like table.
* ``checks`` contains the checks of sizes and folders that the others share.
"""
