"""One marginal of a release, with its error bars."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.queries import Marginals
from jobs.outputs.answers_table import attribute_names
from jobs.outputs.attribute_columns import column_of
from jobs.reading.release_folder import ReleaseFolder
from pipelines.attributes import Attribute
from pipelines.layout import TableLayout

PUBLISHED = "published answers"
MODEL = "answers of the release's model, which have no intervals"
SUM = "sums of published answers, whose intervals are not known"
BARS: Final = ("answer", "stddev", "lower", "upper")
"""The columns of answers.parquet with an answer and its error bar."""


@dataclass(frozen=True, eq=False)
class Marginal:
    """A marginal: one count for each combination of labels. Public.

    attributes: Names of the attributes, in the order of the axes.
    labels: Labels of each attribute, in the order of its codes.
    answer: Counts, float64 [labels of each attribute].
    stddev: Standard deviation of each count, of the same shape; NaN where it is unknown.
    lower: Lower end of the 95 % interval of each count, of the same shape; NaN where it is unknown.
    upper: Upper end of the same interval.
    source: Where the counts come from: ``PUBLISHED``, ``MODEL`` or ``SUM``.
    """

    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    answer: NDArray[np.float64]
    stddev: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    source: str


def marginal(folder: ReleaseFolder, names: Sequence[str]) -> Marginal:
    """The marginal over some attributes, from the published answers if it is one of them, otherwise from the model.

    Where answers are consistent estimates of their own, sums of a published marginal come before the model of the rows.

    folder: The release, of a table.
    names: Attributes, each once; none for the number of rows.

    Raises: ConfigError when there is no such attribute, or the release answers no such marginal.
    """
    attributes = _attributes(folder, names)
    result = published(folder, attributes) or _of_larger(folder, attributes) or _of_model(folder, attributes)
    if result is None:
        raise ConfigError(_missing(folder, names))
    return result


def published(folder: ReleaseFolder, attributes: Sequence[Attribute]) -> Marginal | None:
    """The marginal from the published answers; None if it is not one of them."""
    table = _with_attributes(folder, attributes)
    if table is None:
        return None
    sizes = [attribute.size for attribute in attributes]
    cells = np.zeros(len(table), dtype=np.int64)
    for attribute in attributes:
        codes = pc.index_in(table[column_of(attribute.name)], pa.array(attribute.labels, pa.string()))
        codes = pc.fill_null(codes, -1).to_numpy()
        # A prefix or a range is no label of a code. Its cell becomes negative, and stays so.
        cells = np.where((codes < 0) | (cells < 0), -1, cells * attribute.size + codes)
    known, rows = np.unique(cells, return_index=True)
    rows = rows[known >= 0]
    if len(rows) != math.prod(sizes):
        return None
    columns = {name: table[name].to_numpy()[rows].astype(np.float64).reshape(sizes) for name in BARS}
    return Marginal(*_axes(attributes), **columns, source=PUBLISHED)


def _with_attributes(folder: ReleaseFolder, attributes: Sequence[Attribute]) -> pa.Table | None:
    """The answers to queries about exactly these attributes; None where no query names one of them."""
    answers = folder.answers
    further = attribute_names(answers.column_names)
    named = {column_of(attribute.name) for attribute in attributes}
    if not named <= set(further):
        return None
    counted = pc.is_in(answers["kind"], pa.array(["marginal", "linear"]))
    for column in further:
        asked = pc.is_valid(answers[column])
        counted = pc.and_(counted, asked if column in named else pc.invert(asked))
    if not named:
        counted = pc.and_(counted, pc.equal(answers["query"], "all"))
    return answers.filter(counted)


def _of_larger(folder: ReleaseFolder, attributes: Sequence[Attribute]) -> Marginal | None:
    """Sums of the smallest published marginal with further attributes; None where answers have no common sums."""
    name = folder.certificate.mechanism.name
    if name not in MECHANISMS or not MECHANISMS[name].traits.own_answers:
        return None
    columns = attribute_names(folder.answers.column_names)
    wanted = {column_of(attribute.name) for attribute in attributes}
    if not wanted < set(columns):
        return None
    asked = np.stack([pc.is_valid(folder.answers[column]).to_numpy(zero_copy_only=False) for column in columns])
    holds = asked[[columns.index(column) for column in wanted]].all(axis=0)
    if not holds.any():
        return None
    row = int(np.argmin(np.where(holds, asked.sum(axis=0), len(columns) + 1)))
    among = {column for column, is_asked in zip(columns, asked[:, row], strict=True) if is_asked}
    others = [other for other in folder.schema.attributes if column_of(other.name) in among - wanted]
    whole = published(folder, [*attributes, *others])
    return None if whole is None else summed(whole, [attribute.name for attribute in attributes])


def _of_model(folder: ReleaseFolder, attributes: Sequence[Attribute]) -> Marginal | None:
    if folder.model is None:
        return None
    check_named(folder, [attribute.name for attribute in attributes])
    domain = folder.schema.domain
    clique = domain.canonical(attribute.name for attribute in attributes)
    values = folder.model.answer(Marginals(domain, (clique,))).reshape(domain.shape(clique))
    answer = np.transpose(values, [clique.index(attribute.name) for attribute in attributes])
    unknown = np.full(answer.shape, np.nan)
    return Marginal(*_axes(attributes), answer, unknown, unknown, unknown, source=MODEL)


def check_named(folder: ReleaseFolder, names: Iterable[str]) -> None:
    """Checks that the queries of a release name some attributes. A model may have more, of which it knows nothing.

    folder: The release.
    names: Attributes. One that the schema lacks is left to the caller.

    Raises: ConfigError otherwise.
    """
    if not isinstance(folder.layout, TableLayout):
        return
    columns = set(attribute_names(folder.answers.column_names))
    known = [attribute.name for attribute in folder.schema.attributes]
    named = [name for name in known if column_of(name) in columns]
    # Releases of earlier versions have no column of an attribute.
    if named and (unnamed := [name for name in names if name in known and name not in named]):
        raise ConfigError(
            f"no query of the release names {unnamed[0]!r}, so the release knows nothing of it; want attributes of "
            f"its workload: {named[:20]}"
        )


def summed(whole: Marginal, names: Sequence[str]) -> Marginal:
    """The sums of a marginal over all attributes but some.

    whole: The marginal.
    names: The attributes that remain.
    """
    axes = tuple(axis for axis, name in enumerate(whole.attributes) if name not in names)
    kept = [axis for axis in range(len(whole.attributes)) if axis not in axes]
    answer = whole.answer.sum(axis=axes)
    unknown = np.full(answer.shape, np.nan)
    labels = tuple(whole.labels[axis] for axis in kept)
    source = MODEL if whole.source == MODEL else SUM
    return Marginal(tuple(whole.attributes[axis] for axis in kept), labels, answer, unknown, unknown, unknown, source)


def _axes(attributes: Sequence[Attribute]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The names and the labels of some attributes."""
    return tuple(attribute.name for attribute in attributes), tuple(attribute.labels for attribute in attributes)


