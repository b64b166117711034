"""Compile numeric kernels with numba when it is installed; run them as plain Python when it is not.

A kernel gives the same bits compiled or interpreted, because the compiler may not reorder its arithmetic. So an
uncached kernel first runs as plain Python. It is compiled after kernels have run for `_COMPILE_AFTER` seconds in this
process; a short simulation ends earlier and never compiles. After `compile_first`, kernels are compiled at their first
call. Kernels with `reorders=True` (many models in one call) always are; they and the kernels that they call may round
differently, and are a fifth faster.

Compiling takes seconds, once on each machine; progress is reported on stderr.

The machine code is cached per user. The folder's name is a hash of the kernels' sources with the versions of numba and
Python. So the cache survives a reinstall, and environments share it.

Kernels are inlined into each other. They do not count references to arrays, unless they create arrays: otherwise
passing array rows costs more than the arithmetic.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import math
import os
import signal
import stat
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, update_wrapper
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

from axbridge.errors import install

_OLDEST = (0, 68)  # version of numba; an older one cannot index an array with a member of an enum


def _has_usable_numba() -> bool:
    """Return whether numba is installed, recent enough and not switched off by NUMBA_DISABLE_JIT."""
    if importlib.util.find_spec("numba") is None or os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}:
        return False
    installed = version("numba")
    if tuple(map(int, installed.split(".")[:2])) >= _OLDEST:
        return True
    hint = f"runs as plain Python, which is slow: {install('numba')}"
    warnings.warn(f"numba {installed} is too old to compile the simulation; it {hint}", RuntimeWarning, stacklevel=2)
    return False


COMPILED = _has_usable_numba()
# Hint for a simulation that is slower than real time.
LIGHTEN = "close other programs" if COMPILED else f"install numba ({install('numba')}), close other programs"
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}  # only rounding may change: kernels handle infinities and NaN
_COMPILE_AFTER = 3.0  # s of interpreted kernels: a sixth of the time that compiling a simulation's kernels takes
_FIRST_REPORT, _REPORT_INTERVAL = 1.0, 10.0  # s; progress lines when stderr is not a terminal
_TEMPORARY = "axbridge-once-"  # prefix of a cache folder that only this process uses

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=tuple[Any, ...])
Report = Callable[[int, int], None]  # number of compiled kernels, number of kernels; 0, 0 when compiling has ended


class _Kernel:
    """A function that is compiled at its first call, from Python or from another kernel, or later.

    Through `_numba_type_`, numba accepts it as a compiled function. For calls from other kernels it is compiled without
    a wrapper for Python, which is quicker. So a kernel can have several compiled forms.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], *, reorders: bool) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.done = False  # compiled in this process
        self.reorders = reorders
        self._options = options
        self._inner: dict[bool, Any] = {}  # compiled forms for calling kernels, by whether the caller reorders
        self._run: Callable[..., Any] = self._first

    def __call__(self, *arguments: Any) -> Any:
        return self._run(*arguments)

    @property
    def _numba_type_(self) -> Any:
        reorders = bool(_compiling) and _compiling[0].reorders
        with _lock:
            if reorders not in self._inner:
                self._inner[reorders] = self._compiler("inner", reorders=reorders, no_cpython_wrapper=True)
        return self._inner[reorders]._numba_type_

    def _first(self, *arguments: Any) -> Any:
        with _lock:
            if self._run == self._first:
                if not (self.reorders or _interpreted >= _COMPILE_AFTER or self._is_cached()):
                    self._run = self._interpret
                else:
                    self._run = self.py_func if _numba() is None else self._compiler("outer", reorders=self.reorders)
        try:
            return self._run(*arguments)
        except BaseException:
            if not self.done:  # a signal interrupted the compiler: closing a robot must not wait for it again
                self._run = self._interpret
            raise

    def _interpret(self, *arguments: Any) -> Any:
        global _interpreted, _interpreting  # noqa: PLW0603 - state of the process
        if _interpreting:  # the calling kernel already measures this time
            return self.py_func(*arguments)
        if _interpreted >= _COMPILE_AFTER:
            self._run = self._first
            return self._first(*arguments)
        _interpreting, start = True, time.perf_counter()
        try:
            return self.py_func(*arguments)
        finally:
            _interpreting = False
            _interpreted += time.perf_counter() - start

    def _is_cached(self) -> bool:
        """Return whether the cache has machine code for this kernel."""
        own = f"-{_disambiguator(self.py_func, 'outer')}."
        return any(own in name for name in _cached_files())

    def _compiler(self, kind: str, *, reorders: bool, **more: bool) -> Any:
        numba = _numba()
        options = {**self._options, "fastmath": reorders and _FASTMATH, **more}
        dispatcher = numba.njit(no_cfunc_wrapper=True, **options)(self.py_func)
        cache = _cache_class(kind + "-reordered" * reorders)
        dispatcher._cache = cache(self.py_func)  # noqa: SLF001 - numba has no public option for the cache folder
        dispatcher.kernel = self
        return dispatcher


