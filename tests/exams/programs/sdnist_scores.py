"""SDNist: the metrics of its report, on tables that are not its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

import sdnist.report  # noqa: F401 - its metrics import each other through it
from question import Question, answer
from sdnist.metrics.kmarginal import KMarginal
from sdnist.metrics.pearson_correlation import PearsonCorrelationDifference
from sdnist.metrics.propensity import PropensityMSE
from sdnist.metrics.unique_exact_matches import unique_exact_matches

asked = Question()
target, synthetic = asked.released, asked.synthetic
correlation = PearsonCorrelationDifference(target, synthetic, asked.ordered)
correlation.compute()
with tempfile.TemporaryDirectory() as folder:
    propensity = PropensityMSE(target, synthetic, Path(folder)).compute_score()
_, matched, _, unique = unique_exact_matches(target, synthetic)
_, matched_others, _, _ = unique_exact_matches(asked.held_out, synthetic)
# A constant column has no correlation: it counts as 0.
difference = correlation.pp_corr_diff.fillna(0).abs().to_numpy()
answer({
    "k-marginal": KMarginal(target, synthetic).compute_score(),
    "propensity": propensity,
    "correlation difference": difference.mean(),
    "unique matches, %": matched,
    "unique matches among others, %": matched_others,
    "unique people, %": unique,
})  # fmt: skip
