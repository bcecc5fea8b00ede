"""Differentially private query release: arrays in, arrays out. No file, engine or database is known here.

The packages and modules, in the order of the data flow:

* ``domain``, ``queries``, ``workload``: what is asked. Attributes, linear queries with integer answers, and their
  weights.
* ``exact_statistics``: the door through which exact answers come. SENSITIVE, and open to the kernel and the pipelines
  alone.
* ``kernel``: the trusted part. It derives sensitivities, charges the budget, and only then draws noise. Reviewers open
  ``kernel/private_statistics.py`` first, with ``PRIVACY.md`` beside it.
* ``measurement``: noisy values, public from then on.
* ``strategies``: which queries to measure so that the workload has the least error.
* ``oracles``: which record answers weighted queries best.
* ``estimation``: models fitted to noisy values, and the rows and intervals that follow from them.
* ``mechanisms``: what a config can name. Each asks the kernel, and fits a model. Open ``mechanisms/registry.py`` first.
* ``uncertainty``, ``evaluation``, ``numerical_bound``: error bars; errors against exact answers; a tighter printed
  epsilon.
* ``testing``: the contract that every mechanism keeps, for mechanisms of your own too.
* ``decisions``: why things are as they are, one page for each topic.

``compiled``, ``frozen`` and ``errors`` serve all rooms.
"""
