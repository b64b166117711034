"""Compile numeric kernels with numba when it is installed; run them as plain Python when it is not.

Compiled or not, a kernel gives the same bits: the compiler may not reorder its arithmetic. So it can begin as plain
Python. Where a machine has no machine code of it yet, it is compiled only after kernels have run for `_INTERPRETED`
seconds in this process: a short simulation is over before that. `compile_first` ends this. Kernels of many models at
once (`reorders`) are compiled at the first call; they and what they call may round otherwise, and are a fifth faster.

To compile takes seconds, once for a machine: that is said on stderr.

Machine code is kept per user, in a folder named after the content of all kernels, numba and Python: it survives a
reinstall, and environments share it.

Kernels are inlined into each other and do not count references to arrays, unless they make arrays themselves:
passing rows of arrays around costs more than the arithmetic otherwise.
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

_OLDEST = (0, 68)  # numba: older ones cannot index by the names of a row's columns


def _usable() -> bool:
    """Whether there is a numba that compiles the kernels, and nobody has switched it off."""
    if importlib.util.find_spec("numba") is None or os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}:
        return False
    installed = version("numba")
    if tuple(map(int, installed.split(".")[:2])) >= _OLDEST:
        return True
    hint = f"runs as plain Python, which is slow: {install('numba')}"
    warnings.warn(f"numba {installed} is too old to compile the simulation; it {hint}", RuntimeWarning, stacklevel=2)
    return False


COMPILED = _usable()
# What to do where a simulation is too slow for its time.
LIGHTEN = "close other programs" if COMPILED else f"install numba ({install('numba')}), close other programs"
_FREEDOM = {"reassoc", "contract", "arcp", "nsz"}  # of rounding alone: kernels do meet infinities, and look for NaN
_INTERPRETED = 3.0  # s: a sixth of what it takes to compile the kernels of a simulation
_SILENT, _AGAIN = 1.0, 10.0  # s of compiling before a line says so where stderr is no terminal, and between two
_ONCE = "axbridge-once-"  # a folder of this process alone

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=tuple[Any, ...])
Report = Callable[[int, int], None]  # kernels compiled, and kernels in all; 0, 0 when it is over


class _Kernel:
    """A function that is compiled when it is called first, from Python or from another kernel, or some time later.

    Numba takes it for a compiled function of its own (`_numba_type_`). What only other kernels call needs no way in
    from Python, and takes numba less time without; so there may be several of it.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], *, reorders: bool) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.done = False  # compiled in this process
        self.reorders = reorders
        self._options = options
        self._inner: dict[bool, Any] = {}  # for kernels that do not reorder arithmetic, and for those that do
        self._run: Callable[..., Any] = self._first

    def __call__(self, *arguments: Any) -> Any:
        return self._run(*arguments)

    @property
    def _numba_type_(self) -> Any:
        reorders = bool(_compiled_for) and _compiled_for[0].reorders
        with _lock:
            if reorders not in self._inner:
                self._inner[reorders] = self._compiler("inner", reorders=reorders, no_cpython_wrapper=True)
        return self._inner[reorders]._numba_type_

    def _first(self, *arguments: Any) -> Any:
        with _lock:
            if self._run == self._first:
                if not (self.reorders or _interpreted >= _INTERPRETED or self._is_kept()):
                    self._run = self._interpret
                else:
                    self._run = self.py_func if _numba() is None else self._compiler("outer", reorders=self.reorders)
        try:
            return self._run(*arguments)
        except BaseException:
            if not self.done:  # a signal has come: to close a robot must not wait for the compiler again
                self._run = self._interpret
            raise

    def _interpret(self, *arguments: Any) -> Any:
        global _interpreted, _interpreting  # noqa: PLW0603 - of the process
        if _interpreting:  # called by another kernel, which counts its time
            return self.py_func(*arguments)
        if _interpreted >= _INTERPRETED:
            self._run = self._first
            return self._first(*arguments)
        _interpreting, began = True, time.perf_counter()
        try:
            return self.py_func(*arguments)
        finally:
            _interpreting = False
            _interpreted += time.perf_counter() - began

    def _is_kept(self) -> bool:
        """Whether this machine has machine code of it."""
        own = f"-{_disambiguator(self.py_func, 'outer')}."
        return any(own in name for name in _kept_files())

    def _compiler(self, kind: str, *, reorders: bool, **more: bool) -> Any:
        numba = _numba()
        options = {**self._options, "fastmath": reorders and _FREEDOM, **more}
        dispatcher = numba.njit(no_cfunc_wrapper=True, **options)(self.py_func)
        cache = _cache_class(kind + "-reordered" * reorders)
        dispatcher._cache = cache(self.py_func)  # noqa: SLF001 - numba has no other way to name a folder
        dispatcher.kernel = self
        return dispatcher


