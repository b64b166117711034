"""Compile numeric kernels with numba when it is installed; run them as plain Python when it is not.

A kernel is compiled when it is called first; numba is imported then. That takes seconds once a machine: it is said on
a terminal.

Machine code is kept per user, in a folder named after the content of all kernels, numba and Python: it survives a
reinstall, and environments share it.

Kernels are inlined into each other and do not count references to arrays, unless they make arrays themselves:
passing rows of arrays around costs more than the arithmetic otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, update_wrapper
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

from axbridge import memory

_OLDEST = (0, 68)  # numba: older ones cannot index by the names of a row's columns


def _usable() -> bool:
    """Whether there is a numba that compiles the kernels, and nobody has switched it off."""
    if importlib.util.find_spec("numba") is None or os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}:
        return False
    found = version("numba")
    if tuple(map(int, found.split(".")[:2])) >= _OLDEST:
        return True
    hint = "runs as plain Python, which is slow: pip install --upgrade numba"
    warnings.warn(f"numba {found} is too old to compile the simulation; it {hint}", RuntimeWarning, stacklevel=2)
    return False


COMPILED = _usable()
# What to do where a simulation is too slow for its time.
LIGHTEN = "close other programs" if COMPILED else "install numba (python -m pip install numba), close other programs"
_NUMBA = 350  # MB that it takes with LLVM at work, and scipy's linear algebra beside it
_FREEDOM = {"reassoc", "contract", "arcp", "nsz"}  # of rounding alone: kernels do meet infinities, and look for NaN
_ONCE = "axbridge-once-"  # a folder of this process alone

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=tuple[Any, ...])
Report = Callable[[int, int], None]  # kernels compiled, and kernels in all; 0, 0 when it is over


class _Kernel:
    """A function that is compiled when it is called first, from Python or from another kernel.

    Numba takes it for a compiled function of its own (`_numba_type_`). What only other kernels call needs no way in
    from Python, and takes numba less time without; so there may be two of it.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.done = False  # compiled in this process
        self._options = options
        self._inner: Any = None
        self._run: Callable[..., Any] = self._first

    def __call__(self, *arguments: Any) -> Any:
        return self._run(*arguments)

    @property
    def _numba_type_(self) -> Any:
        with _lock:
            if self._inner is None:
                self._inner = self._compiler("inner", no_cpython_wrapper=True)
        return self._inner._numba_type_

    def _first(self, *arguments: Any) -> Any:
        with _lock:
            if self._run == self._first:
                self._run = self.py_func if _numba() is None else self._compiler("outer")
        return self._run(*arguments)

    def _compiler(self, kind: str, **more: bool) -> Any:
        numba = _numba()
        dispatcher = numba.njit(no_cfunc_wrapper=True, **self._options, **more)(self.py_func)
        dispatcher._cache = _cache_class(kind)(self.py_func)  # noqa: SLF001 - numba has no other way to name a folder
        dispatcher.kernel = self
        return dispatcher


_lock = threading.RLock()
_registered: list[_Kernel] = []


def plain(kernel: F) -> F:
    """The Python function that a kernel was made of: for one call now and then it need not be compiled."""
    return getattr(kernel, "py_func", kernel)


def as_tuple(named: T) -> T:
    """A named tuple as a plain one, for a kernel that runs often, which makes a named one of it again.

    From Python, numba takes 1 to 5 µs longer to find out what is in a named one.
    """
    return tuple(named)  # type: ignore[return-value]


def jit(function: F, *, nogil: bool = False, allocates: bool = False, exact: bool = False) -> F:
    """Decorate a kernel: arrays and scalars in, arrays changed in place and scalars out; no Python objects."""
    if not COMPILED:
        return function
    options = {"error_model": "numpy", "fastmath": not exact and _FREEDOM, "nogil": nogil, "forceinline": True}
    kernel = _Kernel(function, {**options, "_nrt": allocates})
    _registered.append(kernel)
    return cast("F", kernel)


def kernels() -> tuple[int, int]:
    """How many kernels were compiled in this process, and how many the modules imported so far have."""
    return sum(kernel.done for kernel in _registered), len(_registered)


