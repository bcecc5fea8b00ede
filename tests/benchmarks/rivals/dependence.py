"""Noisy one-way marginals, and how far each pair is from their product: PrivMRF and PrivSyn select from these."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.errors import ConfigError
from dpcore.estimation.independent import to_simplex
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.shared.pgm_common import modelled, rows_of, table_marginals
from dpcore.queries import Marginals
from dpcore.strategies.allocation import split_by_size
from dpcore.workload import Workload


@final
@dataclass(frozen=True, eq=False)
class Dependence:
    """What was learnt of attributes and pairs; all of it is public.

    queries: The marginals of the workload.
    names: The attributes, in the order of the domain.
    measured: One measurement for each attribute.
    one_way: The counts of each attribute's values, >= 0 with the sum ``total``.
    total: Estimated number of rows, >= 1.
    pairs: All pairs of attributes.
    values: float64 [pairs], noisy L1 distance of each pair's table from the product of ``one_way``, in counts.
    stddev: Standard deviation of the noise in each of the values.
    """

    queries: Marginals
    names: Clique
    measured: tuple[Measurement, ...]
    one_way: dict[str, NDArray[np.float64]]
    total: float
    pairs: tuple[Clique, ...]
    values: NDArray[np.float64]
    stddev: float

    @property
    def beyond_noise(self) -> dict[Clique, float]:
        """The distances of the pairs whose distance exceeds the standard deviation of its noise."""
        return {
            pair: value for pair, value in zip(self.pairs, self.values.tolist(), strict=True) if value > self.stddev
        }


def measure_dependence(
    private: PrivateStatistics, workload: Workload, rival: str, one_way_share: Fraction, pairs_share: Fraction
) -> Dependence:
    """Measures all one-way marginals, and then the distances of all pairs in one call.

    Both papers add noise to the distance of a pair from the product of its *exact* one-way marginals, which one unit
    moves by up to 4 (PrivSyn) or 3 (PrivMRF) counts. Here the product is that of the noisy one-way marginals, which is
    public, so that one unit moves a distance by 1 count alone, and the kernel proves it.
    """
    queries = attribute_marginals(workload, rival)
    names = modelled(queries)
    one_ways = [(name,) for name in names]
    pairs = tuple(combinations(names, 2))
    private.expect(queries.only([*one_ways, *pairs]))
    sizes = np.array([queries.domain.size(name) for name in one_ways])
    shares = split_by_size(sizes, np.ones(len(names)), one_way_share)
    measured = tuple(
        private.measure(queries.only([name]), share)  # MEASURE
        for name, share in zip(one_ways, shares, strict=True)
    )
    total = rows_of(private.terms, queries.domain, measured)
    one_way = {
        name: total * to_simplex(measurement.values / total) for name, measurement in zip(names, measured, strict=True)
    }
    products = [np.outer(one_way[first], one_way[second]).ravel() / total for first, second in pairs]
    errors = private.measure_errors(queries.only(pairs), np.concatenate(products), pairs_share)  # MEASURE
    return Dependence(queries, names, measured, one_way, total, pairs, errors.values, errors.stddev)


def attribute_marginals(workload: Workload, rival: str) -> Marginals:
    """The marginals of a workload, each once. Raises ConfigError unless they name two attributes or more."""
    if not isinstance(workload.requested, Marginals):
        raise ConfigError(f"{rival} answers marginals of a table; want workload.marginals")
    queries = table_marginals(workload, rival)
    if len(modelled(queries)) < 2:
        raise ConfigError(f"{rival} measures pairs of attributes; want a workload that names two or more")
    return queries
