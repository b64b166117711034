"""Promises of a contract, checked one after the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from axbridge.errors import AxBridgeError


def kept(module: Mapping[str, Any], takes: tuple[str, ...], run: Callable[[Callable[..., None]], None]) -> list[str]:
    """The names of the promises, all kept: functions of a module that take these arguments, each named after it.

    `run` makes what is checked, and calls a promise with it. An AssertionError says which one was broken.
    """
    names = []
    for check in [one for one in module.values() if inspect.isfunction(one)]:
        if tuple(inspect.signature(check).parameters) != takes:
            continue
        name = check.__name__.removeprefix("_").replace("_", " ")
        try:
            run(check)
        except AssertionError as broken:
            raise AssertionError(f"{name}: {broken}") from broken
        except AxBridgeError as failure:
            raise AssertionError(f"{name}: unexpected {type(failure).__name__}: {failure.message}") from failure
        names.append(name)
    return names
