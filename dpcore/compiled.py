"""Compiled functions ("kernels" in this module), and their cache on disk. No other module imports numba.

Compiling all kernels takes more than ten CPU-seconds. Each kernel is therefore compiled once per combination of
argument types, and stored in the first of these folders that is writable:

1. the folder named by ``NUMBA_CACHE_DIR``; when this variable is set, no other folder is used;
2. ``__pycache__`` beside the source file;
3. the user's cache folder (``$XDG_CACHE_HOME`` or ``~/.cache``), for installations that are read-only or a zip file, as
   on some clusters.

Stored kernels are looked up in the same order. ``marquee warm`` fills the cache ahead of time. The file name depends on
the sources, the versions and the processor, so an unsuitable file is never loaded. A file that is damaged, or that
others may have written, is ignored. If no folder is writable, every process compiles for itself and logs this once.

numba's own cache keeps one index per function, which concurrent processes may overwrite, and it does not notice when a
kernel that is called by another one has changed in a different file. Here every compiled kernel is one file that is
written atomically, and its name contains a hash of the code of the kernel and of everything it calls.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import pickle
import platform
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

P = ParamSpec("P")
R = TypeVar("R")

_LOG: Final = logging.getLogger(__name__)
_VERSIONS: Final = (numba.__version__, np.__version__, platform.python_version(), platform.python_implementation())
_DIGITS: Final = 24  # Hexadecimal digits of each hash in a file name, 96 bits.

COUNTS: Final[Counter[str]] = Counter()
"""Number of kernels that this process has "loaded" from the cache, "compiled", and "stored" in the cache."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: on its first call, the function is compiled, or loaded if an earlier process has compiled it.

    function: Takes arrays and scalars. Floating-point operations keep their IEEE semantics and order (no fastmath), and
        the interpreter lock is released while the function runs.
    """
    dispatcher = numba.njit(nogil=True)(function)
    cast(Any, dispatcher)._cache = KernelCache(cast(FunctionType, function))
    return cast(Callable[P, R], dispatcher)


class KernelCache(_Cache):
    """The stored machine code of one kernel, with the interface that numba's dispatcher expects.

    function: The Python function of the kernel.
    """

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._stem = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._known_fingerprint: str | None = None
        self._enabled = True

    @property
    def cache_path(self) -> str | None:
        """The first folder in which stored kernels are looked up."""
        return next((str(folder) for folder in cache_folders(inspect.getfile(self._function))), None)

    @property
    def source_module(self) -> str:
        """Name of the module that defines the kernel."""
        return self._function.__module__

    @property
    def is_stored(self) -> bool:
        """Whether a folder has this kernel, of these sources and versions, for any argument types."""
        pattern = f"{self._stem}-{self._fingerprint}-*.nbc"
        return any(any(folder.glob(pattern)) for folder in cache_folders(inspect.getfile(self._function)))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel compiled for the argument types ``sig``, or None when no folder has it."""
        if not self._enabled:
            return None
        target_context.refresh()
        name = self._name(sig, target_context.codegen())
        for folder in cache_folders(inspect.getfile(self._function)):
            try:
                stored = self._read(folder / name)
            except OSError:
                continue
            if stored is None:
                continue
            try:
                result = cast(Any, CompileResult)._rebuild(target_context, *pickle.loads(stored))
            except Exception as error:  # noqa: BLE001 - whatever a damaged file leads to, the kernel is compiled anew
                kind = type(error).__name__
                _log_once(f"a stored kernel cannot be loaded and is compiled again: {folder / name} ({kind})")
                continue
            COUNTS["loaded"] += 1
            return result
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Stores the kernel compiled for the argument types ``sig`` in the first folder that is writable."""
        COUNTS["compiled"] += 1
        if not self._enabled or data.library.has_dynamic_globals or not all(lift.can_cache for lift in data.lifted):
            return
        name, content = self._name(sig, data.codegen), cast(Any, dumps)(data._reduce())
        refusals = []
        for folder in cache_folders(inspect.getfile(self._function)):
            try:
                _write_atomically(folder, name, content)
            except OSError as error:
                refusals.append(f"{folder} ({error.strerror})")
                continue
            COUNTS["stored"] += 1
            self._remove_stale(folder)
            return
        _log_once(
            f"compiled kernels cannot be stored in {' or '.join(refusals) or 'any folder'}: every process compiles "
            "them again; run `marquee warm` as a user who can write there, or set NUMBA_CACHE_DIR"
        )

    def _read(self, path: Path) -> bytes | None:
        """A stored kernel; None if someone else may have written it, because loading runs whatever it contains."""
        with open(path, "rb") as file:
            if not _is_trusted(os.fstat(file.fileno()), inspect.getfile(self._function)):
                _log_once(
                    f"a stored kernel is not used, because other users may have written it: {path}; remove it, or set "
                    "NUMBA_CACHE_DIR to a folder of your own"
                )
                return None
            return file.read()

    def enable(self) -> None:
        """Uses the cache, which is the initial state."""
        self._enabled = True

    def disable(self) -> None:
        """Stops loading and storing."""
        self._enabled = False

    def flush(self) -> None:
        """Removes every stored file of this kernel."""
        for folder in cache_folders(inspect.getfile(self._function)):
            for path in folder.glob(f"{self._stem}-*.nbc"):
                path.unlink(missing_ok=True)

    @property
    def _fingerprint(self) -> str:
        """Hash of all code; computed at the first call, when every kernel that this one calls has been defined."""
        if self._known_fingerprint is None:
            digest = hashlib.sha256(repr(_VERSIONS).encode())
            for part in _code_parts(self._function, set()):
                digest.update(hashlib.sha256(part).digest())
            self._known_fingerprint = digest.hexdigest()[:_DIGITS]
        return self._known_fingerprint

    def _name(self, sig: Any, codegen: Any) -> str:
        """File name of the kernel compiled for the argument types ``sig`` and this processor."""
        key = repr((_type_names(sig), codegen.magic_tuple()))
        return f"{self._stem}-{self._fingerprint}-{hashlib.sha256(key.encode()).hexdigest()[:_DIGITS]}.nbc"

    def _remove_stale(self, folder: Path) -> None:
        """Removes files of this kernel that were compiled from other sources or versions, and are never read again."""
        for path in folder.glob(f"{self._stem}-*.nbc"):
            if not path.name.startswith(f"{self._stem}-{self._fingerprint}-"):
                path.unlink(missing_ok=True)


@compiled
def _same(value: int) -> int:
    return value


def prepare() -> None:
    """Loads what the compiler needs before its first kernel, so that the processes forked from this one have it.

    No thread is started.
    """
    _same(0)


def cache_folders(source: str) -> Iterator[Path]:
    """Folders that may hold the compiled kernels of a source file, in the order of preference."""
    folder = Path(source).resolve().parent
    # An archive lies in another folder for each application of a cluster, and has the same kernels there.
    own = hashlib.sha256(str(folder).rpartition(".zip/")[2].encode()).hexdigest()[:_DIGITS]
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen) / f"{folder.name}_{own}"
        return
    if folder.is_dir():
        yield folder / "__pycache__"
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # A process on a cluster may have no home folder.
        return
    yield home / "marquee" / f"{folder.name}_{own}"


def _is_trusted(file: os.stat_result, source: str) -> bool:
    """Whether only this user, root or the owner of the source file can have written a file."""
    if not hasattr(os, "geteuid"):  # Windows, where access follows from the folder.
        return True
    owners = {0, os.geteuid()}
    if os.path.exists(source):  # Sources in a zip file have no owner of their own.
        owners.add(os.stat(source).st_uid)
    return file.st_uid in owners and not file.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _write_atomically(folder: Path, name: str, content: bytes) -> None:
    """Writes a file so that other processes see either all of it or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)  # A cache filled during the installation is read by other users.
        Path(temporary).replace(folder / name)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _code_parts(function: FunctionType, seen: set[int]) -> Iterator[bytes]:
    """Everything that determines the machine code of a function: its bytecode, constants, globals and callees."""
    if id(function) in seen:
        return
    seen.add(id(function))
    names: set[str] = set()
    for code in _nested(function.__code__):
        constants = [_constant(value) for value in code.co_consts if not isinstance(value, CodeType)]
        yield repr((code.co_name, code.co_code, code.co_names, code.co_varnames, constants)).encode()
        names.update(code.co_names)
    known = function.__globals__
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    for value in [known[name] for name in sorted(names & known.keys())] + cells + list(function.__defaults__ or ()):
        if isinstance(value, Dispatcher):
            yield from _code_parts(value.py_func, seen)
        elif isinstance(value, np.ndarray):
            yield repr((value.dtype.str, value.shape)).encode() + value.tobytes()
        elif isinstance(value, ModuleType) and _package(value.__name__) == _package(function.__module__):
            yield inspect.getsource(value).encode()  # The kernel may read any of its constants.
        elif isinstance(value, ModuleType | type) or callable(value):
            yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}".encode()
        else:
            yield _constant(value).encode()


def _package(module: str) -> str:
    """Top-level package of a module."""
    return module.partition(".")[0]


def _nested(code: CodeType) -> Iterator[CodeType]:
    """A code object and all code objects nested in it."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _nested(value)


def _constant(value: object) -> str:
    """A representation of a constant that is the same in every process."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _type_names(sig: Any) -> list[str]:
    """The argument types; for a named tuple with its field names, which the name of the type does not contain."""
    types = getattr(sig, "args", sig)
    return [f"{kind!r} {getattr(kind, 'fields', '')}" for kind in types]


_LOGGED: set[str] = set()


def _log_once(sentence: str) -> None:
    """Logs a warning unless one with the same text before the first colon has been logged."""
    topic = sentence.split(":", maxsplit=1)[0]
    if topic not in _LOGGED:
        _LOGGED.add(topic)
        _LOG.warning(sentence)
