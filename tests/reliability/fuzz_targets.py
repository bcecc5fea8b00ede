"""The readers of outside bytes: each with valid inputs, a way to change them, and what it may raise."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import random
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from pyarrow import feather, orc

from dpcore.errors import ConfigError, EngineError, InputError, IntegrityError, MarqueeError
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals, UnitCount
from dpcore.workload import Workload
from jobs.config import load_config
from jobs.outputs.certificate_format import parse_certificate
from jobs.outputs.model_file import MODEL, read_model
from jobs.release.journal import Journal
from jobs.release.journal_file import JournalFile
from jobs.verification.charges import cost_findings
from jobs.verification.manifest import MANIFEST, read_manifest
from jobs.verification.promises import promise_findings
from jobs.verification.release import CERTIFICATE, verify_release
from jobs.verification.tables import ANSWERS
from jobs.workload.public_files import read_queries, read_weights
from pipelines.attributes import Attribute, Kind
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Schema, load_schema
from pipelines.source import open_with_contents
from pipelines.source.content import fingerprint
from tests.reliability.fuzz_ledger import apply_edits, columns_of, of_rows, read_everything
from tests.reliability.fuzz_mutations import Mutation, of_bytes, of_journal, of_json, of_yaml
from tests.reliability.fuzz_parquet import parquet_mutation, seeds_of
from tests.reliability.fuzz_seeds import OTHER_CONFIG, OTHER_SCHEMA, World
from tests.support import engine_cases

PART = "synthetic/part-00000.parquet"


@dataclass(frozen=True, eq=False)
class Target:
    """One reader.

    seeds: Valid inputs.
    mutate: Makes a new input of a former one.
    read: Reads an input.
    refusals: The only exceptions that ``read`` may raise.
    """

    name: str
    seeds: Sequence[bytes]
    mutate: Mutation
    read: Callable[[bytes], object]
    refusals: tuple[type[MarqueeError], ...]


def targets(world: World, folder: Path) -> dict[str, Target]:
    """All targets by name.

    world: The release from which the valid inputs are taken.
    folder: An empty folder for the inputs, best in memory.
    """
    made = [
        *_yaml_targets(world, folder),
        *_public_file_targets(world, folder),
        *_data_targets(world, folder),
        *_format_targets(folder),
        *_release_targets(world, folder),
        *_state_targets(world, folder),
    ]
    return {target.name: target for target in made}


def _yaml_targets(world: World, folder: Path) -> list[Target]:
    configs = [(world.folder / name).read_bytes() for name in ("release.yaml", "shop.yaml")]
    schemas = [(world.folder / "people.schema.yaml").read_bytes()]
    only = (ConfigError,)
    return [
        Target("config", [*configs, OTHER_CONFIG.encode()], of_yaml, _file(folder / "c.yaml", load_config), only),
        Target("schema", [*schemas, OTHER_SCHEMA.encode()], of_yaml, _file(folder / "s.yaml", load_schema), only),
    ]


def _public_file_targets(world: World, folder: Path) -> list[Target]:
    layout, baskets = world.job.layout, BasketLayout("user", "item", 40)
    lines = [b'sex=male & age="[0, 18)"\nsex=female & work!=none\n', b"sex=male\n", b"\nhome=true\n"]
    table = [b"query,weight\nsex=male & work=none,2\nsex=female & work!=private,0.5\n", b"query\nhome=__null__\n"]
    numbers = [b"query,weight\n3 & 7,1\n0 & !39,2.5\n", b"weight,query\n1,1\n"]
    weights = [b"value,weight\nsex=male,1\nsex=female,0\n", b"weight,value\n1e3,home=true\n"]
    texts = pa.table({"query": ["sex=male", "home=true"], "weight": [1.0, 2.0]})
    files = seeds_of([texts, texts.select(["query"])], lambda: random.Random(1))
    columns = parquet_mutation(("query", "weight"))
    only = (ConfigError,)

    def queries(path: Path) -> Workload:
        return read_queries(path, layout)

    return [
        Target("queries .txt", lines, of_bytes, _file(folder / "q.txt", queries), only),
        Target("queries .csv", table, of_bytes, _file(folder / "q.csv", queries), only),
        Target("queries of baskets .csv", numbers, of_bytes,
               _file(folder / "b.csv", lambda path: read_queries(path, baskets)), only),
        Target("weights .csv", weights, of_bytes,
               _file(folder / "w.csv", lambda path: read_weights(path, layout)), only),
        Target("queries .parquet", files, columns, _file(folder / "q.parquet", queries), only),
    ]  # fmt: skip


def _data_targets(world: World, folder: Path) -> list[Target]:
    """Parquet data, through the local engine: beside a whole file, alone, and with the claim of clustered units."""
    targets = []
    for name, case in (("table", engine_cases.messy_table()), ("baskets", engine_cases.messy_baskets())):
        data = folder / name
        engine_cases.write(case.rows.slice(0, 30), data, 1)
        rows = [case.rows.slice(30, 40), case.rows.slice(70, 3), case.rows.slice(0, 0)]
        seeds = seeds_of(rows, lambda: random.Random(2))
        read = _file(data / "part-1.parquet", partial(_aggregated, case=case, folder=data))
        mutate = parquet_mutation(case.layout.columns)
        targets.append(Target(f"data of a {name}" if name == "table" else f"data of {name}", seeds, mutate, read,
                              (InputError,)))  # fmt: skip
    return targets


def _aggregated(path: Path, case: engine_cases.Case, folder: Path) -> int:
    layout = case.layout
    if path.stat().st_size % 2:
        folder, layout = path, case.clustered()
    source, contents = open_with_contents(str(folder), layout, engine_cases.SALT, b"key")
    fingerprint(contents, b"key")
    request = case.requests[0]
    if isinstance(request, QueryAnswers) and isinstance(request.queries, Marginals):
        request = QueryAnswers(Marginals(request.queries.domain, request.queries.cliques[-3:]))
    return int(EngineStatistics(LocalEngine(threads=1), source).aggregate(request).sum())


def _format_targets(folder: Path) -> list[Target]:
    """The same data in other formats, as the only file."""
    case = engine_cases.messy_table()
    rows = case.rows.set_column(1, "colour", case.rows["colour"].cast(pa.string()))
    for column in ("amount_eur", "big"):  # Not every format writes these types.
        rows = rows.set_column(rows.schema.get_field_index(column), column, rows[column].cast(pa.float64(), safe=False))
    rows = rows.set_column(6, "day", rows["day"].cast(pa.timestamp("us")).cast(pa.date32(), safe=False))
    layout = case.layout
    assert isinstance(layout, TableLayout)
    numbers = {"big": Attribute("big", Kind.FLOAT, edges=(0.0, 1.0, 2.0))}
    schema = Schema(tuple(numbers.get(attribute.name, attribute) for attribute in layout.schema.attributes))
    case = replace(case, layout=replace(layout, schema=schema))
    targets = []
    for ending, write in FORMATS.items():
        place = folder / ending
        place.mkdir()
        seeds = []
        for part in (rows.slice(0, 12), rows.slice(30, 3)):
            write(part, place / "seed")
            seeds.append((place / "seed").read_bytes())
        (place / "seed").unlink()
        read = _file(place / f"a.{ending}", partial(_counted, case=case))
        # A length in a Feather file may ask for more memory than there is, which is refused as what it looks like.
        refusals = (InputError, EngineError) if ending == "feather" else (InputError,)
        targets.append(Target(f"data in {ending}", seeds, of_bytes, read, refusals))
    return targets


def _write_json(rows: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows.to_pylist()))


FORMATS: Final[dict[str, Callable[[pa.Table, Path], object]]] = {
    "csv": lambda rows, path: arrow_csv.write_csv(rows, path),
    "jsonl": _write_json,
    "orc": lambda rows, path: orc.write_table(rows, path),
    "feather": lambda rows, path: feather.write_feather(rows, path, compression="uncompressed"),
}


def _counted(path: Path, case: engine_cases.Case) -> int:
    source, contents = open_with_contents(str(path), case.layout, engine_cases.SALT, b"key")
    fingerprint(contents, b"key")
    return int(EngineStatistics(LocalEngine(threads=1), source).aggregate(UnitCount()).sum())


def _release_targets(world: World, folder: Path) -> list[Target]:
    """Files of a published release: their readers alone, and ``marquee verify`` over the whole folder."""
    output, copied = world.output, folder / "release"
    shutil.copytree(output, copied)
    content = {name: (output / name).read_bytes() for name in (CERTIFICATE, MANIFEST, ANSWERS, MODEL, PART)}
    alone = folder / "alone"
    alone.mkdir()
    refused = (IntegrityError,)

    def verified(name: str) -> Callable[[bytes], object]:
        def read(data: bytes) -> object:
            try:
                (copied / name).write_bytes(data)
                return verify_release(copied)
            finally:
                (copied / name).write_bytes(content[name])

        return read

    def certificate(data: bytes) -> object:
        try:
            read = parse_certificate(data.decode())[0]
        except UnicodeDecodeError:
            return None
        return promise_findings(read), cost_findings(read)

    answers = parquet_mutation(pq.read_schema(output / ANSWERS).names)
    rows = parquet_mutation(pq.read_schema(output / PART).names)
    model = _file(alone / MODEL, lambda path: read_model(path.parent, world.job.layout))
    manifest = _file(alone / MANIFEST, lambda path: read_manifest(path.parent))
    return [
        Target("manifest.json", [content[MANIFEST]], of_json, manifest, refused),
        Target("certificate.json", [content[CERTIFICATE]], of_json, certificate, refused),
        Target("model.npz", [content[MODEL]], _of_model, model, (InputError, IntegrityError)),
        Target("verify: manifest", [content[MANIFEST]], of_json, verified(MANIFEST), ()),
        Target("verify: certificate", [content[CERTIFICATE]], of_json, verified(CERTIFICATE), ()),
        Target("verify: answers", [content[ANSWERS]], answers, verified(ANSWERS), ()),
        Target("verify: synthetic rows", [content[PART]], rows, verified(PART), ()),
        Target("verify: model", [content[MODEL]], _of_model, verified(MODEL), ()),
    ]


def _of_model(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Changes bytes of the archive, or the JSON header in it with its length kept by spaces where that is possible."""
    start, stop = data.find(b"{"), data.find(b"PK\3\4", 4)
    if rng.random() < 0.5 or not 0 < start < stop:
        return of_bytes(rng, data, others)
    header = of_json(rng, data[start:stop], others)
    return _archive_with(data, header) if rng.random() < 0.8 else data[:start] + header + data[stop:]