_interpreted = 0.0  # s: time that kernels have run as plain Python
_interpreting = False
_compiling: list[_Kernel] = []  # stack: the kernel that is being compiled is last, behind its callers
_lock = threading.RLock()
_registered: list[_Kernel] = []


def plain(kernel: F) -> F:
    """Return the Python function of a kernel: a rare call does not need compiled code."""
    return getattr(kernel, "py_func", kernel)


def as_tuple(named: T) -> T:
    """Return a named tuple as a plain one, for a frequently called kernel that rebuilds the named tuple.

    In a call from Python, numba takes 1 to 5 µs longer to determine the type of a named tuple.
    """
    return tuple(named)  # type: ignore[return-value]


def jit(function: F, *, nogil: bool = False, allocates: bool = False, reorders: bool = False) -> F:
    """Decorate a kernel: it takes arrays and scalars, changes arrays in place and returns scalars; no Python objects.

    `allocates`: the kernel creates arrays. `reorders`: the compiler may reorder the arithmetic (see the module).
    """
    if not COMPILED:
        return function
    options = {"error_model": "numpy", "nogil": nogil, "forceinline": True, "_nrt": allocates}
    kernel = _Kernel(function, options, reorders=reorders)
    _registered.append(kernel)
    return cast("F", kernel)


def compile_first() -> None:
    """Compile each kernel before its first run: a program in real time cannot wait for the compiler later."""
    global _interpreted  # noqa: PLW0603 - state of the process
    _interpreted = math.inf


def kernels() -> tuple[int, int]:
    """Return the number of kernels compiled in this process, and the number in the modules imported so far."""
    return sum(kernel.done for kernel in _registered), len(_registered)


# -- progress ---------------------------------------------------------------------------------------------------------


@contextmanager
def reporting(report: Report) -> Iterator[None]:
    """Call `report` while kernels are compiled in this block, instead of printing progress on stderr."""
    before = _report[0]
    _report[0] = report
    try:
        yield
    finally:
        _report[0] = before


def compiling(done: int, total: int) -> str:
    """Return the progress line, below 60 letters; it has the time left after a fifth of the kernels."""
    seconds = time.monotonic() - _compile_start
    left = f", about {seconds * (total - done) / done:.0f} s left" if 5 * done > total else ""
    return f"compiling part {done} of {total}{left}, once per machine"


def _print_progress(done: int, total: int) -> None:
    """Update one line of a terminal; when stderr is not a terminal, print a line after 1 s, then every 10 s."""
    global _last_report  # noqa: PLW0603 - state of the process
    if sys.stderr is None:
        return
    if sys.stderr.isatty():
        print(f"\r\x1b[K{compiling(done, total) if total else ''}", end="", file=sys.stderr, flush=True)
    elif total and (now := time.monotonic()) - _compile_start > _FIRST_REPORT and now - _last_report > _REPORT_INTERVAL:
        _last_report = now
        print(f"axbridge: {compiling(done, total)}", file=sys.stderr, flush=True)


_compile_start = math.inf  # s of `time.monotonic`: start of the first compilation
_last_report = -math.inf
_report: list[Report] = [_print_progress]


# -- numba ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _numba() -> Any:
    """Import numba and count its compilations; return None when it cannot be imported."""
    try:
        import numba
        from numba.core import event
    except ImportError as failure:
        warnings.warn(f"kernels run as plain Python: {failure}", RuntimeWarning, stacklevel=4)
        return None

    class Compiling(event.Listener):  # type: ignore[misc]  # numba is not typed
        """Counts compiled kernels, including those that are compiled for other kernels."""

        def on_start(self, event: Any) -> None:
            global _compile_start  # noqa: PLW0603 - state of the process
            if hasattr(event.data["dispatcher"], "kernel"):
                if _raised:
                    raise _raised[-1]
                if not _compiling:
                    _defer_signals()
                _compiling.append(event.data["dispatcher"].kernel)
                _compile_start = min(_compile_start, time.monotonic())
                _report[0](*kernels())

        def on_end(self, event: Any) -> None:
            kernel = getattr(event.data["dispatcher"], "kernel", None)
            if kernel is not None:
                _compiling.pop()
                kernel.done = not _raised
                _report[0](*(kernels() if _compiling else (0, 0)))
                if not _compiling:
                    _raise_deferred()

    event.register("numba:compile", Compiling())
    return numba


