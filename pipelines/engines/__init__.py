"""Engines: three ways to sum an aggregator over all units. Every engine gives the same integers, bit for bit.

* ``statistics``: the ``Engine`` interface, and the exact statistics that the kernel reads. Open it first.
* ``local``: the default engine, which uses threads of this process.
* ``spark`` and ``beam``: engines on many processes or machines, which need the extras of the same names.
* ``worker_tasks``: the tasks of Spark and Beam, which read files, send rows to buckets of whole units, and count a
  bucket. ``spark`` and ``beam`` only connect these tasks.
* ``spark_frames``: DataFrames as sources, and Spark Connect. ``spark_session``: opens sessions of Spark.
  ``spark_catalog``: tables of Spark's catalogs as DataFrames. ``spark_filter``: the public filter as Spark's condition.
* ``claim``: the claim that files hold whole units, which is checked once for each source.
* ``accumulation``: the step that every engine runs on batches of whole units, which gives an accumulator.
* ``parts``: splits files along row groups. ``progress``: how far reading is, for whoever listens.
* ``failures``: tasks whose errors have no data values. ``java``: finds a Java for Spark.
"""
