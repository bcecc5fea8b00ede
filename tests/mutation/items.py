"""Faults in the discovery of items: the threshold, the weights, the sums, the ledger and the lists of names."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

_THRESHOLD: Final = "dpcore/kernel/item_threshold.py"
_VERB: Final = "dpcore/kernel/private_items.py"
_SUMS: Final = "pipelines/aggregators/item_sums.py"
_LEDGER: Final = "jobs/ledger/records.py"
_PRICE: Final = "jobs/ledger/pricing.py"
_NAMES: Final = "pipelines/item_names.py"
_OF_THRESHOLD: Final = "tests/unit/dpcore/kernel/test_item_threshold.py"
_OF_VERB: Final = "tests/unit/dpcore/kernel/test_private_items.py"
_OF_SUMS: Final = "tests/unit/pipelines/aggregators/test_item_sums.py"
_OF_LEDGER: Final = "tests/unit/jobs/ledger/test_thresholds.py"
_OF_NAMES: Final = "tests/unit/pipelines/test_item_names.py"

MUTANTS: Final = (
    Mutant(
        "the threshold delta of a unit is that of one item",
        _THRESHOLD,
        "counts * tail(margins) <=",
        "tail(margins) <=",
        f"{_OF_THRESHOLD}::test_no_unit_alone_exceeds_the_threshold_more_often_than_promised",
    ),
    Mutant(
        "the threshold forgets the weight of a new item",
        _THRESHOLD,
        "(threshold - 1 - weights[1:] * steps) / sigma",
        "(threshold - 1) / sigma",
        f"{_OF_THRESHOLD}::test_no_unit_alone_exceeds_the_threshold_more_often_than_promised",
    ),
    Mutant(
        "weights are not clipped",
        _THRESHOLD,
        "math.isqrt(square // k)",
        "math.isqrt(square)",
        f"{_OF_THRESHOLD}::test_weights_are_the_largest_with_a_norm_of_one",
    ),
    Mutant(
        "epsilon is not reduced by the threshold delta",
        _THRESHOLD,
        "Fraction(epsilon) - 2 * threshold_delta",
        "Fraction(epsilon) + 0 * threshold_delta",
        "tests/integration/test_discovered_items.py::test_a_target_is_reduced_by_the_chance",
    ),
    Mutant(
        "replacing moves the sums once",
        _VERB,
        "(2 if self.unit.replaced else 1)",
        "1",
        f"{_OF_VERB}::test_replacing_doubles_the_squared_sensitivity",
    ),
    Mutant(
        "the threshold delta is no part of the request",
        _VERB,
        "basis.scale.hex(), str(terms.threshold_delta), terms.threshold)",
        "basis.scale.hex())",
        f"{_OF_VERB}::test_another_request_is_not_answered_from_the_journal",
    ),
    Mutant(
        "a later round takes the whole threshold delta",
        _VERB,
        "share * self.threshold_delta) for share in ROUNDS",
        "self.threshold_delta) for share in ROUNDS",
        f"{_OF_VERB}::test_a_later_round_weighs_what_is_left_and_has_less_noise",
    ),
    Mutant(
        "released items are read again",
        _VERB,
        "if set(names) & set(released):",
        "if False:",
        f"{_OF_VERB}::test_sums_of_items_that_are_released_already_are_refused",
    ),
    Mutant(
        "sums of any size are taken",
        _VERB,
        "not 0 < sums.sums.min() <= sums.sums.max() <= sums.units * max_weight",
        "not 0 < sums.sums.min()",
        f"{_OF_VERB}::test_sums_that_no_units_can_make_are_refused",
    ),
    Mutant(
        "an item counts once per pair",
        _SUMS,
        "                last_unit[items[pair]] = -1\n",
        "",
        f"{_OF_SUMS}::test_sums_are_those_of_a_counter",
    ),
    Mutant(
        "a unit may have more items than there are weights",
        _SUMS,
        "if distinct >= weights.size:",
        "if distinct > weights.size:",
        f"{_OF_SUMS}::test_a_unit_over_the_bound_is_refused",
    ),
    Mutant(
        "released items still take the place of others",
        "pipelines/engines/accumulation.py",
        "        units, items = units.filter(booleans(kept)), items[kept]\n",
        "        kept = kept\n",
        f"{_OF_SUMS}::test_excluded_items_are_as_if_nobody_had_them",
    ),
    Mutant(
        "names of one hash are one item",
        _SUMS,
        "    return int(size) - int(other_size)",
        "    return 0",
        f"{_OF_SUMS}::test_a_name_that_begins_another_is_another_item",
    ),
    Mutant(
        "lost slices of items go unnoticed",
        _SUMS,
        "if int(whole.sums.sum()) != whole.total or exceeds or not in_order:",
        "if exceeds or not in_order:",
        f"{_OF_SUMS}::test_damage_is_noticed",
    ),
    Mutant(
        "a threshold costs nothing",
        _LEDGER,
        "return max(Fraction(0), self.total - smaller - self.surcharges)",
        "return Fraction(0)",
        f"{_OF_LEDGER}::test_several_discoveries_and_other_releases_keep_the_promise",
    ),
    Mutant(
        "earlier thresholds are forgotten",
        _PRICE,
        "dataset.uncovered(dataset.threshold_delta + request.threshold_delta)",
        "dataset.uncovered(request.threshold_delta)",
        f"{_OF_LEDGER}::test_a_second_discovery_pays_for_both_thresholds",
    ),
    Mutant(
        "what thresholds keep free is shown as remaining",
        _LEDGER,
        "self.total - self.spent - self.kept_free",
        "self.total - self.spent",
        f"{_OF_LEDGER}::test_a_changed_total_keeps_free_what_the_thresholds_need_under_it",
    ),
    Mutant(
        "a name of the same hash is the listed one",
        _NAMES,
        "        distinct_codes[nulls_of(values) | self._differs(distinct_codes, values)] = UNKNOWN\n",
        "        distinct_codes[nulls_of(values)] = UNKNOWN\n",
        f"{_OF_NAMES}::test_names_with_equal_hashes_keep_apart",
    ),
    Mutant(
        "thresholds beyond the proof are taken",
        _THRESHOLD,
        '    if threshold_delta > LARGEST_THRESHOLD_DELTA:\n        raise ValueError(f"thresholds are exceeded with '
        'probability {float(threshold_delta):g}; want at most 1/2")\n    reduced',
        "    reduced",
        f"{_OF_THRESHOLD}::test_thresholds_that_together_exceed_a_half_have_no_proof",
    ),
)