_handlers: dict[int, Any] = {}  # the program's signal handlers while a kernel is compiled, by signal number
_raised: list[BaseException] = []  # exceptions of these handlers


def _defer_signals() -> None:
    """Store exceptions of signal handlers until the kernel is compiled: Python drops those in callbacks of LLVM."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(handler := signal.getsignal(number)):
                _handlers[number] = handler
                signal.signal(number, _handle)


def _handle(number: int, frame: Any) -> None:
    try:
        _handlers[number](number, frame)
    except BaseException as failure:
        _raised.append(failure)
        raise


def _raise_deferred() -> None:
    global _interpreted  # noqa: PLW0603 - state of the process
    while _handlers:
        number, handler = _handlers.popitem()
        if signal.getsignal(number) is _handle:
            signal.signal(number, handler)
    if _raised:
        failure = _raised.pop()
        _raised.clear()
        _interpreted = -_COMPILE_AFTER  # the program may end soon: do not compile the next kernel at once
        raise failure


@lru_cache(maxsize=4)
def _cache_class(kind: str) -> Any:
    """Return numba's cache of functions in `cache_folder`; `kind` distinguishes the compiled forms of a kernel."""
    from numba.core.caching import FunctionCache

    class KernelCache:
        """Cache location of a kernel, with the methods that numba requires."""

        def __init__(self, function: Callable[..., Any]) -> None:
            self._disambiguator = _disambiguator(function, kind)

        def ensure_cache_path(self) -> None:
            cache_folder().mkdir(parents=True, exist_ok=True)

        def get_cache_path(self) -> str:
            return str(cache_folder())

        def get_source_stamp(self) -> str:
            return ""  # the folder's name contains the hash of the sources

        def get_disambiguator(self) -> str:
            return self._disambiguator

        @classmethod
        def from_function(cls, function: Callable[..., Any], _file: str) -> KernelCache:
            return cls(function)

    impl = type("Impl", (FunctionCache._impl_class,), {"_locator_classes": [KernelCache]})  # noqa: SLF001 - as above
    return type("Cache", (FunctionCache,), {"_impl_class": impl})


def _disambiguator(function: Callable[..., Any], kind: str) -> str:
    """Return the part of a cache file's name that identifies this kernel and its compiled form."""
    return f"{function.__module__}-{kind}-{function.__code__.co_firstlineno}"


@lru_cache(maxsize=1)
def _cached_files() -> frozenset[str]:
    """Return the names of the files in the cache at the first call in this process."""
    return frozenset(file.name for file in cache_folder().iterdir())


@lru_cache(maxsize=1)
def cache_folder() -> Path:
    """Return the cache folder for these kernels, this numba and this Python; create it when it is missing."""
    package = Path(__file__).resolve().parent
    content = hashlib.sha1(usedforsecurity=False)
    for source in sorted(package.rglob("*.py")):
        text = source.read_bytes()
        if b"jit" in text:  # modules with kernels; their constants are compiled into the kernels
            content.update(source.relative_to(package).as_posix().encode() + text)
    name = f"kernels-{content.hexdigest()[:16]}-{sys.implementation.cache_tag}-numba{version('numba')}"
    configured = os.environ.get("NUMBA_CACHE_DIR")
    user = os.getuid() if hasattr(os, "getuid") else "kernels"
    shared = Path(tempfile.gettempdir(), f"axbridge-{user}")  # another user can create a folder of this name first
    for root in (Path(configured) if configured else _user_cache(), shared):
        try:
            if root == shared and not _is_private(shared):
                break
            folder = root.expanduser() / name
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # the user has no home folder, or it is not writable
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix=_TEMPORARY))


def _is_private(folder: Path) -> bool:
    """Create a folder; return whether no other user can write it, because numba runs machine code from its files."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return False
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o077)


def _user_cache() -> Path:
    """Return the folder in which this operating system keeps a user's caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local", "axbridge", "Cache")
    if sys.platform == "darwin":
        return Path("~/Library/Caches/axbridge")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "axbridge")
