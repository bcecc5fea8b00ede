"""The commands of ``marquee``, one file per command: what it reads, which function it calls, and what it prints.

Open ``run`` first: a config becomes a job (``jobs.planning.job``), and the job a release (``jobs.release.run``).
``plan`` stops after the job, ``validate`` reads the data without releasing anything, and ``evaluate`` compares a
release with the exact answers. ``status`` and ``budget`` talk to the ledger, ``generate`` and ``demo`` make data, and
``warm`` compiles kernels.
"""
