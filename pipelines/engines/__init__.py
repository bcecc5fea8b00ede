"""Engines: three ways to sum one aggregator over all units. Every engine gives the same integers, bit for bit.

* ``statistics``: the ``Engine`` interface, and the exact statistics that the kernel reads. Open it first.
* ``local``: threads of this process, the default; ``spark`` and ``beam`` need their extras and spread over processes.
* ``worker_tasks``: where a task of Spark or Beam begins. It reads files, moves rows to buckets of whole units, and
  counts a bucket; ``spark`` and ``beam`` only connect these functions.
* ``accumulation``: the step that every engine runs in the end: batches of whole units in, an accumulator out.
* ``parts``: files split along row groups; ``failures``: errors without data values; ``java``: the Java for Spark.
"""
