"""A published release: its answers, tables, rows, certificate and checks."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, final

import pyarrow as pa
import pyarrow.compute as pc

from dpcore.errors import ConfigError
from jobs.ledger import SqlLedger
from jobs.objects.output import Output, output_of
from jobs.reading.cross_table import CrossTable
from jobs.reading.marginals import BARS, PUBLISHED, check_named, marginal
from jobs.reading.release_folder import ReleaseFolder
from jobs.report import write_report
from jobs.verification.release import Verification, verify_release
from jobs.verification.signature import read_public_key
from marquee.budgets import Ledger, ledger_url
from marquee.charts import chart
from marquee.cross_table import Table
from marquee.folder import readable
from marquee.html import key_values
from marquee.intervals import Interval, interval_of, selection
from marquee.synthetic import chosen_rows, codes_of, drawn_rows
from pipelines.layout import TableLayout

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
        return self._local.document

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

        If the answers are estimates (``clipped_gaussian`` without negations and of one order), ``measured`` is the
        noisy value of the query itself,
        ``q_value`` the false discovery rate at which its count is not 0, and ``guaranteed_lower`` and
        ``guaranteed_upper`` an interval that holds for the query alone.

        as_: Kind of the frame: ``"arrow"`` (a table of pyarrow), ``"pandas"`` or ``"polars"``.
        """
        return _frame(self._local.answers, as_)

    def itemsets(self, as_: Kind = "arrow") -> Any:
        """The frequent itemsets by size and support: ``items``, ``size``, ``count``, ``support``, with intervals.

        as_: Kind of the frame, as for ``answers``.

        All intervals of the release hold together with probability 95 %: lower ends of counts for any data, the other
        ends if clipping removes at most twice the expected loss plus one standard deviation.

        Raises: ConfigError for a release of another workload.
        """
        return _frame(self._local.itemsets, as_)

    def rules(self, as_: Kind = "arrow") -> Any:
        """The association rules: ``antecedent``, ``consequent``, ``support``, ``confidence``, ``lift``.

        The first have the largest lower bound of lift.

        Each measure has an interval; ``itemsets`` says when all of them hold together.

        as_: Kind of the frame, as for ``answers``.

        Raises: ConfigError for a release of another workload.
        """
        return _frame(self._local.rules, as_)

    def table(self, *names: str) -> Table:
        """The marginal of some attributes with its margins and intervals, as it was published or from the model.

        names: The attributes. The last runs across the columns.

        Raises: ConfigError when the release answers no such marginal and has no model of it.
        """
        check_named(self._local, names)
        return Table(CrossTable.of(self._local, names))

    def interval(self, query: str) -> Interval:
        """The answer of a query with its interval, if the release has published one, or from the model without one.

        query: The query as ``answers`` writes it, such as ``sex=female & age=[25, 35)``; ``all`` is the number of rows.

        Raises: ConfigError when the text is no query, or the release has neither the answer nor a model of it.
        """
        answers = self._local.answers
        rows = answers.filter(pc.equal(answers["query"], query)).slice(0, 1).to_pylist()
        if rows:
            bars = (math.nan if rows[0][name] is None else rows[0][name] for name in BARS)
            return interval_of(query, *bars, source=PUBLISHED)
        chosen = selection(query, self._local.layout)
        check_named(self._local, chosen.clique)
        return chosen.interval(query, marginal(self._local, chosen.clique))

    def sample(self, n: int, where: Mapping[str, Any] | None = None, *, seed: int = 0, as_: Kind = "arrow") -> Any:
        """Synthetic rows of a table, which cost no budget: drawn from the model, or else chosen among published ones.

        n: Number of rows, at least 0.
        where: For each of some attributes, the value or the list of values that the rows have.
        seed: Public seed. The same arguments give the same rows.
        as_: Kind of the frame, as for ``answers``.

        Raises: ConfigError for baskets, and when the release has no rows, or too few satisfy the condition.
        """
        if n < 0:
            raise ConfigError(f"n is {n}; want a number of rows >= 0")
        layout = self._local.layout
        if not isinstance(layout, TableLayout):
            raise ConfigError(
                "sample gives rows of tables; want marquee generate rows CONFIG FOLDER --rows N for baskets"
            )
        where_codes = codes_of(where, layout)
        check_named(self._local, where_codes)
        if self._local.model is not None:
            return _frame(drawn_rows(self._local.model, n, where_codes, layout, seed), as_)
        rows = self._local.rows
        if rows is None:
            raise ConfigError(
                f"mechanism {self.mechanism} gives no synthetic rows; want a release of a mechanism with a model"
            )
        return _frame(chosen_rows(rows, n, where_codes, layout, seed), as_)

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

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Writes the report of the release as ``marquee report`` does: one HTML file of public content for everyone.

        path: The new file, outside of the release's folder.

        Returns: The path.
        Raises: ConfigError when it lies in the folder, or the extra ``report`` is not installed.
        """
        return write_report(self.folder, Path(path))

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
    def _local(self) -> ReleaseFolder:
        return readable(self.folder)


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
