"""Changes of valid inputs: of their bytes, and of the values of the JSON or YAML that they hold."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from jobs.release.journal import _link

Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]
"""Called with the random numbers, the input to change, and other inputs to take pieces from."""

LARGEST = 1 << 18  # Bytes of an input; a small ledger has half of them.

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400,
    0.0, -0.0, 0.1, 1e-320, 1e308, -1e308, float("nan"), float("inf"), "", " ", "0", "x", "null", "auto", "all",
    "private", "1/0", "1/3", "-1/3", "1e400", "1e9999999", "0x10", "00123", "12:30", "nan", "inf", "2026-13-45",
    "a" * 300, "\0", "\n", "\ud800", "Ünïcödé", "e\u0301", "\u202e", "a=b", "../..", "s3://a", "sqlite://", "*", "[",
    "1999-01-01", "b", "~", "!!python/object:os.system", [], {}, [[]], [None], {"": 0}, {"a": {"b": []}},
    [0, 1], ["a", "a"], [1, "a", None, 2.5],
)  # fmt: skip
TOKENS: tuple[bytes, ...] = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\r", b"\r\n", b"\t", b",", b";", b":", b"-", b"--",
    b"=", b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b"(", b")", b"#", b"&a ", b"*a", b"<<: ", b"!!int ",
    b"!!binary ", b"? ", b"| ", b"> ", b"%YAML 1.1\n", b"---\n", b"...\n", b"1e999", b"-1", b"NaN", b"Infinity",
    b"null", b"true", b"\\ud800", b"\\u0000", b"\xed\xa0\x80", b"\xc3", b"\xcc\x81", b"9" * 30, b"9" * 5000,
    b"[" * 100, b"0" * 40, b"PAR1", b"PK\3\4", b"SQLite format 3\0", b" & ", b"&", b" ^ ", b"!", b"!=", b"even(",
    b"<=", b"x=", b"weight", b"query",
)  # fmt: skip


def of_bytes(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Changes one to four places: bits, numbers, tokens, and spans that are removed, repeated or moved."""
    changed = bytearray(data)
    for _ in range(1 + min(3, int(rng.expovariate(1.2)))):
        start = rng.randrange(len(changed) + 1)
        stop = min(len(changed), start + int(rng.expovariate(0.1)) + 1)
        match rng.randrange(8):
            case 0 if changed:
                changed[start % len(changed)] ^= 1 << rng.randrange(8)
            case 1 if changed:
                changed[start % len(changed)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                changed[start:start] = rng.choice(TOKENS)
            case 3:
                changed[start:stop] = rng.choice(TOKENS)
            case 4:
                del changed[start:stop]
            case 5:
                changed[start:start] = changed[start:stop] * rng.choice((1, 1, 2, 50))
            case 6:
                other = rng.choice(others)
                place = rng.randrange(len(other) + 1)
                changed[start:stop] = other[place : place + int(rng.expovariate(0.05)) + 1]
            case _:
                del changed[start if rng.random() < 0.3 else stop :]
    return bytes(changed[:LARGEST])


def of_json(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Changes values and keys of a JSON document; the bytes of what is none."""
    if rng.random() < 0.35:
        return of_bytes(rng, data, others)
    try:
        document = json.loads(data)
        return json.dumps(_changed(rng, document)).encode()[:LARGEST]
    except (ValueError, RecursionError):
        return of_bytes(rng, data, others)


def of_yaml(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Changes values and keys of a YAML document; the bytes of what is none."""
    if rng.random() < 0.6:
        return of_bytes(rng, data, others)
    try:
        document = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return _as_yaml(rng, _changed(rng, document))
    except (ValueError, RecursionError, TypeError, LookupError, AttributeError, yaml.YAMLError):
        return of_bytes(rng, data, others)


def of_journal(rng: random.Random, data: bytes, others: Sequence[bytes], seed: str) -> bytes:
    """Changes lines of a journal, and often links them again, so that what is behind the hashes is reached.

    seed: Hash with which the chain of hashes begins.
    """
    if rng.random() < 0.4:
        return of_bytes(rng, data, others)
    lines = data.splitlines(keepends=True)
    for _ in range(1 + rng.randrange(2)):
        place = rng.randrange(len(lines) + 1)
        match rng.randrange(4):
            case 0:
                lines[place : place + 1] = []
            case 1:
                lines[place:place] = lines[place - 1 : place]
            case _:
                lines[place : place + 1] = [of_json(rng, line, others) for line in lines[place : place + 1]]
    return _linked(lines, seed) if rng.random() < 0.7 else b"".join(lines)[:LARGEST]


def _linked(lines: Sequence[bytes], seed: str) -> bytes:
    """The lines with the hashes that their content wants; a line that is no answer stays as it is."""
    linked: list[bytes] = []
    for index, line in enumerate(lines):
        try:
            stored = json.loads(line)
            seed = stored["chain"] = _link(seed, index, str(stored["request"]), str(stored["answer"]))
            linked.append(json.dumps(stored).encode() + b"\n")
        except (ValueError, KeyError, TypeError):
            linked.append(line)
    return b"".join(linked)[:LARGEST]


def _as_yaml(rng: random.Random, document: object) -> bytes:
    if rng.random() < 0.5:
        return json.dumps(document, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")[:LARGEST]
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True)).encode()[:LARGEST]


def _changed(rng: random.Random, document: Any) -> Any:
    """The document with one to three values or keys changed."""
    for _ in range(1 + rng.randrange(3)):
        places = list(_places(document))
        if not places:
            return copy.deepcopy(rng.choice(VALUES))
        holder, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1:
                source, other = rng.choice(places)
                if source is not holder or other in source:
                    holder[key] = copy.deepcopy(source[other]) if _is_there(source, other) else None
            case 2 if isinstance(holder, dict):
                holder[rng.choice((f"{key}s", str(key).upper(), "", "unit", "0"))] = holder.pop(key)
            case 3 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 4 if isinstance(holder[key], int | float) and abs(holder[key]) < 1e300:
                holder[key] = holder[key] * rng.choice((-1, 0, 2, 0.5)) + rng.choice((-1, 0, 1))
            case 5 if isinstance(holder[key], str):
                text = of_bytes(rng, holder[key].encode(errors="replace"), (b"name", b"other"))
                holder[key] = text.decode(errors="replace")
            case _:
                holder[key] = copy.deepcopy(rng.choice(VALUES))
    return document


def _is_there(holder: Any, key: Any) -> bool:
    return key < len(holder) if isinstance(holder, list) else key in holder


def _places(document: Any, depth: int = 0) -> list[tuple[Any, Any]]:
    """Every value inside of the document, as its holder and its key there."""
    if depth > 40 or not isinstance(document, dict | list):
        return []
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    found = [(document, key) for key in keys]
    for key in keys:
        found += _places(document[key], depth + 1)
    return found
