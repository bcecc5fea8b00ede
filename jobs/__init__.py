"""The jobs: from a config to a published release. Parse, plan, reserve, run, write.

The way of a release, folder by folder:

1. ``config/``: reads and checks the YAML config;
2. ``workload/``: builds the queries; ``mechanisms`` builds the mechanism with its settings;
3. ``planning/``: puts both into a ``Job``, everything public about the release, before any data are read;
4. ``ledger/``: the privacy budget of each dataset, and the charge of the release;
5. ``release/``: runs the job. Open ``release/run`` first: it wires engine, kernel, mechanism, journal and outputs;
6. ``outputs/``: the files of the published folder.

``cli`` and ``commands/`` are the command line. ``spark_release`` and ``beam_release`` are the mains of spark-submit and
Beam. ``exit_codes`` turns exceptions into one sentence and a number; ``log`` writes events and ``progress`` bars.
"""
