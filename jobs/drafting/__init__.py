"""Drafts and checks of schema files. Only names and types of columns are read, never values, and nothing is inferred.

* ``draft``: start here. The YAML draft, with questions where only a person can answer.
* ``variables``: what is known of one attribute before a person has said the rest.
* ``columns``: names and types of the columns of a file, without its values.
* ``codebooks``: reads a codebook: CSV here, DDI in ``ddi``, Frictionless table schemas in ``frictionless``.
* ``checking``: what a schema file says in full, what is unfinished, and whether columns of a file fit.
* ``json_schema``: the JSON Schema of schema files, for editors.
"""

from __future__ import annotations
