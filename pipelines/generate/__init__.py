"""Writes Parquet files: synthetic rows of a model, and generated public data.

* ``rows`` writes synthetic rows of a release's model. Open it first.
* ``parallel_rows`` makes one part of the rows, and all parts with threads; ``spark_rows`` and ``beam_rows`` make them
  on workers. ``row_files`` turns codes into Parquet.
* ``baskets`` writes Netflix-like baskets with the probabilities of ``basket_law``.
* ``table`` writes a census-like table.
* ``checks`` contains the checks of sizes and folders that the others share.
"""
