"""What is known of one attribute before a person has said the rest."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.attributes import Kind, Value


@dataclass(frozen=True)
class Variable:
    """A column, or a variable of a codebook. Public.

    name: Its name.
    kind: Its type as an attribute; None if it is not known.
    column_type: Its type as the file says it; empty if the file has no types, or there is none.
    label: What it is called for readers; empty if nothing is said.
    description: What it means; empty if nothing is said.
    values: Its values as the codebook lists them; empty if it lists none.
    labels: What each of these values is called for readers, or an empty text, in the same order.
    low: Smallest number, or first date as text, that the codebook allows; None if it does not say.
    high: Largest number, or last date as text, that the codebook allows; None if it does not say.
    """

    name: str
    kind: Kind | None = None
    column_type: str = ""
    label: str = ""
    description: str = ""
    values: tuple[Value, ...] = ()
    labels: tuple[str, ...] = ()
    low: int | float | str | None = None
    high: int | float | str | None = None


def listed(value: str | None, kind: Kind | None) -> Value:
    """A value of a codebook: an integer where the codebook says that its values are, else its text."""
    text = (value or "").strip()
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and str(int(digits[:4000])) == digits
    return int(text) if kind is Kind.INTEGER and is_number and len(digits) < 20 else text


def number(text: str | None) -> int | float | None:
    """A number of a codebook; None for what is none."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    if not -1e300 < value < 1e300:
        return None
    return int(value) if value == int(value) else value
