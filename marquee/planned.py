"""What a release would cost and do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from jobs.commands.plan import ledger_facts
from jobs.outputs.plan_report import LedgerFacts, plan_facts, plan_lines
from jobs.planning.job import Job
from jobs.release.signing import signer
from marquee.html import key_values


@dataclass(frozen=True, eq=False)
class Plan:
    """A release that was not made yet. ``print`` shows what ``marquee plan`` prints.

    job: The release.
    ledger: What its ledger says about it.
    signed_by: Fingerprint of the key that will sign it; None if it will not be signed.
    """

    job: Job = field(repr=False)
    ledger: LedgerFacts = field(repr=False)
    signed_by: str | None = None

    @classmethod
    def of(cls, job: Job) -> Self:
        """The plan of a job. The ledger is asked, if there is one."""
        key = signer(job.config.output.signing_key)
        return cls(job, ledger_facts(job), None if key is None else key.fingerprint)

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that ``marquee plan --json`` prints, by name."""
        return dict(plan_facts(self.job, self.ledger, self.signed_by))

    @property
    def release_id(self) -> str:
        """SHA-256 of the release's public facts."""
        return self.job.release_id

    @property
    def mechanism(self) -> str:
        """Name of the mechanism. ``recommended`` is resolved."""
        return self.job.config.mechanism.name

    @property
    def recommended(self) -> str:
        """Name of the mechanism that is recommended for this workload and budget."""
        return str(self.facts["recommended"]["name"])

    @property
    def charge(self) -> str:
        """What the ledger would charge, or why it would refuse."""
        return self.ledger.charge

    @property
    def answers(self) -> int:
        """Number of queries that the release answers."""
        return self.job.answered.requested.size

    @property
    def predicted_error(self) -> float | None:
        """Expected error per answer in counts, of the noise alone; None if there is no useful formula."""
        return self.job.plan.predicted_error

    @property
    def memory_bytes(self) -> int:
        """Memory of the driver, in bytes."""
        return int(self.job.plan.memory_bytes)

    def __str__(self) -> str:
        return "\n".join(plan_lines(self.job, self.ledger, self.signed_by))

    def __repr__(self) -> str:
        return f"<Plan {self.release_id[:12]}: {self.answers:,} answers by {self.mechanism}; charge {self.charge}>"

    def _repr_html_(self) -> str:
        *lines, last = plan_lines(self.job, self.ledger, self.signed_by)
        return key_values("Plan of a release", [_split(line) for line in lines], last)


def _split(line: str) -> tuple[str, str]:
    """A line of a plan as its key and its text."""
    key, _, text = line.partition("  ") if line.startswith("signed by") else line.partition(" ")
    return key, text.strip()
