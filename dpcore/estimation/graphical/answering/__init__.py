"""Answering: what a fitted model says about marginals, products, conjunctions and parities, and its file.

* ``model``: open first. ``GraphicalModel``, a junction tree with a conditional table for each node; implements
  ``Model``.
* ``answers``: queries over one-hot columns (conjunctions and parities), in groups that share their attributes.
* ``calibrated``: ``Calibrated``, which answers marginals and products of any cliques with bounded memory.
* ``tree_routing``: at which node the attributes of a query meet, and through which edges the messages come.
* ``restriction``: one request: factors, ranges of values, and where the answer goes.
* ``contraction``: products of tables over labelled axes, and the cache of tables that later queries share.
* ``serialization``: ``save_model`` and ``load_model``, numpy arrays and JSON in a zip archive.

Use ``GraphicalModel.answer`` unless a caller has conditionals without a model; then use ``Calibrated``.
"""

from __future__ import annotations
