"""Makes a release, from its reservation in the ledger to its published folder, and uses published releases.

* ``run``: start here. It connects ledger, engine, kernel, mechanism and outputs, and contains no algorithm itself.
* ``input``: opens the data (files, tables of catalogs, frames), and notices data that change while they are read.
* ``discovery``: the stage that discovers items, before the queries are built.
* ``inspection``: what ``marquee validate`` counts. SENSITIVE.
* ``journal``: stores the kernel's answers. Each is on disk before it is used, so that a killed run can be continued.
* ``open_journal``: opens a journal, checked against the ledger.
* ``series``: what a step of a series needs: the answers of earlier steps, and proof that their rows are the same.
* ``lock``: allows one run of a release at a time.
* ``publish``: makes the release's folder appear whole or not at all.
* ``signing``: signs its manifest, if there is a key.
* ``finished``: finds out whether a release is already published.
* ``other_version``: does so for a release that another version of the program has made.
* ``evaluation``: compares a published release with the exact answers. SENSITIVE.
* ``more_rows``: draws more synthetic rows of a published release, which costs no budget.
"""

from __future__ import annotations
