"""Clipping: predictions and shrinkage of clipped answers of conjunctions, and their expected loss by clipping.

Open ``expected_loss.py`` first. The three steps are independent of each other;
``dpcore.mechanisms.clipping.clipped_gaussian`` runs all of them.

    expected_loss.py: the counts that each clipped answer is expected to lack.
    column_factors.py: predictions of conjunctions from each other, by a low-rank factorisation with cross-fitting.
    shrinkage.py: noisy answers moved towards those predictions, by empirical Bayes with limited translation.
"""

from __future__ import annotations
