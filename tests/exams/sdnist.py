"""SDNist: metrics of its report, on tables that are not its own."""

from __future__ import annotations

from tests.exams.exam import Check, Exam, Explanation


def _excess(scores: dict[str, float]) -> float:
    return scores["unique matches, %"] - scores["unique matches among others, %"]


EXAM = Exam(
    "sdnist",
    "SDNist: metrics of its report",
    "The k-marginal, propensity, correlation and unique-match metrics of SDNist. Its report itself wants the excerpts of "
    "the American Community Survey, which none of its packages contains (the wheels of 2.1.1 and 2.4 were searched; its "
    "program downloads them from the releases of its repository, which could not be reached). The metrics take any table, "
    "so they ran on the tables below; the scores are not comparable with published ones of the excerpts.",
    (
        "k-marginal", "propensity", "correlation difference", "unique matches, %", "unique matches among others, %",
        "unique people, %",
    ),
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
            "near the value among others",
            "Share of the released people whose combination of all attributes is unique in the data, whose combination also "
            "occurs among the synthetic rows.",
            "A match is no disclosure: in small domains a good model matches people whom it never saw. Above the value "
            "among others it is a warning; near it, it proves nothing.",
        ),
        "unique matches among others, %": Explanation(
            "neither: a reference",
            "The same share among people held out, whom the release never saw.",
            "It is no risk of the release: these people are not in it.",
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
            "a copy of the data matches unique released people more than unique people held out, by thirty points or more",
            lambda by: _excess(by["copy of the data"]) >= 30,
        ),
        Check(
            "aim at epsilon 1 matches unique released people no more than unique people held out, by two points at most",
            lambda by: _excess(by["aim, epsilon 1"]) <= 2,
        ),
    ),
)  # fmt: skip
