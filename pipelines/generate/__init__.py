"""Writers of Parquet: generated public data, and synthetic rows of a model.

* ``rows``: synthetic rows of a release's model; open it first.
* ``baskets`` writes Netflix-like baskets by the probabilities of ``basket_law``; ``table`` writes a census-like table.
* ``checks``: checks of sizes and folders that all of them share.
"""
