"""Whether this process may still have memory: asked before libraries are loaded that crash, or hang, without it."""

from __future__ import annotations

import mmap
import os
import sys

_TAKES = {"numpy": 90, "scipy": 90, "pybullet": 130, "mujoco": 130}  # MB until they have done something
_WITH_BLAS, _A_CORE, _CORES = {"numpy", "scipy"}, 40, 64  # MB more that these take for each of so many cores
_PIECE = 32  # MB that it asks for at once; who asks for all at once is refused where memory is merely scarce


def has(size: int) -> bool:
    """Whether so many MB are to be had: by this process's limit (`ulimit -v`), by a system that never overcommits."""
    if sys.platform == "win32":
        return True
    taken: list[mmap.mmap] = []
    try:
        while len(taken) * _PIECE < size:
            taken.append(mmap.mmap(-1, _PIECE << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    except OSError:
        return False
    finally:
        for piece in taken:
            piece.close()
    return True


def need(user: str, size: int, *, blas: bool = False) -> None:
    """Call it before `user` is loaded, which takes `size` MB, and more with an OpenBLAS of its own."""
    if blas:
        size += _A_CORE * min(_threads(), _CORES)
    if not has(size):
        raise MemoryError(f"{user} needs {size} MB, and this process may not have them (ulimit -v)")


def _threads() -> int:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        if (given := os.environ.get(name, "")).isdigit():
            return int(given)
    return os.cpu_count() or 1


def ask_before_imports() -> None:
    """From now on, `import` raises MemoryError where it would not come back."""
    sys.meta_path.insert(0, _Asking())


class _Asking:
    def find_spec(self, name: str, *_: object) -> None:
        if name in _TAKES:
            need(name, _TAKES[name], blas=name in _WITH_BLAS)


def words(error: BaseException) -> str:
    """Cause and next step, where there was no memory."""
    cause = str(error) or type(error).__name__
    return f"no memory left: {cause}\nraise the limit of this process, or close other programs"
