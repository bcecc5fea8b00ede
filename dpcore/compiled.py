"""Kernels in machine code: the one module that imports numba, and the cache that keeps what it has compiled.

Compiling all kernels takes more than ten CPU seconds, so each is compiled once for every type of its
arguments, and stored:

1. in the folder that ``NUMBA_CACHE_DIR`` names, where an operator has set it, and nowhere else; otherwise
2. in ``__pycache__`` beside the source file, that is, where the installation lives; otherwise
3. in the cache folder of the user (``$XDG_CACHE_HOME`` or ``~/.cache``), where the installation cannot be written to or
   is a zip file, as on some clusters.

Kernels are looked for in this order, and the first folder that can be written to takes what is new. ``marquee warm``
fills the cache ahead of time. A file for other sources, versions or another processor has another name, so it is never
loaded; a damaged file is ignored; where no folder can be written to, every process compiles for itself, and the log
says so once.

numba's own cache keeps one index for each function, which two processes may overwrite for each other, and does not see
when a kernel that another one calls has changed in its file. Here every compiled form is one file, written atomically,
and its name is a hash of the code of the kernel and of everything that it calls.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import pickle
import platform
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
_DIGITS: Final = 24  # Of each hash in a file name, 96 bits.

COUNTS: Final[Counter[str]] = Counter()
"""How many kernels this process has "loaded" from the cache, "compiled" and "stored"."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles a function of arrays and scalars on its first call, or loads what an earlier process has compiled.

    Floats keep IEEE order (no fastmath), and the interpreter lock is released while the kernel runs.
    """
    dispatcher = numba.njit(nogil=True)(function)
    cast(Any, dispatcher)._cache = KernelCache(cast(FunctionType, function))
    return cast(Callable[P, R], dispatcher)


class KernelCache(_Cache):
    """The stored machine code of one kernel, as numba's dispatcher asks for it.

    function: The kernel as Python code.
    """

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._stem = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._known_fingerprint: str | None = None
        self._enabled = True

    @property
    def cache_path(self) -> str | None:
        """The first folder that is looked into."""
        return next((str(folder) for folder in cache_folders(inspect.getfile(self._function))), None)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel compiled for the types ``sig``, or None where no folder has it."""
        if not self._enabled:
            return None
        target_context.refresh()
        name = self._name(sig, target_context.codegen())
        for folder in cache_folders(inspect.getfile(self._function)):
            try:
                stored = (folder / name).read_bytes()
            except OSError:
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
        """Stores what was compiled for the types ``sig`` in the first folder that can be written to."""
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

    def enable(self) -> None:
        """Uses the cache, as at first."""
        self._enabled = True

    def disable(self) -> None:
        """Neither loads nor stores."""
        self._enabled = False

    def flush(self) -> None:
        """Removes every stored form of this kernel."""
        for folder in cache_folders(inspect.getfile(self._function)):
            for path in folder.glob(f"{self._stem}-*.nbc"):
                path.unlink(missing_ok=True)

    @property
    def _fingerprint(self) -> str:
        """Known at the first call, when every kernel that this one calls has been defined."""
        if self._known_fingerprint is None:
            digest = hashlib.sha256(repr(_VERSIONS).encode())
            for part in _code_parts(self._function, set()):
                digest.update(hashlib.sha256(part).digest())
            self._known_fingerprint = digest.hexdigest()[:_DIGITS]
        return self._known_fingerprint

    def _name(self, sig: Any, codegen: Any) -> str:
        key = repr((_type_names(sig), codegen.magic_tuple()))
        return f"{self._stem}-{self._fingerprint}-{hashlib.sha256(key.encode()).hexdigest()[:_DIGITS]}.nbc"

    def _remove_stale(self, folder: Path) -> None:
        """Files of this kernel from other sources or versions: they are never read again."""
        for path in folder.glob(f"{self._stem}-*.nbc"):
            if not path.name.startswith(f"{self._stem}-{self._fingerprint}-"):
                path.unlink(missing_ok=True)


def cache_folders(source: str) -> Iterator[Path]:
    """Where the compiled kernels of a source file may lie, best first."""
    folder = Path(source).resolve().parent
    own = hashlib.sha256(str(folder).encode()).hexdigest()[:_DIGITS]
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen) / f"{folder.name}_{own}"
        return
    if folder.is_dir():
        yield folder / "__pycache__"
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # A process of a cluster may have no home.
        return
    yield home / "marquee" / f"{folder.name}_{own}"


def _write_atomically(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)  # A cache filled by the one who installs is read by all who run.
        Path(temporary).replace(folder / name)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _code_parts(function: FunctionType, seen: set[int]) -> Iterator[bytes]:
    """Everything that decides about the machine code of a function: its bytecode, constants, globals and callees."""
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
            yield inspect.getsource(value).encode()  # Whichever of its constants the kernel reads.
        elif isinstance(value, ModuleType | type) or callable(value):
            yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}".encode()
        else:
            yield _constant(value).encode()


def _package(module: str) -> str:
    return module.partition(".")[0]


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _nested(value)


def _constant(value: object) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _type_names(sig: Any) -> list[str]:
    """The types of the arguments; of a named tuple its fields too, which are not in its name."""
    types = getattr(sig, "args", sig)
    return [f"{kind!r} {getattr(kind, 'fields', '')}" for kind in types]


_LOGGED: set[str] = set()


def _log_once(sentence: str) -> None:
    kind = sentence.split(":", maxsplit=1)[0]
    if kind not in _LOGGED:
        _LOGGED.add(kind)
        _LOG.warning(sentence)
