"""The section ``series`` of a config: which step of a series of releases this release is."""

from __future__ import annotations

from pydantic import Field

from jobs.config.section import Positive, Section


class SeriesStep(Section):
    """One release of a series, of which all releases together are charged once, with the first.

    The series is the config without this section and without dataset.snapshot and the version of a table.
    """

    step: Positive = Field(
        description="Number of the step, from 1: the position of a value of mechanism.attribute. The steps of a series "
        "are released in their order, each from the rows up to its step."
    )
