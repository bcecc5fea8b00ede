"""Clipping: estimates of what contribution clipping took from conjunctions, and their completion and shrinkage.

Open first: ``expected_loss.py``. The steps are independent of each other, and
``dpcore.mechanisms.clipping.clipped_gaussian`` runs all three.

    expected_loss.py: the counts that each clipped answer is expected to lack.
    column_factors.py: predictions of conjunctions from each other, by a low-rank factorisation with cross-fitting.
    shrinkage.py: noisy answers moved towards those predictions, by empirical Bayes with a limited translation.
"""

from __future__ import annotations
