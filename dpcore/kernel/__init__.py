"""The trusted kernel: the only code that holds exact data and draws noise. ``dpcore/PRIVACY.md`` has the proofs.

Open ``private_statistics`` first: its verbs (measure, measure_rows, measure_errors, select, sample, retain) are the
only calls through which a mechanism learns anything about the data. Each verb checks its arguments, charges the filter,
reads the exact answers, draws, and stores the answer in the journal, in this order.

``private_items`` has the one verb that comes before a mechanism: it discovers names of items, in the same order of
steps; ``item_threshold`` has its proof.

* Accounting: ``budget`` (privacy amounts and the filter that bounds their sum), ``privacy_terms`` (the cost of each
  call, from public facts), ``scales`` (from a cost to a noise scale), ``conversion`` (to epsilon and delta),
  ``gaussian_dp`` (Gaussian DP of selections and draws), ``events`` (calls that a plan fixes in advance), ``ports`` (the
  interfaces of a ledger and a journal).
* Sensitivity: ``sensitivity``, with ``product_sensitivity``, ``symmetric_sensitivity`` and ``clipped_sensitivity``.
* Series of releases: ``series`` (rows of one strategy that are measured at different times).
* Scores of selections: ``scores`` (the closed set), with ``l1_scores``, ``dependence`` and ``normalised_scores``.
* Exact answers: ``exact_answers`` (requests, checks and caches them), ``arguments`` (checks what a mechanism passes),
  ``integers`` (sums beyond 64 bits).
* Noisy answers: ``noisy_answers`` (measurements, and what may have been clipped), ``acceptance_gaps`` (bits of retain).
* Additive noise: ``noise``, with ``envelope``, ``certified_rejection``, ``exact_rejection`` and ``blocks`` (threads).
* Other samplers: ``noisy_maximum`` for selections; ``log_weights`` and ``weighted_sampler`` for draws; ``bernoulli``
  for acceptance bits.
* Beneath all samplers: ``entropy`` (random bits of the operating system, without a seed), ``certified_exp`` and
  ``exact_exp`` (the exponential function with proved error bounds).
"""
