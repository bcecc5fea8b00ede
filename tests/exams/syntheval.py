"""SynthEval: utility, nearest neighbours, and a membership classifier."""

from __future__ import annotations

from tests.exams.exam import Check, Exam, Explanation

EXAM = Exam(
    "syntheval",
    "SynthEval: utility beside membership inference",
    "Utility and privacy metrics of SynthEval on random 3,000 rows each of the released people, the people held out and "
    "the synthetic rows.",
    (
        "hellinger distance", "propensity", "accuracy lost", "neighbour privacy loss", "membership precision",
        "membership precision, standard error", "membership recall",
    ),
    {
        "hellinger distance": Explanation(
            "near 0",
            "Hellinger distance of each one-way distribution, averaged over attributes.",
            "It sees no dependence: independent attributes do as well as a model.",
        ),
        "propensity": Explanation(
            "near 0",
            "Mean squared distance between a logistic regression's probability that a row is synthetic and a half, in "
            "cross-validation.",
            "A linear classifier sees one-way distributions and hardly anything else.",
        ),
        "accuracy lost": Explanation(
            "near 0",
            "Accuracy on people held out that classifiers trained on released people have, less that of classifiers "
            "trained on synthetic rows (logistic regression and random forest, averaged).",
            "One attribute is predicted; other tasks may lose more. A few thousandths either way are noise.",
        ),
        "neighbour privacy loss": Explanation(
            "near 0",
            "How much nearer synthetic rows lie to released people than to people held out (difference of nearest-"
            "neighbour adversarial accuracies).",
            "0 does not prove privacy: the metric averages over everyone and would miss one person who leaks. The "
            "guarantee is that of the certificate.",
        ),
        "membership precision": Explanation(
            "near 0.5",
            "Of the people whom a gradient-boosted classifier calls members, the share that are: half of the people in its "
            "test are, so a guess has 0.5.",
            "A weak attack failing is weak evidence: the control with the copy shows how little this attack finds even "
            "where everything leaks.",
        ),
        "membership precision, standard error": Explanation(
            "small",
            "Standard error of the precision over the five runs of the attack.",
            "The runs share rows, so the true uncertainty is larger.",
        ),
        "membership recall": Explanation(
            "read beside precision",
            "Share of the members whom the attack calls members.",
            "Calling everybody a member has recall 1; without precision above 0.5 it means nothing.",
        ),
    },
    (
        Check(
            "nearest neighbours give away a copy of the data: privacy loss above 0.1",
            lambda by: by["copy of the data"]["neighbour privacy loss"] > 0.1,
        ),
        Check(
            "nearest neighbours do not give away aim at epsilon 1: privacy loss below 0.05",
            lambda by: by["aim, epsilon 1"]["neighbour privacy loss"] < 0.05,
        ),
        Check(
            "the membership attack on aim at epsilon 1 has precision below 0.55",
            lambda by: by["aim, epsilon 1"]["membership precision"] < 0.55,
        ),
    ),
    tables=("census",),
)  # fmt: skip
