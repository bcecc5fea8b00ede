"""How good the answers of a release are, as far as its error bars say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.outputs.answers_table import attribute_names


@dataclass(frozen=True)
class Quality:
    """The error bars of some answers. Public.

    about: Which answers, in words.
    answers: Number of answers.
    with_interval: How many of them have an interval.
    median_width: Median half width of the intervals, in counts; None without any.
    largest_width: Largest half width, in counts; None without any.
    """

    about: str
    answers: int
    with_interval: int
    median_width: float | None
    largest_width: float | None


def qualities(answers: pa.Table) -> list[Quality]:
    """The error bars of the answers, by number of attributes or items that a query names, smallest first.

    answers: ``ReleaseFolder.answers``.
    """
    orders = orders_of(answers)
    if orders is None:
        return [_quality("all answers", answers)]
    return [
        _quality(_about(int(order)), answers.filter(pa.array(orders == order))) for order in np.unique(orders).tolist()
    ]


def orders_of(answers: pa.Table) -> NDArray[np.int64] | None:
    """How many attributes or items each query names, int64 [answers]; None if the columns do not say."""
    further = attribute_names(answers.column_names)
    if "items" in further and pa.types.is_list(answers.schema.field("items").type):
        return np.asarray(pc.list_value_length(answers["items"]).to_numpy(), dtype=np.int64)
    if not further:
        return None
    return np.asarray(np.sum([pc.is_valid(answers[name]).to_numpy() for name in further], axis=0), dtype=np.int64)


def _about(order: int) -> str:
    if order == 0:
        return "the number of rows"
    return f"queries about {order} attribute{'s' if order > 1 else ''} or item{'s' if order > 1 else ''}"


def _quality(about: str, answers: pa.Table) -> Quality:
    widths = pc.divide(pc.subtract(answers["upper"], answers["lower"]), 2.0)
    known = widths.drop_null().to_numpy()
    if not len(known):
        return Quality(about, len(answers), 0, None, None)
    return Quality(about, len(answers), len(known), float(np.median(known)), float(known.max()))
