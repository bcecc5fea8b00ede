"""Facts about the series that a release is a step of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from dpcore.domain import Domain


@dataclass(frozen=True)
class SeriesFacts:
    """A step of a series of releases, all of which are charged once. Public.

    series_id: SHA-256 of what all releases of the series have in common.
    step: Number of the step, from 1.
    steps: Number of all steps.
    attribute: The attribute whose values are the steps.
    strategy: SHA-256 of what all steps together measure, and with which noise.
    matrix: The strategy as text (``ContinualStrategy.to_text``), which the ledger records with the first step.
    """

    series_id: str
    step: int
    steps: int
    attribute: str
    strategy: str
    matrix: str = field(default="", repr=False, compare=False)

    @property
    def named(self) -> dict[str, object]:
        """The facts by name, without the strategy itself."""
        return {name: value for name, value in asdict(self).items() if name != "matrix"}

    @property
    def described(self) -> str:
        """Series and step, for a message."""
        return f"step {self.step} of {self.steps:,} of series {self.series_id[:12]}"


def number_of_steps(domain: Domain, attribute: str) -> int:
    """The number of codes of the attribute whose values are the steps."""
    return int(domain.shape((attribute,))[0])
