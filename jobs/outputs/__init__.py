"""The files that a release writes into its folder, and the report of a plan; all hold public values only.

* ``certificate`` (certificate.json): the guarantee, every charge, and what the guarantee rests on. Open it first.
* ``answers_table`` (answers.parquet): one row per query, with its answer and error bar.
* ``plan_report``: what ``marquee plan`` prints before anything is written.
* ``model_file`` (model.npz): the graphical model, from which more synthetic rows can be drawn.
* ``plan_report``: what ``marquee plan`` prints.

Synthetic rows are written by ``pipelines.generate.rows``; ``jobs.release.publish`` makes the folder appear whole.
"""

from __future__ import annotations