def _archive_with(data: bytes, header: bytes) -> bytes:
    """The archive with another header and right checksums; the bytes as they are if it cannot be read."""
    made = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
            for name in old.namelist():
                new.writestr(name, header if name == "model.json" else old.read(name))
    except Exception:  # noqa: BLE001 - the archive may be damaged in any way
        return data
    return made.getvalue()


def _state_targets(world: World, folder: Path) -> list[Target]:
    """The journal, and the ledger: its rows and its file."""
    release_id = world.job.release_id
    seed = hashlib.sha256(release_id.encode()).hexdigest()
    whole = world.ledger.read_bytes()
    numbers = itertools.count()

    def opened(content: bytes, edits: Sequence[tuple[str, str, Any]]) -> object:
        """A new name for each, because SQLite remembers the locks of a file by its inode."""
        path = folder / f"ledger-{next(numbers)}.db"
        try:
            path.write_bytes(content)
            apply_edits(path, edits)
            return read_everything(path, release_id)
        finally:
            for left in folder.glob(f"{path.name}*"):
                left.unlink()

    def journal(path: Path) -> object:
        read = Journal(JournalFile(path), release_id)
        return read.head

    edits = of_rows(columns_of(world.ledger), world.ledger)
    relinked = partial(of_journal, seed=seed)
    return [
        Target("journal", [world.journal.read_bytes()], relinked, _file(folder / "j.jsonl", journal),
               (IntegrityError,)),
        Target("ledger rows", [b"[]"], edits,
               lambda data: opened(whole, json.loads(data)), (MarqueeError,)),
        Target("ledger file", [whole], of_bytes, lambda data: opened(data, []), (MarqueeError,)),
    ]  # fmt: skip


def _file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Reads an input from a file."""

    def from_file(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return from_file
