"""SDMetrics: the quality and the diagnostic report."""

from __future__ import annotations

from tests.exams.exam import Check, Exam, Explanation

EXAM = Exam(
    "sdmetrics",
    "SDMetrics: quality and diagnostic reports",
    "The two reports of SDMetrics with their defaults, on all released and all synthetic rows.",
    ("quality", "column shapes", "column pair trends", "diagnostic"),
    {
        "quality": Explanation(
            "near 1",
            "The mean of column shapes and column pair trends: how near one-way and two-way distributions are to the data.",
            "It says nothing about triples and higher orders, and nothing about privacy: a copy of the data scores 1.",
        ),
        "column shapes": Explanation(
            "near 1",
            "One minus the distance of each one-way distribution (total variation, or Kolmogorov-Smirnov where codes are "
            "numbers), averaged over attributes.",
            "Independent attributes score as high as a good model.",
        ),
        "column pair trends": Explanation(
            "near 1",
            "One minus the distance of each pair: total variation of the two-way table, or half the difference of the "
            "correlations where both attributes are numbers.",
            "The scale flatters weak dependence: compare with the independent release beside, and not with 0.",
        ),
        "diagnostic": Explanation(
            "1",
            "Whether every value lies in the range or among the categories that the data have, and every column is there.",
            "A value below 1 is no defect of a private release: categories that the schema declares and that nobody in the "
            "data has may be drawn, because which categories occur is private.",
        ),
    },
    (
        Check(
            "aim at epsilon 1 keeps pairs better than independent attributes",
            lambda by: by["aim, epsilon 1"]["column pair trends"] > by["independent, epsilon 1"]["column pair trends"],
        ),
        Check(
            "uniform rows have the lowest quality",
            lambda by: min(by, key=lambda name: by[name]["quality"]) == "uniform",
        ),
    ),
)  # fmt: skip
