"""The files of a release, and the report of a plan. All of them contain public values only.

* ``certificate`` (certificate.json): the guarantee, every charge, and the facts that the guarantee rests on. Open this
  module first.
* ``certificate_format``: the format of that file, key by key; ``certificate.schema.json`` is its JSON Schema.
* ``answers_table`` (answers.parquet): one row per query, with its answer and error bar.
* ``attribute_columns``: the columns of that file that say by attribute, or by item, what a query asks.
* ``schema_file`` (schema.json): the schema of a table with the words of its codebook.
* ``items_file`` (items.parquet): the names of items, listed or discovered. ``discovery_section`` and ``discovery_plan``
  say in the certificate and in a plan how they are discovered.
* ``model_file`` (model.npz, baskets.npz): the model of a table or of baskets, which gives more synthetic rows.
* ``plan_report``: the output of ``marquee plan``. ``public_domain`` words its attributes and queries.
* ``plan_comparison``: mechanisms side by side, and errors against epsilon.
* ``counted_rows``: which rows a release counts, in words.

``pipelines.generate.rows`` writes the synthetic rows, and ``jobs.release.publish`` makes the whole folder appear at
once.
"""

from __future__ import annotations
