"""Promises of a contract, checked one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from axbridge.errors import AxBridgeError


def kept(checks: Iterable[Callable[..., None]], run: Callable[[Callable[..., None]], None]) -> list[str]:
    """The names of the promises, when all are kept.

    Args:
        checks: One a promise, named after it.
        run: Makes what is checked, and calls a check with it.

    Raises:
        AssertionError: one was broken; the message is its name and what was seen.
    """
    names = []
    for check in checks:
        name = check.__name__.removeprefix("_").replace("_", " ")
        try:
            run(check)
        except AssertionError as broken:
            raise AssertionError(f"{name}: {broken}") from broken
        except AxBridgeError as failure:
            raise AssertionError(f"{name}: unexpected {type(failure).__name__}: {failure.message}") from failure
        names.append(name)
    return names
