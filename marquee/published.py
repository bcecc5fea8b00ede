"""A published release: its answers, tables, rows, certificate and checks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.errors import ConfigError, IntegrityError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.queries import Marginals
from jobs.ledger import SqlLedger
from jobs.objects.output import Output, local_copy, output_of, read_file
from jobs.outputs.certificate_format import Certificate, parse_certificate
from jobs.outputs.model_file import MODEL, read_model
from jobs.verification.manifest import MANIFEST, read_manifest
from jobs.verification.promises import layout_of
from jobs.verification.release import CERTIFICATE, Verification, verify_release
from jobs.verification.signature import read_public_key
from jobs.verification.tables import ANSWERS, SYNTHETIC
from marquee.budgets import Ledger, ledger_url
from marquee.charts import chart
from marquee.cross_table import Table
from marquee.html import key_values
from marquee.intervals import Interval, interval_of, selection
from marquee.released_answers import ALL, Cells, named_attributes, published_marginal, with_attributes
from marquee.synthetic import chosen_rows, codes_of, drawn_rows
from pipelines.layout import Layout, TableLayout

Kind = Literal["arrow", "pandas", "polars"]
_KINDS: Final = ("arrow", "pandas", "polars")


def open(folder: str | os.PathLike[str], *, ledger: str | os.PathLike[str] | Ledger | None = None) -> Release:
    """Opens a published release. Nothing is checked; see ``Release.verify``.

    folder: Its folder, or its URL in an object store.
    ledger: The ledger that was charged, with which ``verify`` can check more.

    Raises: ConfigError when there is no release.
    """
    output = output_of("folder", os.fspath(folder))
    release = Release(output, ledger=None if ledger is None else ledger_url(ledger))
    _ = release.certificate
    return release


@final
class Release:
    """A published release. Everything that it shows is public, and costs no budget.

    folder: Its folder, or the folder in an object store.
    ledger: Database URL of the ledger that was charged; None if it is not known.
    already: Whether the release had been published before the call that returned it.
    """

    def __init__(self, folder: Output, *, ledger: str | None = None, already: bool = True) -> None:
        self.folder = folder
        self.already = already
        self._ledger = ledger

    @cached_property
    def certificate(self) -> dict[str, Any]:
        """The certificate: the guarantee of the release, its cost, and the facts that it rests on."""
        return self._parsed[1]

    @property
    def id(self) -> str:
        """SHA-256 of the release's public facts."""
        return str(self.certificate["release_id"])

    @property
    def mechanism(self) -> str:
        """Name of the mechanism that answered the queries."""
        return str(self.certificate["mechanism"]["name"])

    def answers(self, as_: Kind = "arrow") -> Any:
        """All answers: ``query``, ``answer``, ``stddev``, ``lower``, ``upper``, and a column for each attribute.

        as_: Kind of the frame: ``"arrow"`` (a table of pyarrow), ``"pandas"`` or ``"polars"``.
        """
        return _frame(self._answers, as_)

    def table(self, *names: str) -> Table:
        """The marginal of some attributes with its margins and intervals, as it was published or from the model.

        names: One to five attributes. The last is in the columns.

        Raises: ConfigError when the release answers no such marginal and has no model of it.
        """
        layout = self._table_layout("table")
        labels = {attribute.name: attribute.labels for attribute in layout.schema.attributes}
        for name in names:
            if name not in labels:
                raise ConfigError(f"unknown attribute {name!r}; want some of {list(labels)}")
        return Table.of(names, [labels[name] for name in names], self._marginal)

    def interval(self, query: str) -> Interval:
        """The answer of a query with its interval, if the release has published one, or from the model without one.

        query: The query as ``answers`` writes it, such as ``sex=female & age=[25, 35)``; ``all`` is the number of rows.

        Raises: ConfigError when the text is no query, or the release has neither the answer nor a model of it.
        """
        rows = self._answers.filter(pa.compute.equal(self._answers["query"], query))
        if len(rows):
            row = rows.slice(0, 1).to_pylist()[0]
            bars = (np.nan if row[name] is None else row[name] for name in ("answer", "stddev", "lower", "upper"))
            return interval_of(query, *bars, source="published")
        if query == ALL and (cells := self._marginal(())) is not None:
            return interval_of(query, float(cells.answer), np.nan, np.nan, np.nan, source=cells.source)
        chosen = selection(query, self._layout)
        cells = self._marginal(chosen.clique)
        if cells is None:
            raise ConfigError(
                f"the release does not answer {query!r}, and has no model of its attributes; want a query of "
                "answers(), or a release whose workload names them, of a mechanism with a model"
            )
        return chosen.interval(query, cells)

    def sample(self, n: int, where: Mapping[str, Any] | None = None, *, seed: int = 0, as_: Kind = "arrow") -> Any:
        """Synthetic rows, which cost no budget: drawn from the model, or else chosen among the published ones.

        n: Number of rows, at least 0.
        where: For each of some attributes, the value or the list of values that the rows have.
        seed: Public seed. The same arguments give the same rows.
        as_: Kind of the frame, as for ``answers``.

        Raises: ConfigError when the release has no rows, or too few satisfy the condition.
        """
        if n < 0:
            raise ConfigError(f"n is {n}; want a number of rows >= 0")
        where_codes = codes_of(where, self._layout)
        if unnamed := sorted(set(where_codes) - self._named):
            raise ConfigError(
                f"where names {unnamed}, of which the release knows nothing; want attributes of its workload, "
                f"{sorted(self._named)}"
            )
        if self._model is not None and isinstance(self._layout, TableLayout):
            return _frame(drawn_rows(self._model, n, where_codes, self._layout, seed), as_)
        names = [entry.path for entry in read_manifest(self.folder).entries if entry.path.startswith(f"{SYNTHETIC}/")]
        if not names:
            raise ConfigError(
                f"mechanism {self.mechanism} gives no synthetic rows; want a release of a mechanism with a model"
            )
        with local_copy(self.folder, names) as folder:
            return _frame(chosen_rows(folder / SYNTHETIC, n, where_codes, self._layout, seed), as_)

    def plot(self, *names: str, axes: Any = None) -> Any:
        """Draws the marginal of one attribute as bars with intervals, or that of two as a heat map.

        names: One or two attributes.
        axes: The axes of matplotlib to draw on; new ones by default.

        Returns: The axes.
        Raises: The exceptions of ``table``; ConfigError when matplotlib is not installed.
        """
        return chart(self.table(*names), axes)

    def verify(
        self,
        ledger: str | os.PathLike[str] | Ledger | None = None,
        *,
        public_key: str | os.PathLike[str] | None = None,
    ) -> Verification:
        """Checks the release as ``marquee verify`` does: files, guarantee, charges, tables, and the ledger's records.

        ledger: The ledger that was charged. The default is the one that the release was made or opened with.
        public_key: File with the Ed25519 public key that the release should be signed with.

        Returns: The result of each check.
        Raises: IntegrityError that lists every failed check.
        """
        url = self._ledger if ledger is None else ledger_url(ledger)
        key = None if public_key is None else read_public_key(Path(public_key))
        result = verify_release(self.folder, None if url is None else SqlLedger(url), key)
        result.require()
        return result

    def __repr__(self) -> str:
        return f"<Release {self.id[:12]} in {self.folder}>"

    def __str__(self) -> str:
        return "\n".join(f"{key:<11}{text}" for key, text in self._summary())

    def _repr_html_(self) -> str:
        return key_values("Release", self._summary(), "answers(), table(), sample(), plot() and verify() use it.")

    def _summary(self) -> list[tuple[str, str]]:
        content = self.certificate
        rows = content["synthetic_rows"]
        return [
            ("release", self.id),
            ("dataset", f"{content['dataset']['name']}, snapshot {content['dataset']['snapshot']}"),
            ("promise", content["guarantee"]["promise"]),
            ("mechanism", self.mechanism),
            ("answers", f"{content['workload']['answers']:,}"),
            ("rows", f"{rows:,} synthetic" if rows else "none"),
            ("folder", str(self.folder)),
        ]

    @cached_property
    def _parsed(self) -> tuple[Certificate, dict[str, Any]]:
        content = read_file(self.folder, CERTIFICATE)
        if content is None:
            raise ConfigError(f"{self.folder} has no {CERTIFICATE}; want the folder of a published release")
        try:
            return parse_certificate(content.decode())
        except UnicodeDecodeError as error:
            raise IntegrityError(f"{CERTIFICATE} in {self.folder} is not text; restore the release") from error

    @cached_property
    def _layout(self) -> Layout:
        return layout_of(self._parsed[0])

    def _table_layout(self, what: str) -> TableLayout:
        if not isinstance(self._layout, TableLayout):
            raise ConfigError(f"{what} is about attributes, and the release is about baskets; want answers()")
        return self._layout

    @cached_property
    def _answers(self) -> pa.Table:
        with local_copy(self.folder, [ANSWERS]) as folder:
            return with_attributes(pq.read_table(folder / ANSWERS), self._layout)

    @cached_property
    def _named(self) -> set[str]:
        """The attributes of the workload. A model may have more, of which it knows nothing."""
        return named_attributes(self._answers, self._layout)

    @cached_property
    def _model(self) -> GraphicalModel | None:
        listed = {entry.path for entry in read_manifest(self.folder).entries}
        with local_copy(self.folder, [MANIFEST, *({MODEL} & listed)]) as folder:
            return read_model(folder, self._layout)

    def _marginal(self, names: tuple[str, ...]) -> Cells | None:
        """A marginal, as it was published or else from the model; None if the release has neither."""
        if not isinstance(self._layout, TableLayout):
            return None
        clique = self._layout.schema.domain.canonical(names)
        cells = published_marginal(self._answers, clique, self._layout) or self._modelled(clique)
        return None if cells is None else cells.transposed([clique.index(name) for name in names])

    def _modelled(self, clique: tuple[str, ...]) -> Cells | None:
        model = self._model
        if model is None or not set(clique) <= self._named & set(model.domain.names):
            return None
        answer = model.answer(Marginals(model.domain, (clique,))).reshape(model.domain.shape(clique))
        return Cells.without_bars(answer, "model")


def _frame(table: pa.Table, as_: str) -> Any:
    if as_ not in _KINDS:
        raise ConfigError(f"as_ is {as_!r}; want one of {', '.join(_KINDS)}")
    if as_ == "arrow":
        return table
    try:
        if as_ == "pandas":
            return table.to_pandas()
        import polars as pl
    except ImportError as error:
        raise ConfigError(f"{as_} is not installed; want pip install {as_}, or as_='arrow'") from error
    return pl.from_arrow(table)
