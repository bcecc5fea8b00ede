"""Faults of fits and their priors."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "any total",
        "dpcore/estimation/graphical/fitting/fit.py",
        "    if not 0 < total < math.inf:",
        "    if False:",
        "tests/unit/dpcore/estimation/graphical/fitting/test_fit.py::test_a_total_that_no_model_has_is_refused",
    ),
    Mutant(
        "public one-way counts are shrunk twice",
        "dpcore/estimation/graphical/fitting/fit.py",
        "        elif settings.empirical_bayes:",
        "        if settings.empirical_bayes:",
        "tests/unit/dpcore/estimation/graphical/fitting/test_base.py"
        "::test_public_counts_are_kept_where_priors_are_learnt",
    ),
    Mutant(
        "a learnt prior is never learnt again",
        "dpcore/estimation/graphical/fitting/fit.py",
        "        and problem.count < _RELEARN_GROWTH * warm.learnt_from\n",
        "",
        "tests/unit/dpcore/estimation/graphical/fitting/test_learnt_priors.py"
        "::test_a_fifth_more_components_of_the_same_orders_are_learnt_from",
    ),
    Mutant(
        "a learnt prior is learnt every time",
        "dpcore/estimation/graphical/fitting/fit.py",
        "problem.count < _RELEARN_GROWTH * warm.learnt_from",
        "False",
        "tests/unit/dpcore/estimation/graphical/fitting/test_learnt_priors.py"
        "::test_what_was_learnt_is_kept_until_there_is_much_more_to_learn_from",
    ),
    Mutant(
        "a learnt prior lacks new orders",
        "dpcore/estimation/graphical/fitting/fit.py",
        "        and set(problem.orders) <= set(warm.prior_scales)\n",
        "",
        "tests/unit/dpcore/estimation/graphical/fitting/test_learnt_priors.py::test_a_new_order_is_learnt_at_once",
    ),
    Mutant(
        "an assumed prior counts as learnt",
        "dpcore/estimation/graphical/fitting/fit.py",
        "        and warm.learns_prior\n",
        "",
        "tests/unit/dpcore/estimation/graphical/fitting/test_learnt_priors.py"
        "::test_a_fit_that_did_not_learn_leaves_nothing_learnt",
    ),
    Mutant(
        "single attributes learn a prior",
        "dpcore/estimation/graphical/fitting/fit.py",
        "            if order > 1:\n",
        "            if order > 0:\n",
        "tests/unit/dpcore/estimation/graphical/fitting/test_learnt_priors.py"
        "::test_independent_attributes_are_learnt_to_be_so",
    ),
    Mutant(
        "starts are forgotten",
        "dpcore/estimation/graphical/fitting/fit.py",
        "start = problem.start({} if warm is None else warm.multipliers)",
        "start = problem.start({})",
        "tests/unit/dpcore/estimation/graphical/fitting/test_fit.py::test_a_warm_start_ends_at_the_same_model_sooner",
    ),
    Mutant(
        "small counts have no floor",
        "dpcore/estimation/graphical/fitting/fit.py",
        "strengths = np.maximum(self._counts, MIN_EXPECTED) /",
        "strengths = self._counts /",
        "tests/unit/dpcore/estimation/graphical/fitting/test_fit.py"
        "::test_counts_below_a_hundredth_lean_towards_independence_as_a_hundredth_does",
    ),
    Mutant(
        "small prior variances have no floor",
        "dpcore/estimation/graphical/fitting/prior.py",
        "scale * np.maximum(counts, MIN_EXPECTED) ** 1.5",
        "scale * np.asarray(counts) ** 1.5",
        "tests/unit/dpcore/estimation/graphical/fitting/test_prior.py::test_it_is_the_ratio_of_moments",
    ),
    Mutant(
        "prior variances in proportion to the count",
        "dpcore/estimation/graphical/fitting/prior.py",
        "np.maximum(counts, MIN_EXPECTED) ** 1.5",
        "np.maximum(counts, MIN_EXPECTED) ** 1.0",
        "tests/unit/dpcore/estimation/graphical/fitting/test_prior.py::test_it_is_near_the_planted_one",
    ),
    Mutant(
        "the noise is not taken off the signal",
        "dpcore/estimation/graphical/fitting/prior.py",
        "float(deviation @ deviation) - dof",
        "float(deviation @ deviation)",
        "tests/unit/dpcore/estimation/graphical/fitting/test_prior.py::test_it_is_near_the_planted_one",
    ),
    Mutant(
        "scales without a limit",
        "dpcore/estimation/graphical/fitting/prior.py",
        "return min(LARGEST_PRIOR_SCALE, max(_SMALLEST_PRIOR_SCALE, learnt))",
        "return max(_SMALLEST_PRIOR_SCALE, learnt)",
        "tests/unit/dpcore/estimation/graphical/fitting/test_prior.py::test_it_never_passes_the_largest",
    ),
    Mutant(
        "a scale of zero",
        "dpcore/estimation/graphical/fitting/prior.py",
        "max(_SMALLEST_PRIOR_SCALE, learnt)",
        "learnt",
        "tests/unit/dpcore/estimation/graphical/fitting/test_prior.py::test_the_smallest_scale_is_a_thousandth",
    ),
    Mutant(
        "evidence counts without trust",
        "dpcore/estimation/graphical/fitting/prior.py",
        "trust = math.sqrt(2 * freedom)",
        "trust = 0.0",
        "tests/unit/dpcore/estimation/graphical/fitting/test_prior.py::test_it_is_the_ratio_of_moments",
    ),
)
