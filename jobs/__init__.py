"""Turns a config into a published release: parse, plan, reserve, run, write.

A release passes through these folders:

1. ``config/`` reads and checks the YAML config.
2. ``workload/`` builds the queries, and ``mechanisms`` builds the mechanism with its settings.
3. ``planning/`` combines both into a ``Job``, which holds everything public about the release. No data are read yet.
4. ``ledger/`` keeps the privacy budget of each dataset and charges the release to it.
5. ``release/`` runs the job. Open ``release/run`` first: it connects engine, kernel, mechanism, journal and outputs.
6. ``outputs/`` writes the files of the published folder.
7. ``verification/`` checks a published folder, for ``marquee verify`` and before a run says that it is published.

Published folders are read by ``reading/`` (answers, marginals, cross tables) and ``report/`` (the HTML report for
everyone); ``evaluation_report/`` writes its SENSITIVE twin. ``drafting/`` drafts and checks schemas. ``diagnosis/``
checks the machine and what a config needs, for ``marquee doctor``.

``cli`` and ``commands/`` are the command line. ``spark_release`` and ``beam_release`` are the main programs for
spark-submit and Beam. ``exit_codes`` turns an exception into one sentence and an exit code. ``log`` writes events to
stderr, ``sensitive`` marks exact figures, ``permissions`` says who may open the ledger and the state folder,
``budget_lines`` words what ``marquee budget`` prints, and ``budget_facts`` gives it as JSON. ``progress`` draws
progress bars, and ``heartbeat`` writes signs of life where there is no terminal. ``tables`` prints results as tables,
and ``wording`` puts numbers into sentences. ``threads`` limits the threads of linear algebra for the whole process.
"""

from __future__ import annotations

from jobs.threads import limit_threads

limit_threads()