def _attributes(folder: ReleaseFolder, names: Sequence[str]) -> tuple[Attribute, ...]:
    known = {attribute.name: attribute for attribute in folder.schema.attributes}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            advice = f"did you mean {near[0]!r}?" if near else f"want one of {list(known)[:20]}"
            raise ConfigError(f"the release has no attribute {name!r}; {advice}")
        if list(names).count(name) > 1:
            raise ConfigError(f"attribute {name!r} is named twice; want each attribute once")
    return tuple(known[name] for name in names)


def _missing(folder: ReleaseFolder, names: Sequence[str]) -> str:
    """Why there is no such marginal, and which others there are."""
    answers = folder.answers
    asked = [name for name in attribute_names(answers.column_names) if answers[name].null_count < len(answers)]
    wanted = " and ".join(map(repr, names)) if names else "no attribute, the number of rows"
    mechanism = folder.certificate.mechanism.name
    return (
        f"the release does not answer the marginal of {wanted}, and {mechanism} has published no graphical model that "
        f"could; its answers are about {asked[:20]}: marquee table FOLDER lists its marginals"
    )


def published_marginals(folder: ReleaseFolder) -> list[tuple[str, ...]]:
    """The attributes of each marginal that the answers of a release contain, in the order of the answers."""
    if not isinstance(folder.layout, TableLayout):
        return []
    answers = folder.answers
    columns = {column_of(attribute.name): attribute.name for attribute in folder.schema.attributes}
    further = [column for column in attribute_names(answers.column_names) if column in columns]
    asked = np.stack([pc.is_valid(answers[column]).to_numpy() for column in further], axis=1) if further else None
    if asked is None or not set(pc.unique(answers["kind"]).to_pylist()) <= {"marginal", "linear"}:
        return []
    _, first = np.unique(asked, axis=0, return_index=True)
    return [tuple(columns[further[axis]] for axis in np.flatnonzero(asked[row])) for row in np.sort(first)]
