"""Reads the variables of a codebook in DDI Codebook (2.5 and before): names, labels, categories and ranges.

The file may hold no document type, so that no entity can be defined in it and nothing outside is ever opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from dpcore.errors import ConfigError
from jobs.drafting.variables import Variable, listed, number
from pipelines.attributes import Kind


def read_ddi(text: str) -> tuple[Variable, ...]:
    """The variables of a DDI Codebook, in its order.

    text: The file.

    Raises: ConfigError when it is no XML, has a document type, or is no codebook.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ConfigError("it has a document type, which could name other files; want XML without <!DOCTYPE>")
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ConfigError(f"it is no XML ({error}); want a DDI Codebook") from error
    variables = tuple(_variable(element) for element in root.iter() if _name(element) == "var")
    if not variables:
        raise ConfigError("it has no element <var>; want a DDI Codebook of version 2.5 or before")
    return variables


def _variable(element: Element) -> Variable:
    numeric = any(form.get("type") == "numeric" for form in _inside(element, "varFormat"))
    categories = [(category, _text(category, "catValu")) for category in _inside(element, "catgry")]
    listing = [(category, value) for category, value in categories if value]
    codes = tuple(listed(value, Kind.INTEGER if numeric else None) for _, value in listing)
    low, high = _range(element)
    return Variable(
        element.get("name", "").strip(),
        _kind(element, codes, numeric),
        label=_text(element, "labl"),
        description=_text(element, "txt"),
        values=codes if len({type(code) for code in codes}) < 2 else tuple(map(str, codes)),
        labels=tuple(_text(category, "labl") for category, _ in listing),
        low=low,
        high=high,
    )


def _kind(element: Element, codes: tuple[object, ...], numeric: bool) -> Kind | None:
    if codes:
        return Kind.CATEGORICAL
    if not numeric:
        return None
    return Kind.FLOAT if element.get("intrvl") == "contin" or _has_decimals(element) else Kind.INTEGER


def _has_decimals(element: Element) -> bool:
    return (number(element.get("dcml")) or 0) > 0


def _range(element: Element) -> tuple[int | float | None, int | float | None]:
    for valid in _inside(element, "valrng"):
        for limits in _inside(valid, "range"):
            return number(limits.get("min")), number(limits.get("max"))
    return None, None


def _inside(element: Element, name: str) -> Iterator[Element]:
    return (child for child in element if _name(child) == name)


def _text(element: Element, name: str) -> str:
    """The text of the first such child, on one line; empty without one."""
    child = next(_inside(element, name), None)
    return "" if child is None else " ".join("".join(child.itertext()).split())


def _name(element: Element) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
