"""Answering: a fitted model's answers to marginals, products, conjunctions and parities, and its file format.

* ``model``: open first. ``GraphicalModel``, a junction tree with a conditional table for each node; implements
  ``Model``.
* ``answers``: queries over one-hot columns (conjunctions and parities), in groups that share their attributes.
* ``calibrated``: ``Calibrated`` answers marginals and products on any cliques in bounded memory.
* ``within_nodes``: marginals of many cliques of one large node, which share the passes over its table.
* ``tree_routing``: the node at which messages about a query's attributes meet, and the edges through which they come.
* ``restriction``: the factors of a query, and ranges of values to which attributes are restricted.
* ``contraction``: products of tables over labelled axes, and the cache of tables that later queries share.
* ``serialization``: ``save_model`` and ``load_model``, numpy arrays and JSON in a zip archive.

Use ``GraphicalModel.answer``. Callers that have conditionals but no model use ``Calibrated``.
"""

from __future__ import annotations
