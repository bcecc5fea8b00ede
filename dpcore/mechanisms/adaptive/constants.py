"""The constants of adaptive residuals; ``dpcore/decisions/shrinkage.md`` has the measurements behind them."""

from __future__ import annotations

from dataclasses import dataclass

from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB


@dataclass(frozen=True)
class AdaptiveConstants:
    """How the budget is divided, and which estimates are made.

    "Noise" is that of unbiased answers: the expected L1 error of a marginal over the noisy number of rows, both public.

    total_share: Share of the number of rows, where it is private.
    first_share: Part of the rest that the first call gets.
    decay: In the first call, each attribute of a residual after the first multiplies its share by this: large sets
        often have nothing to tell.
    few_residuals: Fewer residuals than this tell little of where the second call is needed. The first call then has
        the shares of the least error without a second one, whatever ``decay``.
    first_share_of_few: Takes the place of ``first_share`` for few residuals.
    mean_answers: Up to so many answers, the estimates are averaged with the nearest non-negative answers.
    mean_work: Part of the remaining work that the fits of the mean may take if rows need a fit afterwards.
    class_noise: From this noise on, and up to ``mean_answers`` answers, the answers of latent-class models are in the
        mean, too. Marginals of one attribute each need none.
    corrected_noise: From which noise on, and up to which, these models are corrected for the sampling variation,
        where that is possible (``sample_posterior.is_possible``). They are then in the mean from this noise on.
    class_cells: If a marginal has more cells than this, there are no latent-class models.
    classes: The number of classes of each of these models. A few classes suit much noise, many suit little noise.
    model_noise: From this noise on, the estimates are averaged with the answers of one model of all marginals too.
    model_cells: Maximum number of cells of the junction tree of that model.
    part_noise: The same for a model of a part of the marginals, where one of all is too large.
    part_cells: Maximum number of cells of the junction tree of a part.
    small_marginal: Mean cells of small marginals, at most. A part is modelled of these alone.
    max_noise: Above this noise, rounds that select marginals are better than measuring everything.
    large_marginal: Marginals of more cells than this on average are large.
    max_noise_of_large: Takes the place of ``max_noise`` for large marginals.
    few_marginals: Among so many marginals, at most, there is little to select.
    max_noise_of_few: Takes the place of both for few marginals.
    """

    total_share: float = 0.01
    first_share: float = 0.5
    decay: float = 0.5
    few_residuals: int = 100
    first_share_of_few: float = 0.75
    mean_answers: int = 2_000_000
    mean_work: float = 0.75
    class_noise: float = 0.001
    corrected_noise: tuple[float, float] = (0.0003, 0.03)
    class_cells: int = 200_000
    classes: tuple[int, ...] = (16, 64)
    model_noise: float = 0.001
    model_cells: int = 16 * CELLS_IN_MB
    part_noise: float = 0.01
    part_cells: int = 2 * CELLS_IN_MB
    small_marginal: int = 16
    max_noise: float = 0.5
    large_marginal: int = 250
    max_noise_of_large: float = 0.3
    few_marginals: int = 8
    max_noise_of_few: float = 1.0