_interpreted = 0.0  # s that kernels have run as plain Python
_interpreting = False
_compiled_for: list[_Kernel] = []  # the kernel that is compiled now, after those that call it
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


def jit(function: F, *, nogil: bool = False, allocates: bool = False, reorders: bool = False) -> F:
    """Decorate a kernel: arrays and scalars in, arrays changed in place and scalars out; no Python objects."""
    if not COMPILED:
        return function
    options = {"error_model": "numpy", "nogil": nogil, "forceinline": True, "_nrt": allocates}
    kernel = _Kernel(function, options, reorders=reorders)
    _registered.append(kernel)
    return cast("F", kernel)


def compile_first() -> None:
    """From now on compile each kernel before it runs: what keeps pace with real time cannot wait for it later."""
    global _interpreted  # noqa: PLW0603 - of the process
    _interpreted = math.inf


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
    seconds = time.monotonic() - _began
    left = f", about {seconds * (total - done) / done:.0f} s left" if 5 * done > total else ""
    return f"compiling the simulation, once for this machine: {done} of {total}{left}"


def _say(done: int, total: int) -> None:
    """Keep one line of a terminal up to date; elsewhere write a line after a second, then every 10 s."""
    global _said  # noqa: PLW0603 - of the process
    if sys.stderr is None:
        return
    if sys.stderr.isatty():
        print(f"\r\x1b[K{compiling(done, total) if total else ''}", end="", file=sys.stderr, flush=True)
    elif total and (now := time.monotonic()) - _began > _SILENT and now - _said > _AGAIN:
        _said = now
        print(f"axbridge: {compiling(done, total)}", file=sys.stderr, flush=True)


_began = math.inf  # when the first kernel was compiled, s of `time.monotonic`
_said = -math.inf
_report: list[Report] = [_say]


# -- numba ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _numba() -> Any:
    """The package; None where it cannot be imported."""
    try:
        import numba
        from numba.core import event
    except ImportError as failure:
        warnings.warn(f"kernels run as plain Python: {failure}", RuntimeWarning, stacklevel=4)
        return None

    class Compiling(event.Listener):  # type: ignore[misc]  # numba is not typed
        """Counts kernels, the ones compiled for others included."""

        def on_start(self, event: Any) -> None:
            global _began  # noqa: PLW0603 - of the process
            if hasattr(event.data["dispatcher"], "kernel"):
                if _raised:
                    raise _raised[-1]
                if not _compiled_for:
                    _keep_what_signals_raise()
                _compiled_for.append(event.data["dispatcher"].kernel)
                _began = min(_began, time.monotonic())
                _report[0](*kernels())

        def on_end(self, event: Any) -> None:
            kernel = getattr(event.data["dispatcher"], "kernel", None)
            if kernel is not None:
                _compiled_for.pop()
                kernel.done = not _raised
                _report[0](*(kernels() if _compiled_for else (0, 0)))
                if not _compiled_for:
                    _raise_what_was_kept()

    event.register("numba:compile", Compiling())
    return numba


_handlers: dict[int, Any] = {}  # the program's own, while a kernel is compiled, by signal
_raised: list[BaseException] = []  # what these have raised meanwhile


def _keep_what_signals_raise() -> None:
    """Until the kernel is compiled: Python drops an exception in a callback of LLVM, and the program would go on."""
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


def _raise_what_was_kept() -> None:
    global _interpreted  # noqa: PLW0603 - of the process
    while _handlers:
        number, handler = _handlers.popitem()
        if signal.getsignal(number) is _handle:
            signal.signal(number, handler)
    if _raised:
        failure = _raised.pop()
        _raised.clear()
        _interpreted = -_INTERPRETED  # what is left of the program may be short
        raise failure


@lru_cache(maxsize=4)
def _cache_class(kind: str) -> Any:
    """Numba's cache of functions, in our folder; `kind` keeps the forms of a kernel apart."""
    from numba.core.caching import FunctionCache

    class KernelCache:
        """Where a kernel is kept: numba asks for these methods."""

        def __init__(self, function: Callable[..., Any]) -> None:
            self._of = _disambiguator(function, kind)

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


def _disambiguator(function: Callable[..., Any], kind: str) -> str:
    """The part of a file's name in the cache that is this kernel's alone."""
    return f"{function.__module__}-{kind}-{function.__code__.co_firstlineno}"


@lru_cache(maxsize=1)
def _kept_files() -> frozenset[str]:
    """Names of the files that were in the cache when it was asked first."""
    return frozenset(file.name for file in cache_folder().iterdir())


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
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return False
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o077)


def _users_folder() -> Path:
    """Where this system keeps what can be made again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local", "axbridge", "Cache")
    if sys.platform == "darwin":
        return Path("~/Library/Caches/axbridge")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "axbridge")
