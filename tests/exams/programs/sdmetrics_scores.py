"""SDMetrics: its quality report and its diagnostic report."""

from __future__ import annotations

from question import Question, answer
from sdmetrics.reports.single_table import DiagnosticReport, QualityReport

asked = Question()
kinds = {name: "numerical" if name in asked.ordered else "categorical" for name in asked.names}
metadata = {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}
quality, diagnostic = QualityReport(), DiagnosticReport()
quality.generate(asked.released, asked.synthetic, metadata, verbose=False)
diagnostic.generate(asked.released, asked.synthetic, metadata, verbose=False)
parts = quality.get_properties().set_index("Property")["Score"]
answer({
    "quality": quality.get_score(),
    "column shapes": parts["Column Shapes"],
    "column pair trends": parts["Column Pair Trends"],
    "diagnostic": diagnostic.get_score(),
})  # fmt: skip
