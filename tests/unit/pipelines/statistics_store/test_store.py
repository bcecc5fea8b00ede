"""The encrypted entries of a store: who can read and forge them, what is removed, and what goes wrong quietly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpcore.errors import ConfigError
from pipelines.statistics_store.folder import entries, path_of
from pipelines.statistics_store.store import DAY, StatisticsStore, StoreLimits, clean_folder
from tests.support.incremental import KEY, store_in

SECRET = b"the exact number of people is 31337"


def _file(store: StatisticsStore, name: str) -> Path:
    return path_of(store.path, name)


def test_gives_back_what_it_was_given_also_to_another_run(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    names = [store.name("counts", [bytes([number])]) for number in range(20)]
    for number, name in enumerate(names):
        assert store.get(name) is None
        store.put(name, SECRET + bytes([number]))
    again = store_in(tmp_path)
    assert [again.get(name) for name in names] == [SECRET + bytes([number]) for number in range(20)]


def test_files_show_neither_content_nor_facts_and_belong_to_their_owner_alone(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.put(store.name("counts", [SECRET]), SECRET * 10)
    (entry,) = entries(store.path)
    stored = entry.path.read_bytes()
    assert SECRET[:8] not in stored
    assert KEY not in stored
    assert entry.path.stat().st_mode & 0o777 == 0o600
    assert {folder.stat().st_mode & 0o777 for folder in (store.path, entry.path.parent)} == {0o700}


def test_the_same_entry_is_never_encrypted_the_same_way_twice(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    name = store.name("counts", [])
    stored = []
    for _ in range(2):
        store.put(name, SECRET)
        stored.append(_file(store, name).read_bytes())
    assert stored[0] != stored[1]


def test_names_differ_by_kind_facts_their_borders_and_the_key(tmp_path: Path) -> None:
    store, other = store_in(tmp_path), store_in(tmp_path, key=bytes(32))
    facts = [[b"ab", b"c"], [b"a", b"bc"], [b"abc"], [b"abc", b""], []]
    names = {place.name(kind, known) for place in (store, other) for kind in ("counts", "range") for known in facts}
    assert len(names) == 2 * 2 * len(facts)


def test_another_key_finds_nothing(tmp_path: Path) -> None:
    store, other = store_in(tmp_path), store_in(tmp_path, key=bytes(32))
    name = store.name("counts", [])
    store.put(name, SECRET)
    assert other.get(other.name("counts", [])) is None
    warned: list[str] = []
    assert store_in(tmp_path, key=bytes(32), warn=warned.append).get(name) is None
    assert warned


def _flip(place: int) -> Callable[[bytes], bytes]:
    return lambda stored: stored[:place] + bytes([stored[place] ^ 1]) + stored[place:][1:]


@pytest.mark.parametrize("damage", [
    pytest.param(_flip(0), id="magic"), pytest.param(_flip(9), id="key id"), pytest.param(_flip(20), id="nonce"),
    pytest.param(_flip(40), id="content"), pytest.param(_flip(-1), id="tag"),
    pytest.param(lambda stored: stored[:-1], id="cut off"),
    pytest.param(lambda stored: stored[:20], id="cut off early"),
    pytest.param(lambda stored: b"", id="empty"), pytest.param(lambda stored: stored + b"x", id="longer"),
])  # fmt: skip
def test_a_damaged_entry_is_a_miss_with_one_warning_without_values(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    warned: list[str] = []
    store = store_in(tmp_path, warn=warned.append)
    names = [store.name("counts", [bytes([number])]) for number in range(3)]
    for name in names:
        store.put(name, SECRET)
    for name in names[:2]:
        _file(store, name).write_bytes(damage(_file(store, name).read_bytes()))
        assert store.get(name) is None
        assert not _file(store, name).exists()
    assert store.get(names[2]) == SECRET
    assert warned == ["entries of the statistics store are damaged or forged, and are counted again"]


def test_an_entry_under_the_name_of_another_is_a_miss(tmp_path: Path) -> None:
    warned: list[str] = []
    store = store_in(tmp_path, warn=warned.append)
    names = [store.name("counts", [bytes([number])]) for number in range(2)]
    for name in names:
        store.put(name, SECRET + name.encode())
    _file(store, names[0]).write_bytes(_file(store, names[1]).read_bytes())
    assert store.get(names[0]) is None
    assert len(warned) == 1


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777, 0o720])
def test_a_folder_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    folder.chmod(mode)
    for opened in (lambda: store_in(tmp_path), lambda: clean_folder(folder, 1, time.time())):
        with pytest.raises(ConfigError, match=rf"mode 0{mode:o}.* want a folder of your own with mode 0700"):
            opened()


def test_links_and_files_are_no_stores(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "store").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError, match="no link to one"):
        store_in(tmp_path)
    (tmp_path / "store").unlink()
    (tmp_path / "store").touch(mode=0o600)
    with pytest.raises(ConfigError, match="cannot be made"):
        store_in(tmp_path)


def test_a_link_in_place_of_an_entry_is_a_miss(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    name = store.name("counts", [])
    store.put(name, SECRET)
    path = _file(store, name)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.get(name) is None


def _age(store: StatisticsStore, name: str, days: float) -> None:
    past = time.time() - days * DAY
    os.utime(_file(store, name), (past, past))


def test_what_was_not_used_expires_and_what_was_used_stays(tmp_path: Path) -> None:
    store = store_in(tmp_path, keep_days=30)
    old, used, young = names = [store.name("counts", [bytes([number])]) for number in range(3)]
    for name in names:
        store.put(name, SECRET)
    for name, days in ((old, 31), (used, 31), (young, 29)):
        _age(store, name, days)
    assert store.get(used) == SECRET
    again = store_in(tmp_path, keep_days=30)
    assert [again.get(name) for name in names] == [None, SECRET, SECRET]
    _age(store, used, 3)
    removed, remaining = clean_folder(store.path, 2, time.time())
    assert removed[0] == 1
    assert remaining == _file(store, young).stat().st_size
    assert clean_folder(store.path, 0, time.time()) == ((1, remaining), 0)


def test_what_killed_runs_have_left_is_removed_after_a_day(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    name = store.name("counts", [])
    store.put(name, SECRET)
    left = _file(store, name).with_name("0123.part")
    left.write_bytes(b"half of an entry")
    store_in(tmp_path)
    assert left.exists()
    os.utime(left, (0, 0))
    again = store_in(tmp_path)
    assert not left.exists()
    assert again.get(name) == SECRET


def test_a_full_store_removes_what_was_not_used_for_longest_but_nothing_of_this_run(tmp_path: Path) -> None:
    warned: list[str] = []
    first = store_in(tmp_path, max_bytes=1_000)
    names = [first.name("counts", [bytes([number])]) for number in range(4)]
    for days, name in zip((3, 5, 4), names, strict=False):
        first.put(name, bytes(200))
        _age(first, name, days)
    second = store_in(tmp_path, warn=warned.append, max_bytes=1_000)
    second.put(names[3], bytes(450))
    assert [second.get(name) is not None for name in names] == [True, False, True, True]
    assert not warned
    for number in range(10, 20):
        second.put(second.name("counts", [bytes([number])]), bytes(200))
    assert [second.get(name) is not None for name in names] == [True, False, True, True]
    assert warned == ["the statistics store is full, so that files are read again; want a larger max_mb"]
    assert sum(entry.size for entry in entries(second.path)) <= 1_000


def test_a_store_that_cannot_be_written_warns_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    store = store_in(tmp_path, warn=warned.append)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    for number in range(2):
        store.put(store.name("counts", [bytes([number])]), SECRET)
    assert warned == ["the statistics store cannot be written (No space left on device), so that files are read again"]
    assert not [path for path in store.path.rglob("*") if path.is_file()]


def test_runs_that_write_the_same_entries_at_once_leave_whole_ones(tmp_path: Path) -> None:
    stores = [store_in(tmp_path) for _ in range(4)]
    names = [stores[0].name("counts", [bytes([number])]) for number in range(8)]

    def work(store: StatisticsStore) -> set[bytes | None]:
        seen: set[bytes | None] = set()
        for _ in range(5):
            for name in names:
                store.put(name, SECRET * 100)
                seen.add(store.get(name))
        return seen

    with ThreadPoolExecutor(4) as pool:
        assert set.union(*pool.map(work, stores)) == {SECRET * 100}
    assert len(list(entries(tmp_path / "store"))) == len(names)


def test_wrong_limits_and_keys_are_refused(tmp_path: Path) -> None:
    for limits in ({"keep_days": 0}, {"max_bytes": 0}):
        with pytest.raises(ConfigError, match="want >= 1"):
            StoreLimits(**limits)
    with pytest.raises(ConfigError, match="want 32 bytes"):
        store_in(tmp_path, key=b"short")
    assert not (tmp_path / "store").exists()
