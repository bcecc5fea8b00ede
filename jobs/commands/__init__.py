"""The commands of ``marquee``. Each file defines one command: what it reads, which function it calls, what it prints.

Open ``run`` first: it turns a config into a job (``jobs.planning.job``) and the job into a release
(``jobs.release.run``). ``plan`` stops after the job, ``validate`` reads the data without releasing anything, and
``evaluate`` compares a release with the exact answers. ``verify`` checks a published folder (``jobs.verification``).
``schema`` drafts and checks schema files (``jobs.drafting``), and ``table`` shows marginals (``jobs.reading``).
``status`` and ``budget`` (with ``jobs.budget_lines``) read and change the ledger, ``generate`` and ``demo`` generate
data, and ``warm`` compiles the numerical kernels.
"""
