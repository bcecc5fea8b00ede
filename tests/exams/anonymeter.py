"""Anonymeter: singling out, linkability and inference."""

from __future__ import annotations

from tests.exams.exam import Check, Exam, Explanation

NO_PROOF = "The attack may be weak: a value near 0 is no proof of privacy, and a guarantee needs none of it."


def _attack(name: str, what: str) -> dict[str, Explanation]:
    return {
        f"{name}: risk": Explanation(
            "near 0",
            f"{what} The risk is the success on released people beyond that on other people, as a share of what was "
            "possible: 0 if the synthetic rows help against members no more than against anyone.",
            NO_PROOF,
        ),
        f"{name}: risk, lower": Explanation(
            "0", "Lower end of the 95 % interval of the risk.", "One interval in twenty misses the truth by design."
        ),
        f"{name}: risk, upper": Explanation(
            "near 0",
            "Upper end of the 95 % interval of the risk.",
            "It bounds this attack and no other; its width is that of a few hundred attacks.",
        ),
        f"{name}: success on released": Explanation(
            "near the success on others",
            "Share of attacks on released people that succeed.",
            "A high value alone is no leak: what holds for the population is inferred about everybody.",
        ),
        f"{name}: success on others": Explanation(
            "neither: a reference",
            "Share of attacks that succeed on people who are not in the data.",
            "It is not a risk of the release: it would be the same without these people in the data.",
        ),
    }


EXAM = Exam(
    "anonymeter",
    "Anonymeter: three attacks beside non-private controls",
    "50 attempts at singling out (predicates over 4 attributes), 100 at linking two halves of the attributes, 100 at "
    "inferring one attribute from all others; each also on people held out.",
    (
        "singling out: risk", "singling out: risk, lower", "singling out: risk, upper", "linkability: risk",
        "linkability: risk, upper", "inference: risk", "inference: risk, lower", "inference: risk, upper",
    ),
    _attack("singling out", "A predicate that is true of one synthetic row is guessed to be true of one released person.")
    | _attack("linkability", "Two halves of a person's attributes are linked through the nearest synthetic row.")
    | _attack("inference", "A person's secret attribute is read from the nearest synthetic row."),
    (
        Check(
            "the attacks work: on a copy of the data the intervals of singling out and of inference lie above 0.2",
            lambda by: min(by["copy of the data"][f"{name}: risk, lower"] for name in ("singling out", "inference")) > 0.2,
        ),
        Check(
            "every release at epsilon 1 has risks below 0.2",
            lambda by: max(
                scores[f"{attack}: risk"]
                for name, scores in by.items()
                if name.endswith("epsilon 1")
                for attack in ("singling out", "linkability", "inference")
            ) < 0.2,
        ),
    ),
    tables=("census",),
)  # fmt: skip
