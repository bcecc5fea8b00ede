"""Reliability: what faults, hostile bytes, hostile units and long series do to releases.

``make soak`` runs every part at full size.

A part is a module with ``TITLE``, ``CLAIM`` and ``run(size)``, as in ``tests/audit``, and a name in ``parts``. Its
test runs it at the fast size and plants a fault that it must report.

* ``fuzzing``: mutated configs, schemas, query files, Parquet files, releases, journals, models and ledgers. Open it
  first for how inputs are run; ``fuzz_targets`` lists the readers, ``fuzz_seeds`` makes valid inputs from a real
  release, ``fuzz_mutations``, ``fuzz_parquet`` and ``fuzz_ledger`` change them, and ``fuzz_worker`` runs them in a
  process of its own.
  ``regressions`` holds the smallest inputs that once crashed a reader.
* ``faults``: crashes, full and read-only disks, failing stores, clocks, races and damaged data, at every named point of
  a release. ``drivers`` forks runs from a warm process, ``scene`` prepares them, ``trials`` judges what is left, and
  ``injections``, ``data_faults``, ``failing_store`` and ``other_faults`` hold the faults.
* ``soak``: a long series of scheduled releases over growing data, with the faults of ``daily_faults``.
* ``influence``: units that a hill climbing search makes as influential as it can, against the sensitivities that the
  kernel charges for. ``influence_data`` makes and changes their rows, and ``influence_checks`` measures them.
"""
