"""The format of certificate.json, as a model that checks every key and type. ``certificate.schema.json`` follows it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from dpcore.errors import IntegrityError

Exact = Annotated[str, Field(pattern=r"^[0-9]+(/[1-9][0-9]*)?$", max_length=4000)]
"""An exact fraction as text, such as 3/8."""
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
LedgerId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Time = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Epsilon = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Epsilons = dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ExactAmount(_Part):
    """An amount of privacy loss."""

    amount: Exact = Field(description="The exact amount, in the currency of the guarantee.")
    amount_as_number: Finite = Field(description="The nearest double.")


class Guarantee(_Part):
    """What is promised, to whom, and at what cost."""

    promise: str = Field(description="The guarantee in one sentence.")
    neighbours: Literal["add_remove_unit", "replace_one_unit"] = Field(description="The neighbouring relation.")
    epsilon: Epsilon = Field(description="Epsilon of the guarantee.")
    delta: float = Field(ge=0, lt=1, description="Delta of the guarantee; 0 for pure differential privacy.")
    currency: Literal["pure epsilon", "zCDP rho", "Gaussian DP mu^2"] = Field(description="Currency of all amounts.")
    additive_noise: Literal["discrete_laplace", "discrete_gaussian", "rounded_gaussian"] = Field(
        description="Law of the noise of measurements."
    )
    reserved_in_the_ledger: ExactAmount = Field(description="The budget of the release.")
    epsilon_at_other_deltas: Epsilons = Field(description="The epsilon that the budget implies, by delta.")


class NamedDataset(_Part):
    """The dataset."""

    name: str = Field(description="Name of the dataset in the ledger.")
    snapshot: str = Field(description="Public label of the state of the data.")
    table: str | None = Field(default=None, description="Table, its version, or the frame that holds the data.")
    where: str | None = Field(default=None, description="Which rows are counted, and what that means; all if missing.")
    partition: str | None = Field(
        default=None, description="Which partitions are counted and charged, and what that means; all if missing."
    )
    statistics_store: str | None = Field(
        default=None, description="That statistics may come from earlier runs, and what that rests on; none if missing."
    )


class SeriesOfSteps(_Part):
    """The series that the release is a step of."""

    id: Digest = Field(description="SHA-256 of what all releases of the series have in common.")
    step: Positive = Field(description="Number of the step, from 1.")
    steps: Positive = Field(description="Number of all steps.")
    attribute: str = Field(description="Attribute whose values are the steps.")
    strategy: Digest = Field(description="SHA-256 of what all steps together measure, and with which noise.")
    paid_by: Digest | None = Field(description="Release of step 1, whose charge pays for all; null for step 1 itself.")
    note: str = Field(description="What the guarantee covers, and on which condition.")


class DiscoveredNames(_Part):
    """How items were discovered, and which."""

    threshold_delta: Exact = Field(description="The part of delta for names that only one unit has.")
    thresholds: list[Epsilon] = Field(
        description="Smallest noisy sum of a released item in each round; a unit of k items adds 1 / sqrt(k)."
    )
    at_most: Positive = Field(description="Maximum number of released items.")
    items: Positive = Field(description="Number of released items.")
    names: Digest = Field(description="SHA-256 of the names in items.parquet, in order.")
    note: str = Field(description="What the numbers mean.")


class NumericalBound(_Part):
    """A smaller epsilon, if one is known."""

    note: str = Field(description="What the bound is, or why there is none.")
    epsilon_at_delta: Epsilons = Field(description="Epsilon of all kernel calls together, by delta.")


class AttributeSummary(_Part):
    """An attribute's name, type and sizes."""

    name: str = Field(description="Name of the attribute.")
    type: str = Field(description="Type of the attribute.")
    values: Count | None = Field(default=None, description="Number of listed values.")
    bins: Count | None = Field(default=None, description="Number of bins.")
    codes: Positive = Field(description="Number of codes, with those of unlisted values and nulls.")


