"""Progress of reading: coarse parts of the files, which tell no number of them, for the one who listens."""

from __future__ import annotations

import pytest

from pipelines.engines.progress import STEPS, listening, told


def heard(parts: int, passes: int = 1) -> list[tuple[int, int]]:
    steps: list[tuple[int, int]] = []
    with listening(lambda done, total: steps.append((done, total))):
        for number in range(passes):
            assert list(told(range(parts), parts * passes, number * parts)) == list(range(parts))
    return steps


@pytest.mark.parametrize(("parts", "passes"), [(40, 1), (41, 1), (37, 2), (1_000, 1)])
def test_steps_rise_to_all_of_them(parts: int, passes: int) -> None:
    steps = [done for done, _ in heard(parts, passes)]
    assert steps == sorted(steps)
    assert steps[-1] == STEPS
    assert len(steps) == parts * passes


def test_what_is_heard_does_not_tell_how_many_parts_there_are() -> None:
    assert set(heard(1_000)) == set(heard(977)) == {(step, STEPS) for step in range(STEPS + 1)}


def test_nobody_need_listen() -> None:
    assert list(told("abc", 3)) == ["a", "b", "c"]


def test_one_listener_hears_until_the_end_of_its_context() -> None:
    outer: list[int] = []
    with listening(lambda done, total: outer.append(done)):
        assert heard(40)[-1] == (STEPS, STEPS)
        assert outer == []
        list(told(range(1), 40, 39))
    list(told(range(1), 40, 39))
    assert outer == [STEPS]


def test_few_parts_tell_nothing_because_their_number_is_private() -> None:
    assert heard(1) == heard(39) == []
    assert heard(40)[-1] == (STEPS, STEPS)
