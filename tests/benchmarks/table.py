"""A result as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_SCALARS = ("cpu_seconds", "cold_cpu_seconds", "process_cpu_seconds", "wall_seconds", "peak_rss_mb")


def table(result: Mapping[str, Any]) -> str:
    """Lines of name and value, then one line for each target."""
    rows = list(_rows(result))
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    for target in result["targets"]:
        verdict = "met" if target["met"] else "MISSED"
        lines.append(f"target: {target['name']}: wanted {target['wanted']}, got {target['got']:.6g}: {verdict}")
    return "\n".join(lines)


def _rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "case", result["case"]
    yield "commit", result["commit"]
    yield "machine", ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    for name, value in result["params"].items():
        if name != "inputs":
            yield name, str(value)
    for name, value in result["params"]["inputs"].items():
        yield f"input {name}", f"sha256 {value['sha256'][:16]}.., {value['files']} files, {value['bytes'] / 1e6:.1f} MB"
    for name in _SCALARS:
        yield name, f"{result[name]:.3f}"
    yield "error", _figures(result["error"])
    for name, figures in result["baselines"].items():
        yield f"baseline {name}", _figures(figures)
    if result["facts"]:
        yield "facts", _figures(result["facts"])
    if result["peer"]:
        yield f"peer {result['peer']['name']}", result["peer"].get("missing") or _figures(result["peer"])


def _figures(figures: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:.6g}" for name, value in figures.items() if isinstance(value, int | float))