# -- what is said -----------------------------------------------------------------------------------------------------


@contextmanager
def reporting(report: Report) -> Iterator[None]:
    """Call `report` while kernels are compiled in this block, instead of writing a line to the terminal."""
    before = _report[0]
    _report[0] = report
    try:
        yield
    finally:
        _report[0] = before


def compiling(done: int, total: int) -> str:
    """The line that is said."""
    return f"compiling kernels, once for this machine ({done} of {total})"


def _on_terminal(done: int, total: int) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r\x1b[K{compiling(done, total) if total else ''}", end="", file=sys.stderr, flush=True)


_report: list[Report] = [_on_terminal]


# -- numba ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _numba() -> Any:
    """The package; None where it cannot be imported."""
    try:
        memory.need("numba", _NUMBA, blas="scipy.linalg" not in sys.modules)
        import numba
        from numba.core import event
    except (ImportError, MemoryError) as failure:
        warnings.warn(f"kernels run as plain Python: {failure}", RuntimeWarning, stacklevel=4)
        return None

    class Compiling(event.Listener):  # type: ignore[misc]  # numba is not typed
        """Counts kernels, the ones compiled for others included."""

        def __init__(self) -> None:
            self.depth = 0

        def on_start(self, event: Any) -> None:
            if hasattr(event.data["dispatcher"], "kernel"):
                self.depth += 1
                _report[0](*kernels())

        def on_end(self, event: Any) -> None:
            kernel = getattr(event.data["dispatcher"], "kernel", None)
            if kernel is not None:
                self.depth -= 1
                kernel.done = True
                _report[0](*(kernels() if self.depth else (0, 0)))

    event.register("numba:compile", Compiling())
    return numba


@lru_cache(maxsize=2)
def _cache_class(kind: str) -> Any:
    """Numba's cache of functions, in our folder; `kind` keeps two forms of a kernel apart."""
    from numba.core.caching import FunctionCache

    class KernelCache:
        """Where a kernel is kept: numba asks for these methods."""

        def __init__(self, function: Callable[..., Any]) -> None:
            self._of = f"{function.__module__}-{kind}-{function.__code__.co_firstlineno}"

        def ensure_cache_path(self) -> None:
            cache_folder().mkdir(parents=True, exist_ok=True)

        def get_cache_path(self) -> str:
            return str(cache_folder())

        def get_source_stamp(self) -> str:
            return ""  # the folder's name has it

        def get_disambiguator(self) -> str:
            return self._of

        @classmethod
        def from_function(cls, function: Callable[..., Any], _file: str) -> KernelCache:
            return cls(function)

    kept = type("Kept", (FunctionCache._impl_class,), {"_locator_classes": [KernelCache]})  # noqa: SLF001 - as above
    return type("Cache", (FunctionCache,), {"_impl_class": kept})


@lru_cache(maxsize=1)
def cache_folder() -> Path:
    """Where machine code of these kernels, this numba and this Python is kept; made when it is not there."""
    package = Path(__file__).resolve().parent
    content = hashlib.sha1(usedforsecurity=False)
    for source in sorted(package.rglob("*.py")):
        text = source.read_bytes()
        if b"jit" in text:  # kernels, and the numbers beside them that are compiled into them
            content.update(source.relative_to(package).as_posix().encode() + text)
    name = f"kernels-{content.hexdigest()[:16]}-{sys.implementation.cache_tag}-numba{version('numba')}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    user = os.getuid() if hasattr(os, "getuid") else "kernels"
    shared = Path(tempfile.gettempdir(), f"axbridge-{user}")  # a name that anybody can make first
    for root in (Path(given) if given else _users_folder(), shared):
        try:
            if root == shared and not _is_private(shared):
                break
            folder = root.expanduser() / name
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # a user without a home, or with one that cannot be written
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix=_ONCE))


def _is_private(folder: Path) -> bool:
    """Make a folder that is this user's alone; False when it is somebody else's: numba runs code from such files."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)


def _users_folder() -> Path:
    """Where this system keeps what can be made again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local", "axbridge", "Cache")
    if sys.platform == "darwin":
        return Path("~/Library/Caches/axbridge")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "axbridge")
