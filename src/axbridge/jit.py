"""Compile numeric kernels with numba when it is installed; run them as plain Python when it is not.

numba's own cache notices a change in the file of a compiled function, but not in the files of the functions it calls.
So the machine code goes into a folder named after the content of all kernels.

Kernels are inlined into each other and do not count references to arrays, unless they make arrays themselves:
passing rows of arrays around costs more than the arithmetic otherwise.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["COMPILED", "as_tuple", "jit", "plain"]

try:
    import numba
    from numba.core import config as _config
except ImportError:
    numba = None

COMPILED = numba is not None and not _config.DISABLE_JIT
_FREEDOM = {"reassoc", "contract", "arcp", "nsz"}  # of rounding alone: kernels do meet infinities, and look for NaN

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=tuple[Any, ...])


def plain(kernel: F) -> F:
    """The Python function that a kernel was made of: for one call now and then it need not be compiled."""
    function: F = getattr(kernel, "py_func", kernel)
    return function


def as_tuple(named: T) -> T:
    """A named tuple as a plain one, for a kernel that runs often, which makes a named one of it again.

    From Python, numba takes 1 to 5 µs longer to tell what is in a named one.
    """
    return tuple(named)  # type: ignore[return-value]


def jit(function: F, *, nogil: bool = False, allocates: bool = False, exact: bool = False) -> F:
    """Decorate a kernel: arrays and scalars in, arrays changed in place and scalars out; no Python objects.

    Args:
        function: The kernel.
        nogil: Let other threads run meanwhile.
        allocates: It makes arrays of its own.
        exact: Round as Python does.
    """
    if numba is None:
        return function
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(_cache_folder())
    try:
        options = {"error_model": "numpy", "fastmath": not exact and _FREEDOM, "nogil": nogil, "forceinline": True}
        compiled: F = numba.njit(cache=True, _nrt=allocates, **options)(function)
    finally:
        _config.CACHE_DIR = before
    return compiled


@lru_cache(maxsize=1)
def _cache_folder() -> Path:
    package = Path(__file__).resolve().parent
    content = hashlib.sha1(usedforsecurity=False)
    for source in sorted(package.rglob("*.py")):
        text = source.read_bytes()
        if b"jit" in text:  # kernels, and the numbers beside them that are compiled into them
            content.update(text)
    name = f"kernels-{content.hexdigest()[:16]}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    usual = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "axbridge")
    user = os.getuid() if hasattr(os, "getuid") else "kernels"
    for root in (Path(given) if given else usual, Path(tempfile.gettempdir(), f"axbridge-{user}")):
        try:
            folder = root.expanduser() / name
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # a user without a home, or with one that cannot be written
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="axbridge-"))
