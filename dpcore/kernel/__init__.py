"""The trusted kernel: the only code that holds exact data and draws noise. ``dpcore/PRIVACY.md`` has the proofs.

Open ``private_statistics`` first: its verbs (measure, select, sample, retain) are the only way to anything private.
Each verb checks its arguments, is charged, reads the exact answers, draws, and writes to the journal, in this order.

* Terms and budget: ``privacy_terms`` (what a call costs, from public facts), ``budget`` (amounts, and the filter that
  no charge passes once they are spent), ``conversion`` (to epsilon and delta), ``gaussian_dp``, ``events`` (calls that
  plans list), ``scales`` (from a cost to a noise scale), ``ports`` (what a ledger and a journal must do).
* Sensitivity: ``sensitivity``, with ``product_sensitivity``, ``symmetric_sensitivity`` and ``clipped_sensitivity``.
* Scores of selections: ``scores``, the closed set, with ``l1_scores``, ``dependence``, ``normalised_scores``,
  ``log_weights``.
* Exact answers: ``exact_answers``, ``arguments``, ``integers``, ``blocks``.
* Noise: ``entropy`` (the operating system's, without a seed), ``noise`` with ``envelope``, ``certified_rejection`` and
  ``exact_rejection``; ``noisy_maximum`` for selections; ``weighted_sampler`` for draws; ``bernoulli`` for bits;
  ``certified_exp`` and ``exact_exp`` beneath them.
"""
