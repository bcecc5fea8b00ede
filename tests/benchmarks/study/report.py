"""The stored study as a page and a plot: where the recommended mechanism is the best, and where not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks.study.comparison import Comparison, comparisons, mean_ratio, share
from tests.benchmarks.study.facts import FEATURES, ROWS_ARE_PUBLIC
from tests.benchmarks.study.plot import draw
from tests.benchmarks.study.rule import learnt, left_out
from tests.benchmarks.study.store import Store
from tests.benchmarks.study.worker import CANDIDATES

WITHOUT_ROWS: Final = tuple(name for name in FEATURES if name not in ROWS_ARE_PUBLIC)
_WORST: Final = 25  # Settings that the page shows one by one.
_SHOWN: Final = ("kind", "attributes", "marginals", "mean_cells", "model_cells", "rows", "epsilon", "noise")
_HEAD = """# Study of recommendations

Written by `python -m tests.benchmarks.study` from `study/*.jsonl` alone. Generated tables and parts of real ones, with
workloads of marginals; delta 1e-9, add or remove one row, number of rows private, every mechanism with its defaults
(`hdmm_nonnegative` is `hdmm` with `answers: nonnegative`). Errors by Definition 26 of the thesis. A mechanism is as
good as the best within 3 % or two standard errors. "Noise" is the expected L1 error of an unbiased marginal over the
number of rows."""

Chosen = Mapping[str, str]


def write_report(store: Store, page: Path) -> Path:
    """Writes the plot into the store's folder, and the page; the path of the page."""
    settings = comparisons(store)
    parts = [_HEAD]
    if settings:
        rules = choices(settings)
        store.folder.mkdir(parents=True, exist_ok=True)
        draw(settings, store.folder / "recommended.svg")
        parts += [summary(settings, rules), f"![Recommended]({store.folder.name}/recommended.svg)"]
        parts += [by_family(settings, rules), by_mechanism(settings), *_rules(settings), worst(settings)]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n")
    return page


def choices(settings: Sequence[Comparison]) -> dict[str, Chosen]:
    """What each rule chooses, by setting: that of ``plan``, and trees that were learnt from other families."""
    return {
        "plan": {one.key: str(one.facts["recommended"]) for one in settings},
        "plan, rows public": {one.key: str(one.facts["with_rows"]) for one in settings},
        "learnt": left_out(settings, WITHOUT_ROWS, list(CANDIDATES)),
        "learnt, rows public": left_out(settings, FEATURES, list(CANDIDATES)),
    }


def summary(settings: Sequence[Comparison], rules: Mapping[str, Chosen]) -> str:
    best = Counter(one.best.mechanism for one in settings)
    counts = ", ".join(f"{name} {count}" for name, count in best.most_common())
    cut = Counter(name for one in settings for name, cell in one.cells.items() if cell.cut)
    ended = ", ".join(f"{name} {count}" for name, count in cut.most_common()) or "none"
    share_of_plan = share(settings, rules["plan"])
    return (
        f"{len(settings)} settings. What `plan` recommends is the best, or as good, in {share_of_plan:.0%}. The best "
        f"are: {counts}. Releases that did not end in time: {ended}. Cells of the "
        f"recommended, by the version that made them: {_versions(settings, rules['plan'])}."
    )


def _versions(settings: Sequence[Comparison], chosen: Chosen) -> str:
    """For each version of this project, the newest first: the number of settings whose chosen cell it made."""
    made = [one.cells[chosen[one.key]].version for one in settings if chosen[one.key] in one.cells]
    newest_first = sorted(Counter(made).items(), key=lambda item: [int(part) for part in item[0].split(".") if part])
    return ", ".join(f"{version or 'older'} {count}" for version, count in reversed(newest_first))


def by_family(settings: Sequence[Comparison], rules: Mapping[str, Chosen]) -> str:
    """A row per family, and one for all: the share of settings, and the mean error over the least, of each rule."""
    lines = ["## By family", _row(["family", "settings", *rules]), _row(["---"] * (2 + len(rules)))]
    groups = {family: [one for one in settings if one.family == family] for family in _families(settings)}
    for family, group in [*groups.items(), ("all", list(settings))]:
        entries = [
            f"{share(group, chosen):.0%} ({mean_ratio(group, chosen):.3f})" if _covers(chosen, group) else ""
            for chosen in rules.values()
        ]
        lines.append(_row([family, str(len(group)), *entries]))
    return "\n".join([lines[0], "", *lines[1:]])


def by_mechanism(settings: Sequence[Comparison]) -> str:
    """How each mechanism would do if it were always recommended."""
    lines = [_row(["mechanism", "best or as good", "error over the least", "median CPU s"]), _row(["---"] * 4)]
    for name in CANDIDATES:
        always = dict.fromkeys((one.key for one in settings), name)
        seconds = sorted(second for one in settings if name in one.cells for second in one.cells[name].seconds)
        median = f"{seconds[len(seconds) // 2]:.2g}" if seconds else ""
        lines.append(_row([name, f"{share(settings, always):.0%}", f"{mean_ratio(settings, always):.3f}", median]))
    return "\n".join(["## By mechanism", "", *lines])


def worst(settings: Sequence[Comparison]) -> str:
    """The settings in which the recommended mechanism is furthest from the best."""
    missed = [one for one in settings if not one.is_best(str(one.facts["recommended"]))]
    missed.sort(key=lambda one: -one.ratio(str(one.facts["recommended"])))
    head = ["setting", "recommended", "best", "ratio", *_SHOWN]
    lines = [_row(head), _row(["---"] * len(head))]
    for one in missed[:_WORST]:
        name = str(one.facts["recommended"])
        numbers = [_digits(one.facts[fact]) for fact in _SHOWN]
        lines.append(_row([one.key, name, one.best.mechanism, f"{one.ratio(name):.2f}", *numbers]))
    return "\n".join([f"## Where the recommended is not the best ({len(missed)} settings)", "", *lines])


def _rules(settings: Sequence[Comparison]) -> list[str]:
    """The trees learnt from all settings."""
    parts = []
    for title, features in (("number of rows private", WITHOUT_ROWS), ("number of rows public", FEATURES)):
        lines = learnt(settings, features, list(CANDIDATES)).lines()
        parts.append("\n".join([f"## Rule learnt from all families, {title}", "", "```", *lines, "```"]))
    return parts


def _covers(chosen: Chosen, group: Sequence[Comparison]) -> bool:
    return all(one.key in chosen for one in group)


def _families(settings: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(one.family for one in settings))


def _row(entries: Sequence[str]) -> str:
    return f"| {' | '.join(entries)} |"


def _digits(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"
