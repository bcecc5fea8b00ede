"""Parquet in, exact aggregates with bounded contributions out; a model in, Parquet out. No noise is drawn here.

The way of a row, file by file:

1. ``schema`` and ``attributes`` (public facts about a table), ``layout`` (what rows are, and a unit's bound);
2. ``source``: finds, checks and opens the Parquet files;
3. ``engines/``: decides which process reads which rows. Open ``engines/accumulation`` first: it is the step that every
   engine runs on batches of whole units. ``engines/worker_tasks`` is where a task of Spark or Beam begins;
4. ``encode``: Arrow batches to integer codes; ``arrow`` converts arrays;
5. ``contribution``: truncates each unit to its bound, by the keyed hash of ``hashing``;
6. ``aggregators/``: the exact sums, one aggregator per kind of request.

``inspect`` counts, for the operator alone, what a release would map, drop or truncate. ``generate/`` writes generated
data and synthetic rows.
"""
