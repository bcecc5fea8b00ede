"""Writes the generated pages of docs/reference: python -m docs.tools.reference

The pages follow from the code: keys of the config from its JSON Schema, keys of the schema from the docstring of
``pipelines.schema``, and errors from ``dpcore.errors`` and ``jobs.exit_codes``. A test compares them with the code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpcore import errors
from jobs import exit_codes
from jobs.config import Config
from pipelines import schema
from pipelines.attributes import Kind

FOLDER = Path(__file__).parents[1] / "reference"
_NOTE = "This page is generated from the code by `python -m docs.tools.reference`.\n"
_RETRY = {exit_codes.LEDGER: "yes", exit_codes.ENGINE: "yes", exit_codes.UNEXPECTED: "a few times"}
_MEANINGS = {
    exit_codes.DONE: "Published, now or by an earlier run; or the command succeeded.",
    exit_codes.CONFIG: "The config, the schema or the command line is wrong, or the guarantee cannot be had so.",
    exit_codes.INPUT: "The data cannot be read as the config and the schema describe them.",
    exit_codes.BUDGET: "The budget was refused, or there is no budget or ledger.",
    exit_codes.LEDGER: "The ledger cannot be reached, or another process runs this release.",
    exit_codes.ENGINE: "The engine or the storage failed.",
    exit_codes.INTEGRITY: "Ledger, journal, input or published files contradict each other.",
    exit_codes.UNEXPECTED: "An unexpected error.",
    exit_codes.INTERRUPTED: "Interrupted from the keyboard. Run the same command again to continue.",
}


def pages() -> dict[str, str]:
    """The content of every generated page by its file name."""
    return {"config.md": config_page(), "schema.md": schema_page(), "errors.md": errors_page()}


def config_page() -> str:
    """Every key of a config, with its type, its default and its description."""
    document = Config.model_json_schema()
    lines = ["# Config reference\n", _NOTE]
    lines.append("A config is a YAML file that describes one release. Unknown keys are refused. All paths start at the")
    lines.append("folder of the config file. `marquee plan --schema` prints the JSON Schema, which editors can use.\n")
    paths = _paths(document)
    for heading, section in _sections(document):
        lines.append(f"## {heading}\n")
        if text := section.get("description"):
            lines.append(f"{_flat(text)}\n")
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        lines += [_row(name, field, section, paths) for name, field in section.get("properties", {}).items()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _sections(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The whole config and then its sections, each with the keys that lead to it, in the order of the config."""
    yield "The whole config", document
    for definition, keys in _paths(document).items():
        yield keys, document["$defs"][definition]


def _paths(document: Mapping[str, Any]) -> dict[str, str]:
    """The keys that lead to each definition with keys of its own, such as ``dataset.table``."""
    paths: dict[str, str] = {}
    waiting = [("", document)]
    while waiting:
        keys, section = waiting.pop(0)
        for name, field in section["properties"].items():
            for target in _targets(field):
                if "properties" in document["$defs"][target] and target not in paths:
                    taken = f"{keys}{name}" in paths.values()
                    paths[target] = f"{keys}{name} ({target.lower()})" if taken else f"{keys}{name}"
                    waiting.append((f"{keys}{name}.", document["$defs"][target]))
    return dict(sorted(paths.items(), key=lambda item: item[1]))


def _targets(value: object) -> Iterator[str]:
    """The definitions to which a field refers, at any depth."""
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield str(value["$ref"]).split("/")[-1]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _targets(inner)


def _row(name: str, field: Mapping[str, Any], section: Mapping[str, Any], paths: Mapping[str, str]) -> str:
    default = "required" if name in section.get("required", ()) else _default(field)
    cells = [f"`{name}`", _type(field, paths), default, _flat(field.get("description", ""))]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    return "" if value is None or isinstance(value, dict) else f"`{str(value).lower()}`"


def _type(field: Mapping[str, Any], paths: Mapping[str, str]) -> str:
    if "$ref" in field:
        keys = paths.get(field["$ref"].split("/")[-1])
        return f"[keys](#{_anchor(keys)})" if keys else "a choice of words"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    for choices in ("anyOf", "oneOf"):
        if choices in field:
            kinds = (_type(choice, paths) for choice in field[choices] if choice != {"type": "null"})
            return " or ".join(dict.fromkeys(kinds))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}), paths)}"
    names = {"string": "text", "object": "mapping", "null": "null", "boolean": "true or false"}
    return names.get(str(field.get("type", "")), str(field.get("type", "any value")))


def _anchor(heading: str) -> str:
    """The anchor that MkDocs gives a heading."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def schema_page() -> str:
    """The docstring of the schema's module, and its types."""
    text = _code(inspect.getdoc(schema) or "")
    kinds = ", ".join(f"`{kind.value}`" for kind in Kind)
    return f"# Schema reference\n\n{_NOTE}\n{text}\n\nThe types are {kinds}.\n"


def errors_page() -> str:
    """Exit codes, and the exceptions that lead to them."""
    lines = ["# Errors and exit codes\n", _NOTE]
    lines.append("Every failure is one sentence on stderr and an exit code. The sentence says what is wrong, what was")
    lines.append("wanted and what to do next; it contains no value and no count of the data.\n")
    lines += ["## Exit codes\n", "| code | meaning | run again? | exceptions |", "|---|---|---|---|"]
    lines += [
        f"| {code} | {meaning} | {_RETRY.get(code, 'yes' if code == exit_codes.INTERRUPTED else 'no')} | {_of(code)} |"
        for code, meaning in _MEANINGS.items()
    ]
    lines += ["\n## Exceptions\n", "All of them are in `dpcore.errors` and derive from `MarqueeError`.\n"]
    for kind in _exceptions():
        code = exit_codes.exit_code(kind.__new__(kind))
        lines.append(f"### {kind.__name__}\n\n{_summary(kind)} Exit code {code}.\n")
    return "\n".join(lines).rstrip() + "\n"


def _exceptions() -> list[type[errors.MarqueeError]]:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.MarqueeError)]
    return [kind for kind in kinds if kind is not errors.MarqueeError]


def _of(code: int) -> str:
    return ", ".join(
        f"[{kind.__name__}](#{kind.__name__.lower()})"
        for kind in _exceptions()
        if exit_codes.exit_code(kind.__new__(kind)) == code
    )


def _summary(kind: type) -> str:
    return _flat((inspect.getdoc(kind) or "").split("\n\n")[0])


def _code(text: str) -> str:
    """Code in a docstring as Markdown has it; fences stay."""
    return re.sub(r"(?<!`)``(?!`)", "`", text)


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", _code(text)).strip()


def main() -> None:
    """Writes the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, content in pages().items():
        (FOLDER / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
