"""Privacy bugs, each planted in turn in the code that ships; a check that the real code passes must fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from dpcore.errors import IntegrityError
from dpcore.kernel import (
    bernoulli,
    conversion,
    entropy,
    exact_answers,
    product_sensitivity,
    sensitivity,
    weighted_sampler,
)
from dpcore.kernel import privacy_terms as terms
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.budget import Filter
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.noise import add_noise
from dpcore.kernel.noisy_maximum import noisy_argmax
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import GRID, L1Error
from dpcore.measurement import Noise
from dpcore.mechanisms.clipping import lattice_groups
from dpcore.queries import Conjunctions, lattice
from jobs.ledger import records as ledger_records
from jobs.ledger import releases as ledger_releases
from jobs.ledger.windows import start_of
from pipelines import column_codes, contribution, weighted_sums
from pipelines.aggregators import clipped, contingency, pairs, protocol
from pipelines.engines import accumulation, local
from tests.audit import (
    clipped_bugs,
    clipped_checks,
    item_bugs,
    item_checks,
    kernel_checks,
    ledger_bugs,
    pipeline_checks,
    score_checks,
)
from tests.audit.kernel_checks import Check
from tests.audit.section import Row, Size
from tests.audit.wrong_draws import (
    bits_by,
    complement_hit_as_its_query,
    complement_is_the_negative,
    complement_of_n0,
    complement_of_the_wrong_sign,
    digest_without,
    draws_by,
    gaps_of,
    hits_ignored,
    prior_ignored,
    rows_of_all_tables,
    shares_of_the_raw_number,
    span_that_skips_nan,
    unclamped,
)

TITLE = "Planted bugs"
CLAIM = (
    "Each bug replaces one function of the code that ships; the check in the last column fails then, and passes on the "
    "real code. Checks are exact, or tests at level 10^-7 whose power against these bugs is above 1 - 10^-7."
)
CHECKS: dict[str, Check] = (
    kernel_checks.CHECKS | pipeline_checks.CHECKS | clipped_checks.CHECKS | score_checks.CHECKS | item_checks.CHECKS
)
CAUGHT = (AssertionError, pytest.fail.Exception, IntegrityError)


@dataclass(frozen=True)
class Bug:
    """A planted bug: what replaces ``name`` in ``place``, and the check that must notice."""

    bug: str
    place: Any
    name: str
    wrong: Any
    caught_by: str

    @property
    def room(self) -> str:
        """The module, or the module of the class, that it is planted in."""
        return str(getattr(self.place, "__module__", self.place.__name__))


def run(size: Size) -> Sequence[Row]:
    """The same at every size."""
    passed = {name: passes(name) for name in CHECKS}
    rows = []
    for bug in BUGS:
        caught = passed[bug.caught_by] and is_caught(bug)
        cells = {"bug": bug.bug, "room": bug.room, "caught by": bug.caught_by if caught else f"NOT by {bug.caught_by}"}
        rows.append(Row(cells, caught))
    return rows


def passes(check: str) -> bool:
    try:
        CHECKS[check]()
    except CAUGHT:
        return False
    return True


def is_caught(bug: Bug) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bug.place, bug.name, bug.wrong)
        return not passes(bug.caught_by)


def scaled(function: Callable[..., float], factor: float) -> Callable[..., float]:
    return lambda *given: function(*given) * factor


def drawn_before_charged(self: Any, label: str, request: Any, amount: Fraction, draw: Callable[[], Any]) -> Any:
    answer = draw()
    self._filter.charge("late", amount)
    return answer


def never_charged(self: Any, label: str, request: Any, amount: Fraction, draw: Callable[[], Any]) -> Any:
    return draw()


def charged_and_never_remembered(self: Any, label: str, request: Any, amount: Fraction, draw: Callable[[], Any]) -> Any:
    self._filter.charge("once", amount)
    return draw()


def charged_for_what_is_accepted(self: Any, label: str, request: Any, amount: Fraction, draw: Callable[[], Any]) -> Any:
    bits = draw()
    self._filter.charge(label, amount * Fraction(int(bits.sum()), bits.size))
    return bits


def recorded_after_use(self: Any, label: str, request: Any, amount: Fraction, draw: Callable[[], Any]) -> Any:
    """The answer is used now; it would be stored with the next one."""
    self._filter.charge(label, amount)
    self._pending = draw()
    return self._pending


def asked_before_reserved(self: Any, statistics: Any, *, unit: Any, budget: Any, ledger: Any, journal: Any) -> None:
    statistics.aggregate(None)
    ledger.reserve(budget)


def parts_with_exact_answers(self: L1Error) -> Any:
    return (np.random.default_rng().integers(9, size=5), np.ones(2, np.int64), np.zeros(2, np.int64))


def one_draw_for_all(exact: NDArray[np.int64], noise: Noise, scale: float, *_: Any) -> NDArray[np.int64]:
    return exact + add_noise(np.zeros(1, dtype=np.int64), noise, scale)


def always_laplace(exact: NDArray[np.int64], noise: Noise, scale: float, *_: Any) -> NDArray[np.int64]:
    return add_noise(exact, Noise.LAPLACE, scale)


def float_gauss(exact: NDArray[np.int64], noise: Noise, scale: float, *_: Any) -> NDArray[np.int64]:
    return np.asarray(exact + np.random.default_rng().normal(scale=scale, size=exact.size), dtype=np.int64)


def whole_counts(exact: NDArray[np.int64], noise: Noise, scale: float, *_: Any) -> NDArray[np.int64]:
    """Exact answers in steps of the grid, noise still in counts: 1024 times too small."""
    return (exact << 10) + add_noise(np.zeros_like(exact), Noise.GAUSSIAN, scale)


def best_of_two(scores: NDArray[np.int64], currency: Any, scale: float) -> int:
    return int(max((noisy_argmax(scores, currency, scale) for _ in range(2)), key=lambda chosen: scores[chosen]))


def gumbel_in_doubles(scores: NDArray[np.int64], _: Any, scale: float) -> int:
    return int(np.argmax(scores + np.random.default_rng().gumbel(scale=scale, size=scores.size)))


def norms_of_real_rows(queries: Any) -> int:
    """From the matrix as it was before rounding; the other term is of integers."""
    return int(np.floor(max(2 * np.abs(kernel_checks.REAL).sum(axis=0)))) + 1


def squares_of_real_rows(queries: Any) -> int:
    return int(np.floor(max(4 * (kernel_checks.REAL**2).sum(axis=0)))) + 1


def largest_term_alone(queries: Any) -> int:
    return max(product_sensitivity.largest_l1(replace(queries, terms=(term,))) for term in queries.terms)


def finite_by_size(self: L1Error) -> None:
    if (np.abs(self.estimate) > 2.0**44).any():
        raise ValueError("estimate of a score is not finite")


def edges_of_the_data(values: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.int32]:
    finite = values[np.isfinite(values)]
    ends = np.linspace(finite.min(), finite.max(), edges.size + 2)[1:-1] if finite.size else edges
    return np.searchsorted(ends, np.nan_to_num(values), side="right").astype(np.int32)


def values_of_the_data(column: Any, attribute: Any) -> NDArray[np.int32]:
    encoded = column.dictionary_encode()
    return np.asarray(encoded.indices.fill_null(0)) % attribute.known


def sums_less_their_mean(columns: list[NDArray[Any]], coefficients: list[float]) -> NDArray[np.float64]:
    sums = np.asarray(TOTAL(columns, coefficients), dtype=np.float64)
    return sums - np.nan_to_num(sums).mean()


def first_rows(hashes: NDArray[np.uint64], starts: NDArray[np.int64], bound: int) -> NDArray[np.bool_]:
    return np.concatenate([np.arange(size) < bound for size in np.diff(starts)])


def rows_by_run(units: Any) -> contribution.Groups:
    return contribution.Groups(None, contribution._run_starts(np.asarray(units)))


NOISE_SCALE, SELECTION_SCALE = terms.noise_scale, terms.selection_scale
DRAW, CHARGE, SELECT_BASIS = weighted_sampler.draw, Filter.charge, PrivacyTerms.select_basis
TOTAL = weighted_sums._total
SMALLEST, SMALLEST_DISTINCT, KEY_OF = contribution._smallest, contribution._smallest_distinct, contribution.key_of
WORDS, BITS, BOUNDED = entropy.words, bernoulli.bits, terms.bounded_range_cost
BUGS = [
    Bug("half the Laplace noise", terms, "noise_scale", scaled(NOISE_SCALE, 0.5), "laplace, add/remove"),
    Bug("half the Gaussian noise", terms, "noise_scale", scaled(NOISE_SCALE, 0.5), "gauss, add/remove"),
    Bug("half the variance", terms, "noise_scale", scaled(NOISE_SCALE, math.sqrt(0.5)), "gauss, add/remove"),
    Bug("half the rounded noise", terms, "noise_scale", scaled(NOISE_SCALE, 0.5), "rounded gauss, add/remove"),
    Bug("no noise", kernel, "add_noise", lambda exact, *_: exact, "laplace, add/remove"),
    Bug("one draw for all cells", kernel, "add_noise", one_draw_for_all, "laplace, add/remove"),
    Bug("Laplace noise under zCDP", kernel, "add_noise", always_laplace, "gauss, add/remove"),
    Bug("Gaussian noise in doubles, cut", kernel, "add_noise", float_gauss, "gauss, add/remove"),
    Bug("steps of the grid forgotten", kernel, "add_noise", whole_counts, "rounded gauss, add/remove"),
    Bug("rho taken as mu^2", terms, "noise_scale",
        lambda currency, *given: NOISE_SCALE(kernel_checks.ZCDP, *given), "rounded gauss, add/remove"),
    Bug("replacing moves L1 once", sensitivity, "_twice_if_replaced", lambda n, _: n, "laplace, replace"),
    Bug("replacing moves L2 once", sensitivity, "_twice_if_replaced", lambda n, _: n, "gauss, replace"),
    Bug("replacing moves L2 once under Gaussian DP", sensitivity, "_twice_if_replaced",
        lambda n, _: n, "rounded gauss, replace"),
    Bug("rows of a unit ignored", sensitivity, "_rows_of_unit", lambda _: 1, "laplace, 3 rows"),
    Bug("rows ignored in squares", sensitivity, "_rows_of_unit", lambda _: 1, "gauss, add/remove"),
    Bug("rows ignored in answers", sensitivity, "answer_sensitivity", lambda _: 1, "laplace, conjunctions"),
    Bug("rows ignored in squared answers", sensitivity, "answer_sensitivity", lambda _: 1, "gauss, conjunctions"),
    Bug("cliques ignored", terms, "l1_sensitivity", lambda *_: 1, "laplace, 2 cliques"),
    Bug("cliques ignored in squares", terms, "squared_l2_sensitivity", lambda *_: 9, "gauss, 2 cliques"),
    Bug("L2 not squared", terms, "squared_l2_sensitivity", lambda *_: 3, "gauss, add/remove"),
    Bug("L1 of the unrounded matrix", sensitivity, "largest_l1", norms_of_real_rows, "products"),
    Bug("L2 of the unrounded matrix", sensitivity, "largest_squared_l2", squares_of_real_rows, "products"),
    Bug("products: replacing moves one column", sensitivity, "largest_squared_exchange",
        sensitivity.largest_squared_l2, "products"),
    Bug("products: the largest term alone", sensitivity, "largest_l1", largest_term_alone, "products"),
    Bug("products: rows of a unit ignored", sensitivity, "_rows_of_unit", lambda _: 1, "products"),
    Bug("clipped: replacing moves once", sensitivity, "_twice_if_replaced", lambda n, _: n, "clipped"),
    Bug("clipped: a unit adds to one query", sensitivity, "largest_clipped", clipped_bugs.of_one_query, "clipped"),
    Bug("clipped: heavy units alone", sensitivity, "largest_clipped", clipped_bugs.of_heavy_units_alone, "clipped"),
    Bug("clipped: the largest group alone", sensitivity, "_of_one_record",
        clipped_bugs.of_the_largest_group, "clipped"),
    Bug("clipped: rows of a unit ignored", sensitivity, "_of_one_record",
        clipped_bugs.of_any_unit, "clipped, one row"),
    Bug("clipped: sums of any size taken", exact_answers, "largest_clipped",
        lambda queries, _: [1 << 62] * len(queries.weights), "clipped aggregates"),
    Bug("lattice: a member measured for each term", lattice, "SortedRows", clipped_bugs.RepeatedRows, "signed sums"),
    Bug("lattice: signs of subsets forgotten", lattice, "_set_bits", np.zeros_like, "signed sums"),
    Bug("lattice: orders in one group", lattice_groups.Groups, "of", clipped_bugs.of_one_group, "signed sums"),
    Bug("an order that counts repeated literals", Conjunctions, "orders",
        property(lambda queries: np.full(queries.size, queries.order)), "signed sums"),
    *[Bug(*planted) for planted in score_checks.PLANTED],
    Bug("selection four times too sharp", terms, "selection_scale", scaled(SELECTION_SCALE, 0.25), "select, pure"),
    Bug("selection twice too sharp", terms, "selection_scale", scaled(SELECTION_SCALE, 0.5), "select, zcdp"),
    Bug("selection under Gaussian DP priced as zCDP", terms, "selection_scale",
        lambda currency, *given: SELECTION_SCALE(kernel_checks.ZCDP, *given), "select, gdp"),
    Bug("selection without noise", kernel, "noisy_argmax", lambda s, *_: int(np.argmax(s)), "select, pure"),
    Bug("selection with Gumbel noise under pure DP", kernel, "noisy_argmax", gumbel_in_doubles, "select, pure"),
    Bug("two selections for one charge", kernel, "noisy_argmax", best_of_two, "select, zcdp"),
    Bug("scores move once when replaced", L1Error, "sensitivity", lambda *_: GRID**2, "select, replace"),
    Bug("rows ignored in scores", L1Error, "sensitivity", lambda *_: GRID**2, "select, 3 rows"),
    Bug("grid forgotten in scores", L1Error, "sensitivity", lambda *_: GRID, "select, pure"),
    Bug("selection draws for the whole budget", PrivacyTerms, "select_basis",
        lambda self, candidates, score, _: SELECT_BASIS(self, candidates, score, Fraction(1)), "select, pure"),
    Bug("shapes of scores unchecked", L1Error, "check", lambda *_: None, "shapes"),
    Bug("complement of n0", weighted_sampler, "draw", draws_by(complement_of_n0), "sample"),
    Bug("counts unclamped", weighted_sampler, "draw", draws_by(unclamped), "sample, clamped"),
    Bug("the raw number of units for n0", weighted_sampler, "draw", draws_by(shares_of_the_raw_number), "sample"),
    Bug("hits ignored", weighted_sampler, "draw", draws_by(hits_ignored), "sample"),
    Bug("prior ignored", weighted_sampler, "draw", draws_by(prior_ignored), "sample"),
    Bug("complement: the negative of its query", weighted_sampler, "draw",
        draws_by(complement_is_the_negative), "sample"),
    Bug("complement: hits of the wrong sign", weighted_sampler, "draw",
        draws_by(complement_of_the_wrong_sign), "sample"),
    Bug("complement: hits of its query", weighted_sampler, "draw", draws_by(complement_hit_as_its_query), "sample"),
    Bug("complement of a cell in the rows of all tables", exact_answers.ExactAnswers, "counted",
        rows_of_all_tables, "sample, cells"),
    Bug("slope twice too steep", weighted_sampler, "draw",
        lambda scores, *given: DRAW(replace(scores, slope=2 * scores.slope), *given), "sample"),
    Bug("every proposal accepted", weighted_sampler, "_accepts",
        lambda rests, *_: np.ones(rests.size, dtype=np.bool_), "rejection"),
    *[Bug(f"a request forgets the tilt's {name}", LogWeights, "digest", digest_without(name), "tilts named")
      for name in ("step", "hits", "done", "prior", "constant")],
    Bug("targets drawn evenly", entropy, "each_below", lambda bounds: np.zeros_like(bounds), "sample"),
    Bug("replacing moves a draw in one direction", PrivacyTerms, "draw_range",
        lambda self, slope, total: abs(slope) / total + 4 * weighted_sampler.XI, "cost of draws"),
    Bug("weights taken as exact", terms, "XI", Fraction(0), "cost of draws"),
    Bug("table of powers shifted", weighted_sampler, "_TABLE", np.roll(weighted_sampler._TABLE, 1), "weights"),
    Bug("NaN passes the prior of a tilt", LogWeights, "_span", staticmethod(span_that_skips_nan), "no numbers"),
    Bug("scores of any size", weighted_sampler, "check_scores", lambda *_: None, "no numbers"),
    Bug("NaN passes the limit of estimates", L1Error, "__post_init__", finite_by_size, "no numbers"),
    Bug("bits of the complement from n0", weighted_sampler, "split_weights", bits_by(complement_of_n0), "retain"),
    Bug("bits without hits", weighted_sampler, "split_weights", bits_by(hits_ignored), "retain"),
    Bug("bits of the complement: hits of its query", weighted_sampler, "split_weights",
        bits_by(complement_hit_as_its_query), "retain"),
    Bug("one word for all bits", entropy, "words", lambda count: np.repeat(WORDS(1), count), "retain"),
    Bug("bits twice as likely", bernoulli, "bits", lambda e, m: BITS(np.minimum(e + 1, -1), m), "retain"),
    Bug("only accepted bits charged", kernel.PrivateStatistics, "_answer",
        charged_for_what_is_accepted, "every bit charged"),
    Bug("certain bits accepted", kernel, "acceptance_gaps", gaps_of(np.max), "certain bits"),
    Bug("all bits priced as the rarest", kernel, "acceptance_gaps", gaps_of(np.min), "cost of bits"),
    Bug("the bit 0 says nothing", PrivacyTerms, "_bit_cost",
        lambda self, width, _: BOUNDED(self.budget.currency, width), "cost of bits"),
    Bug("charge after the draw", kernel.PrivateStatistics, "_answer", drawn_before_charged, "refusals"),
    Bug("no charge", kernel.PrivateStatistics, "_answer", never_charged, "refusals"),
    Bug("charges never refused", Filter, "charge", lambda *_: None, "budget"),
    Bug("half of each charge recorded", Filter, "charge",
        lambda self, label, amount, *rest: CHARGE(self, label, amount / 2, *rest), "budget"),
    Bug("draws of a call charged once", PrivacyTerms, "draws_amount",
        lambda self, slope, total, size: self.draw_range(slope, total), "budget"),
    Bug("new noise on a retry", kernel.PrivateStatistics, "_answer", charged_and_never_remembered, "replay"),
    Bug("answer recorded after its use", kernel.PrivateStatistics, "_answer", recorded_after_use, "stored first"),
    Bug("requests all alike", kernel.json, "dumps", lambda *_: "the same", "replay"),
    Bug("requests that depend on the data", L1Error, "public_parts", parts_with_exact_answers, "requests"),
    Bug("data asked before the ledger", kernel.PrivateStatistics, "__init__", asked_before_reserved, "ledger first"),
    Bug("tables of any size taken", exact_answers.ExactAnswers, "_check_rows", lambda *_: 1 << 44, "aggregates"),
    Bug("epsilon taken as rho", conversion, "zcdp_of", lambda epsilon, _: Fraction(epsilon), "conversion"),
    Bug("order of the conversion ignored", conversion, "epsilon_of_zcdp", lambda rho, _: rho, "conversion"),
    Bug("bins from the data", column_codes, "_bins", edges_of_the_data, "encoding"),
    Bug("domain from the data", column_codes, "_listed_indices", values_of_the_data, "encoding"),
    Bug("sums less their mean", weighted_sums, "_total", sums_less_their_mean, "encoding"),
    Bug("rows kept by position", contribution, "_smallest", first_rows, "kept by hash"),
    Bug("rows kept by a known hash", contribution, "key_of", lambda _: KEY_OF(bytes(16)), "secret salt"),
    Bug("a row too many kept", contribution, "_smallest", lambda h, s, bound: SMALLEST(h, s, bound + 1), "bound kept"),
    Bug("an item too many kept", contribution, "_smallest_distinct",
        lambda h, s, bound: SMALLEST_DISTINCT(h, s, bound + 1), "bound kept"),
    Bug("rows that lie apart are two units", contribution, "group_by_unit", rows_by_run, "scattered rows"),
    Bug("a unit in two files counts twice", local, "units_in_many_files",
        lambda files: (list(files), pa.nulls(0))[1], "split unit, clustered"),
    Bug("rows spread by place, not by unit", accumulation, "shard_numbers",
        lambda units, shards, _: np.arange(len(units)) % shards, "split unit, shuffled"),
    Bug("totals of blocks unchecked", protocol, "_check_totals", lambda *_: None, "blocks"),
    Bug("tables not summed", contingency.Contingency, "extract", lambda self, counts: counts[:-2], "slices"),
    Bug("clipped by what the next unit satisfies", clipped, "_satisfied",
        clipped_bugs.satisfied_by(clipped_bugs.of_the_next_unit), "clipped sums"),
    Bug("clipped by one query less", clipped, "_satisfied",
        clipped_bugs.satisfied_by(clipped_bugs.one_less), "clipped sums"),
    Bug("weights of another group", clipped, "planes_of", clipped_bugs.of_the_first_group, "clipped sums"),
    Bug("weights rounded up", clipped, "planes_of", clipped_bugs.rounded_to_powers_of_two, "clipped sums"),
    Bug("binned by all groups together", clipped, "_satisfied",
        clipped_bugs.satisfied_by(clipped_bugs.of_all_groups), "bins"),
    Bug("pairs clipped by one item less", pairs, "_add_pairs", clipped_bugs.pairs_of_one_item_less, "clipped pairs"),
    Bug("an item that is held twice counts twice", pairs, "_add_pairs",
        clipped_bugs.pairs_with_repeats, "clipped pairs"),
    Bug("units binned by items, not pairs", pairs, "_bin_units", clipped_bugs.binned_by_items, "clipped pairs"),
    Bug("totals of pairs unchecked", pairs, "checked_sums",
        lambda values, units, groups, weights: values[: groups.size], "clipped slices"),
    Bug("totals of clipped sums unchecked", clipped.Clipped, "extract",
        lambda self, values: values[: self.groups.size], "clipped slices"),
    *[Bug(*planted) for planted in item_bugs.PLANTED],
    Bug("a crash refunds its charge", ledger_releases, "reserve", ledger_bugs.refunded_when_it_comes_back, "crash"),
    Bug("a charge without its sum", ledger_releases, "_charge", ledger_bugs.forgotten_on_retry, "crash"),
    Bug("a retry pays again", ledger_releases, "reserve", ledger_bugs.charged_again, "crash"),
    Bug("a consumer's window starts anew each time", ledger_records.ConsumerBudget, "at",
        ledger_bugs.window_of_the_moment, "windows"),
    Bug("a clock that goes back opens an old window", ledger_records, "current_start",
        lambda window, _, now: start_of(window, now), "windows"),
]  # fmt: skip
