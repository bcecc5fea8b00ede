"""SDNist: metrics of its report, on tables that are not its own."""

from __future__ import annotations

from tests.exams.exam import Check, Exam, Explanation

EXAM = Exam(
    "sdnist",
    "SDNist: metrics of its report",
    "The k-marginal, propensity, correlation and unique-match metrics of SDNist. Its report itself wants the excerpts of "
    "the American Community Survey, which none of its packages contains (the wheels of 2.1.1 and 2.4 were searched; its "
    "program downloads them from the releases of its repository, which could not be reached). The metrics take any table, "
    "so they ran on the tables below; the scores are not comparable with published ones of the excerpts. The check of unique "
    "matches is stored as it was stated before the run. Its reference, other people, is drawn with replacement and so has "
    "fewer distinct rows (5,406 of 10,000 on census, AIM 9,341), which lowers its matches. Counted apart on census: the "
    "same sample without replacement matches 19.9 %, and AIM's rows match 24.6 % of unique released people but also 24.2 % "
    "of unique people held out, whom the release never saw.",
    ("k-marginal", "propensity", "correlation difference", "unique matches, %", "unique people, %"),
    {
        "k-marginal": Explanation(
            "near 1000",
            "1000 times one minus the total variation distance of a two-way marginal, averaged over all pairs.",
            "1000 is reached by a copy of the data alone; another sample of the same people's population (other people) "
            "shows what sampling by itself costs.",
        ),
        "propensity": Explanation(
            "near 0",
            "Mean squared distance between a decision tree's probability that a row is synthetic and the share of "
            "synthetic rows: 0 if the tree of depth 6 cannot tell the rows apart.",
            "A small value does not mean that no classifier can tell them apart; SDNist scores the tree on its own "
            "training rows, so 0 is not reached even by other people.",
        ),
        "correlation difference": Explanation(
            "near 0",
            "Mean absolute difference of the Pearson correlations over all pairs of ordered attributes.",
            "It ignores attributes whose codes are names, and dependence that is not linear.",
        ),
        "unique matches, %": Explanation(
            "near the value of other people",
            "Share of the people whose combination of all attributes is unique in the data, whose combination also occurs "
            "among the synthetic rows.",
            "A match is no disclosure: in small domains other people match too. Above the value of other people it is a "
            "warning; below, it proves nothing.",
        ),
        "unique people, %": Explanation(
            "neither: a fact about the data",
            "Share of the released people who are unique in all attributes.",
            "It does not depend on the synthetic rows.",
        ),
    },
    (
        Check(
            "aim at epsilon 1 has a higher k-marginal score than independent attributes",
            lambda by: by["aim, epsilon 1"]["k-marginal"] > by["independent, epsilon 1"]["k-marginal"],
        ),
        Check(
            "a copy of the data matches more unique people than other people do",
            lambda by: by["copy of the data"]["unique matches, %"] > by["other people"]["unique matches, %"],
        ),
        Check(
            "aim at epsilon 1 matches no more unique people than other people do, by two points at most",
            lambda by: by["aim, epsilon 1"]["unique matches, %"] <= by["other people"]["unique matches, %"] + 2,
        ),
    ),
)  # fmt: skip