class PublicFacts(_Part):
    """Facts that are public by declaration."""

    shape: Literal["table", "baskets"] = Field(description="Shape of the data.")
    unit: str = Field(description="Column of the privacy unit.")
    units: Literal["private"] | int = Field(description="Number of units, if it is public.")
    max_rows_per_unit: Positive | None = Field(default=None, description="Rows of a unit that are used (table).")
    max_items_per_unit: Positive | None = Field(default=None, description="Items of a unit that are used (baskets).")
    columns: list[str] = Field(description="Columns that were read.")
    clustered_by_unit: bool = Field(description="Whether all rows of a unit are claimed to be in one file.")
    accounting: str = Field(description="The accounting that the config asked for.")
    consumer: str | None = Field(description="Consumer that was charged too.")
    attributes: list[AttributeSummary] | None = Field(default=None, description="Attributes of a table.")
    items: Positive | None = Field(default=None, description="Number of items of baskets.")


class NamedMechanism(_Part):
    """The mechanism."""

    name: str = Field(description="Name of the mechanism.")
    settings: dict[str, Any] = Field(description="Every setting with its value.")


class AnsweredWorkload(_Part):
    """The queries."""

    queries: dict[str, Any] = Field(description="Section workload of the config, without paths of files.")
    listed_in: Literal["answers.parquet"] = Field(description="The file that lists every query.")
    answers: Count = Field(description="Number of answers.")


class AnswerFacts(_Part):
    """How the answers' error bars are meant."""

    confidence_of_intervals: float = Field(gt=0, lt=1, description="Confidence of each interval on its own.")
    predicted_mean_absolute_error: Finite | None = Field(description="Expected error from the noise alone, in counts.")
    note: str = Field(description="What the predicted error is.")
    estimates: str | None = Field(
        default=None, description="What answers, intervals and q-values say if the answers are estimates."
    )


class KernelAnswers(_Part):
    """The journal of the kernel's answers."""

    answers: Count = Field(description="Number of kernel calls.")
    chain: str | None = Field(description="Hash of all answers; null without answers.")


class Hashes(_Part):
    """Hashes of everything public that determines the release."""

    config_schema_and_version: Digest = Field(description="The release id.")
    table_schema: Digest | None = Field(alias="schema", description="SHA-256 of the section schema.")
    workload: str = Field(description="Digest of the queries.")
    public_files: dict[str, str] = Field(description="SHA-256 of the meaning of each public file, by its config key.")
    kernel_answers: KernelAnswers = Field(description="The journal.")


class FullAttribute(_Part):
    """An attribute with all its values or edges."""

    name: str = Field(description="Name of the attribute.")
    kind: Literal["categorical", "integer", "float", "date", "boolean"] = Field(description="Type of the attribute.")
    values: list[str | bool | int] = Field(description="Listed values.")
    edges: list[int | Finite] = Field(description="Edges of the bins; dates are days since 1970-01-01.")
    other: bool | int | str = Field(description="Where unlisted values go.")
    null: bool | int | str = Field(description="Where nulls go.")
    column: str = Field(description="Parquet column.")
    sum_of: list[Annotated[tuple[str, int | Finite], Strict(False)]] = Field(  # JSON has lists alone.
        default=[], description="Columns and coefficients, where the value is their weighted sum."
    )
    absolute: bool = Field(default=False, description="Whether it is the absolute value of the sum.")
    dates: bool = Field(default=False, description="Whether the columns of the sum are dates.")


class FullSchema(_Part):
    """The schema of a table in full."""

    attributes: list[FullAttribute] = Field(min_length=1, description="The attributes, in order.")


class Formulas(_Part):
    """How a reader recomputes every amount."""

    amounts: str = Field(description="The amount of each kind of call, from its sensitivity and scale.")
    scales: str = Field(description="What sensitivity and noise_scale mean.")


class Gap(_Part):
    """Acceptance bits (0 or 1 for each query that dqrs has drawn) whose largest probability of a 1 is the same."""

    gap: Exact = Field(description="Each bit accepts with probability at most exp(-gap), whatever the data.")
    bits: Positive = Field(description="Number of these bits.")


