"""From Parquet to exact aggregates with bounded contributions, and from a model to Parquet. No noise is drawn here.

A row passes through these modules:

1. ``schema`` and ``attributes`` define public facts about a table, and ``layout`` the form of the rows and the
   contribution bound. ``codebook`` has words for readers of a table. ``yaml_file`` and ``text_file`` read schemas and
   configs strictly.
2. ``source`` finds, checks and opens the files. ``content`` says what identifies their content.
3. ``engines/`` decides which process reads which rows. Open ``engines/accumulation`` first: it is the step that every
   engine runs on batches of whole units. A task of Spark or Beam begins in ``engines/worker_tasks``.
4. ``encode`` turns Arrow batches into integer codes, with the array conversions of ``arrow``. ``item_names`` has the
   codes of items with names.
   ``unit_key`` joins several columns of a unit to one, which ``unit_names`` names.
5. ``contribution`` truncates each unit to the contribution bound, with the keyed hash of ``hashing``.
6. ``aggregators/`` computes the exact sums, with one aggregator per kind of request.

``foreign_errors`` hides what libraries say in their exceptions. ``inspect`` counts, for the operator only, what a
release would map, drop or truncate. ``generate/`` writes generated data and synthetic rows.
"""
