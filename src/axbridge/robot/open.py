"""`axbridge.open`: open the robot of a rig on a named backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

from axbridge.config.rig import Rig
from axbridge.errors import UsageError, nearest
from axbridge.robot.backend import Backend, open_sim
from axbridge.robot.mixed import open_mixed
from axbridge.robot.rig_check import refuse_unsound
from axbridge.robot.robot import Robot
from axbridge.robot.twin.twin import open_twin
from axbridge.servo import checks
from axbridge.sim.engines.choice import with_usual_engine

_attending: list[Callable[[Robot, int], None]] = []


@contextmanager
def attending(attend: Callable[[Robot, int], None]) -> Iterator[None]:
    """In this block, call `attend` with every robot that this process opens, and with its seed."""
    _attending.append(attend)
    try:
        yield
    finally:
        _attending.remove(attend)


def open_robot(
    rig: str | Path | Rig,
    backend: str | None = None,
    *,
    port: str | None = None,
    seed: int = 0,
    realtime: bool | None = None,
    engine: str | None = None,
    model: str | None = None,
    virtual: str | Iterable[str] = (),
    **overrides: Any,
) -> Robot:
    """Open a robot on a real bus or in the simulator.

    Args:
        rig: A name (``"bench_arm"``), a path, or a `Rig`.
        backend: ``"sim"``, ``"real"`` or ``"twin"``; by default as `chosen_backend` says.
        port: Serial device or URL in place of the rig's first; by default ``AXBRIDGE_PORT``. A port that is given
            here means ``"real"``; the variable and the rig's own port do not.
        seed: Seed of the simulation's noise and jitter.
        realtime: Pace the simulation by the wall clock; by default when `world.gui` shows it, or when
            ``AXBRIDGE_REALTIME`` is set. The real backend always runs in real time.
        engine: ``"bullet"``, ``"mujoco"``, ``"none"`` or ``"auto"`` instead of the rig's; else ``AXBRIDGE_ENGINE``.
        model: Servo model of the simulation, a name or a file, instead of the rig's; by default ``AXBRIDGE_MODEL``
            unless `rig` is a `Rig`.
        virtual: Servos that the real backend simulates beside the real ones: patterns of names (``"left_*"``),
            ids (``"7"``) or ranges of ids (``"7-12"``).
        overrides: Top-level tables of the rig to change: ``world={"time_step_ms": 1.0}``.

    Raises:
        UsageError: an unknown argument or backend, an engine that is not installed, `realtime=False` on a real
            backend, a port for ``sim`` or one that is no text, a seed that is no whole number of 0 or more; `virtual`
            on another backend than ``real``, with an unknown servo, or with all servos of a bus.
        RigError, ProfileError: the rig or something it names is wrong.
        BusError: a port cannot be opened, or a servo does not answer.
    """
    loaded = rig if isinstance(rig, Rig) else Rig.load(rig).with_model(os.environ.get("AXBRIDGE_MODEL") or None)
    for name in overrides:
        tables = [field.alias or key for key, field in Rig.model_fields.items()]
        if name not in tables:
            arguments = [each for each in signature(open_robot).parameters if each != "overrides"]
            hint = nearest(name, [*arguments, *tables]) or f"there are {', '.join(arguments)}, and tables of a rig"
            raise UsageError(f"open has no argument {name!r}", hint.strip())
    if not isinstance(model, str | Path | None):
        raise UsageError(f"a servo model is a name or a file, not {model!r}", 'write model="ax12"')
    if overrides:
        loaded = loaded.overridden(overrides)
    loaded = with_usual_engine(loaded, engine).with_model(model)

    seed = checks.seed(seed)
    if isinstance(virtual, str) or not isinstance(virtual, Iterable):
        virtual = () if virtual is None else (virtual,)
    patterns = tuple(map(str, virtual))  # an id may be a number

    given = port  # latest one that was opened

    def opener(name: str, port: str | None) -> Backend:
        nonlocal given
        chosen_backend(name, port)  # refuses a port for a simulation
        wanted, paced = port or given, realtime if name == "sim" else None
        opened = _backend(loaded, name, wanted, seed, paced, patterns if name == "real" else ())
        given = wanted
        return opened

    first = _backend(loaded, chosen_backend(backend, port), port, seed, realtime, patterns)
    robot = Robot(loaded, first, opener, seed)
    try:
        for attend in _attending:
            attend(robot, seed)
    except BaseException:
        robot.close()
        raise
    return robot


def chosen_backend(backend: str | None = None, port: str | None = None) -> str:
    """Return the name of the backend: `backend`, else ``real`` for a given port, ``AXBRIDGE_BACKEND``, or ``sim``.

    Raises:
        UsageError: a port is given for the simulator, or an empty one.
    """
    if port == "":
        raise UsageError("the port is empty, as of an unset variable", "name it, or leave the port out")
    if backend == "sim" and port is not None:
        raise UsageError(f"the simulator has no port, and {port} is given", "leave out the port, or take backend real")
    return backend or ("real" if port is not None else os.environ.get("AXBRIDGE_BACKEND") or "sim")


def _backend(
    rig: Rig, name: str, port: str | None, seed: int, realtime: bool | None, virtual: tuple[str, ...]
) -> Backend:
    if not isinstance(port, str | None):
        raise UsageError(f"a port is given as text, not {port!r}", 'write port="/dev/ttyUSB0", or port="COM3"')
    if virtual and name != "real":
        raise UsageError(f"virtual servos need the real backend, not {name}", 'take backend="real"')
    if name in {"sim", "twin"}:
        refuse_unsound(rig)
    if name == "sim":
        watched = (rig.world is not None and rig.world.gui) or bool(os.environ.get("AXBRIDGE_REALTIME"))
        return open_sim(rig, seed=seed, realtime=watched if realtime is None else realtime)
    if realtime is False:
        raise UsageError(f"the {name} backend always runs in real time", "leave `realtime` out")
    port = port or os.environ.get("AXBRIDGE_PORT")
    if name == "real":
        return open_mixed(rig, port, virtual, seed=seed)
    if name == "twin":
        return open_twin(rig, port, seed=seed)
    raise UsageError(f"no backend {name!r}", "known backends: real, sim, twin")