class CertifiedCharge(_Part):
    """One kernel call with its cost, and what the cost follows from."""

    label: str = Field(description="Description of the call.")
    verb: Literal["measure", "measure_errors", "select", "sample", "retain", "discover"] = Field(
        description="Verb of the kernel."
    )
    amount: Exact = Field(description="The exact cost, in the currency of the guarantee.")
    amount_as_number: Finite = Field(description="The nearest double.")
    law: Literal[
        "discrete_laplace", "discrete_gaussian", "rounded_gaussian", "permute_and_flip", "exponential_mechanism",
        "bernoulli",
    ] = Field(description="Law of the noise, or name of the random mechanism.")  # fmt: skip
    sensitivity_bounds: Literal[
        "L1", "squared L2", "largest move of a score", "bounded range of one draw", "largest move of a log-probability"
    ] = Field(description="What the sensitivity bounds, between neighbours.")
    sensitivity: Exact = Field(description="The exact sensitivity, in the unit.")
    noise_scale: Epsilon | None = Field(description="Scale of the noise, in the unit; null for draws.")
    unit: str = Field(description="Unit of the sensitivity and the scale.")
    units_per_answer: Positive = Field(description="Number of these units per unit of a measured value.")
    draws: Positive = Field(description="Number of independent draws.")
    gaps: list[Gap] | None = Field(description="The acceptance bits by their gap, ascending; null for other calls.")


class Certificate(_Part):
    """certificate.json: the guarantee of a release, its cost, and the facts that it rests on."""

    guarantee: Guarantee = Field(description="What is promised, to whom, and at what cost.")
    limits: list[str] = Field(min_length=1, description="What the guarantee does not cover.")
    release_id: Digest = Field(description="SHA-256 of the config, the schema, the public files and the version.")
    ledger_id: LedgerId | None = Field(description="Id of the ledger that was charged.")
    reserved_at: Time | None = Field(description="Time of the charge in that ledger, in UTC.")
    dataset: NamedDataset = Field(description="The dataset.")
    series: SeriesOfSteps | None = Field(
        default=None, description="The series that the release is a step of; missing if it stands alone."
    )
    discovery: DiscoveredNames | None = Field(
        default=None, description="How items were discovered; missing if they were known."
    )
    numerical_bound: NumericalBound = Field(description="A smaller epsilon, if one is known.")
    public_facts: PublicFacts = Field(description="Facts that are public by declaration.")
    mechanism: NamedMechanism = Field(description="The mechanism with its settings.")
    workload: AnsweredWorkload = Field(description="The queries.")
    answers: AnswerFacts = Field(description="How the answers' error bars are meant.")
    synthetic_rows: Positive | None = Field(description="Number of synthetic units; null without synthetic rows.")
    notes: list[str] = Field(description="Remarks of the mechanism, and on what is assumed.")
    versions: dict[str, str] = Field(description="Versions of Marquee, Python and the packages.")
    hashes: Hashes = Field(description="Hashes of everything public that determines the release.")
    config: dict[str, Any] = Field(
        description="The config without paths, engine and output, as the release id covers it."
    )
    table_schema: FullSchema | None = Field(alias="schema", description="The schema in full; null for baskets.")
    used_by_kernel_calls: ExactAmount = Field(description="The sum of all charges.")
    formulas: Formulas = Field(description="How a reader recomputes every amount.")
    charges: list[CertifiedCharge] = Field(description="Every kernel call, in order.")


def certificate_schema() -> str:
    """The JSON Schema of certificate.json."""
    return json.dumps(Certificate.model_json_schema(), indent=2)


def parse_certificate(text: str) -> tuple[Certificate, dict[str, Any]]:
    """Reads a certificate.

    Returns: The certificate as a checked model, and as a JSON object.
    Raises: IntegrityError that names the first key that is missing, unknown, duplicated or of the wrong form.
    """
    try:
        content = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
        return Certificate.model_validate(content), content
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        key = ".".join(str(part) for part in problems[0]["loc"]) or "the certificate"
        further = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise IntegrityError(f"{key} of the certificate: {problems[0]['msg']}{further}") from error
    except (ValueError, RecursionError) as error:
        reason = str(error) if type(error) is ValueError else type(error).__name__
        raise IntegrityError(f"the certificate is not valid JSON ({reason})") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return content


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
