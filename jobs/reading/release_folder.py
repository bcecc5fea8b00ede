"""A published folder, opened for reading."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from dpcore.errors import ConfigError, InputError, IntegrityError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from jobs.outputs.certificate_format import Certificate, parse_certificate
from jobs.outputs.itemset_tables import ITEMSETS, RULES
from jobs.outputs.model_file import read_model
from jobs.outputs.schema_file import SCHEMA_FILE, read_schema
from jobs.verification.items_file import named_layout
from jobs.verification.manifest import SUCCESS
from pipelines.codebook import Codebook
from pipelines.layout import Layout, TableLayout
from pipelines.schema import Schema

_UNREADABLE = (OSError, ValueError, pa.ArrowException)  # What pyarrow raises for a damaged file.


@final
@dataclass(frozen=True)
class ReleaseFolder:
    """A published release. Its files are read when they are wanted; ``marquee verify`` checks them.

    path: The folder.
    certificate: Its certificate.
    document: The certificate as a JSON object.
    layout: The public layout of the data.
    """

    path: Path
    certificate: Certificate
    document: dict[str, Any]
    layout: Layout

    @classmethod
    def open(cls, path: Path | str) -> ReleaseFolder:
        """Opens the folder of a release.

        path: A local folder.

        Raises: ConfigError when it is no complete release; IntegrityError when its certificate cannot be read.
        """
        folder = Path(path)
        if not (folder / SUCCESS).is_file():
            raise ConfigError(
                f"{folder} is not a complete release: it has no {SUCCESS}; want the folder of a published release, or "
                "marquee run to finish it"
            )
        file = folder / "certificate.json"
        try:
            certificate, document = parse_certificate(file.read_text(encoding="utf-8"))
            layout = named_layout(folder, certificate)
        except (OSError, UnicodeDecodeError, ValueError, TypeError, KeyError, ConfigError, IntegrityError) as error:
            reason = str(error) if isinstance(error, IntegrityError) else type(error).__name__
            raise IntegrityError(
                f"{file} cannot be read ({reason}); want the release as it was published: run marquee verify {folder}"
            ) from error
        return cls(folder, certificate, document, layout)

    @property
    def schema(self) -> Schema:
        """The schema of a table. Raises ConfigError for baskets, which have none."""
        if not isinstance(self.layout, TableLayout):
            raise ConfigError(f"{self.path} is a release of baskets, which have no attributes; want one of a table")
        return self.layout.schema

    @cached_property
    def codebook(self) -> Codebook:
        """The words of schema.json; none for baskets and for releases before 0.13, which have no such file.

        Raises: IntegrityError when the file cannot be read.
        """
        try:
            schema = read_schema(self.path)
        except (OSError, ValueError, RecursionError, ConfigError) as error:
            raise IntegrityError(
                f"{self.path / SCHEMA_FILE} cannot be read ({type(error).__name__}); want the release as it was "
                f"published: run marquee verify {self.path}"
            ) from error
        return Codebook() if schema is None else schema.codebook

    @cached_property
    def answers(self) -> pa.Table:
        """The published answers: one row per query. Raises InputError when answers.parquet cannot be read."""
        file = self.path / "answers.parquet"
        try:
            return pq.read_table(file)
        except _UNREADABLE as error:
            raise InputError(f"{file} cannot be read ({type(error).__name__}); run marquee verify") from error

    @property
    def itemsets(self) -> pa.Table:
        """The frequent itemsets. Raises ConfigError for a release of another workload, InputError when damaged."""
        return self._table_of_itemsets(ITEMSETS)

    @property
    def rules(self) -> pa.Table:
        """The association rules. Raises as ``itemsets``."""
        return self._table_of_itemsets(RULES)

    @property
    def has_itemsets(self) -> bool:
        """Whether the release is one of frequent itemsets."""
        return (self.path / ITEMSETS).is_file()

    def _table_of_itemsets(self, name: str) -> pa.Table:
        file = self.path / name
        if not self.has_itemsets:
            raise ConfigError(f"{self.path} has no {name}; want a release of workload.itemsets")
        try:
            return pq.read_table(file)
        except _UNREADABLE as error:
            raise InputError(f"{file} cannot be read ({type(error).__name__}); run marquee verify") from error

    @cached_property
    def model(self) -> GraphicalModel | None:
        """The graphical model of the release; None without one."""
        return read_model(self.path, self.layout)

    @property
    def rows(self) -> pyarrow.dataset.Dataset | None:
        """The published synthetic rows; None without any."""
        folder = self.path / "synthetic"
        return pyarrow.dataset.dataset(folder, format="parquet") if folder.is_dir() else None
