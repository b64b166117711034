"""Identify a servo model from recordings and a rig, by search or by the paper's scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from axbridge.comparison.recorded_dynamics import joints_of_robot
from axbridge.config.rig import Rig
from axbridge.errors import UsageError, require
from axbridge.fit.friction_laws import compare_laws
from axbridge.fit.lima2009 import paper_procedure
from axbridge.fit.pipeline import fit_model
from axbridge.fit.prepare import MOVED, excitation, loaded_with, prepare
from axbridge.fit.result import Fit
from axbridge.fit.search import Mapper, Report
from axbridge.recording.recording import Recording
from axbridge.recording.stored import opened

COMPARE = "compare"  # instead of a friction law: compare all
_METHODS = "grid", "cma"
_ON_FEET = (
    "a robot on its feet shows torque, slope, armature and latency of a leg's servo roughly, and friction badly: a "
    "load that is worked out a little wrong looks like them; to find out, record the robot hung up by its body "
    "(fixed_base = true in its rig), that servo moving alone"
)


def beforehand(rig: Rig, servo: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return warnings that are known before the fit."""
    free_standing = servo is not None and rig.world is not None and not rig.world.fixed_base
    return (_ON_FEET,) if free_standing else ()


def identify(
    recordings: Sequence[Recording | str | Path],
    rig: str | Path | Rig,
    model: str,
    *,
    method: str | None = None,
    friction: str | None = None,
    servo: str | Sequence[str] | None = None,
    loads: Sequence[str] = (),
    held_out: Sequence[Recording | str | Path] = (),
    again: Sequence[Recording | str | Path] = (),
    free: Sequence[str] = (),
    starts: int = 12,
    generations: int = 80,
    budget: float = 150.0,
    seed: int = 0,
    richer: bool = True,
    prove: bool = False,
    where: str | Mapper | None = None,
    before: Callable[[Sequence[str]], None] | None = None,
    report: Report = lambda _what, _share: None,
) -> Fit:
    """Fit a model to recordings, with an interval for each parameter.

    Args:
        recordings: Recordings, or their files, to which the model is fitted.
        rig: The robot or arm of the servo: a name, a path, or a `Rig`.
        model: Start of the fit: a model of the servo's law by its name or file, or ``pendulum-servo``: the constants of
            the profile with the servo's own PID loop.
        method: ``cma``: search; ``grid``: the paper's scans, for lima2009 only. Default: ``grid`` for lima2009.
        friction: ``M1`` to ``M6``, or ``compare``: try all, and let the data choose; None = the model's own law.
        free: Further parameters to search, as ``motor.torque_constant``; names as in the parameter file.
        servo: One or several servos of a robot that get one model. Their loads are computed from the recorded motion
            of all joints. None: the rig has only one servo.
        loads: Balanced loads that the servos of recordings turned, see `axbridge.fit.prepare.loaded_with`.
        held_out: Recordings that are not fitted, only scored.
        again: Repetitions of held-out recordings: their difference is the least possible error.
        starts: Largest number of local searches from random points; longer searches start at the best of them.
        generations: Number of generations of each search.
        budget: Amount of simulation, as computation time of two cores, s; see `axbridge.fit.search.search`.
        seed: Seed of all random numbers.
        richer: Whether the intervals include friction laws with more terms; else they assume the fit's own law.
        prove: Fit data that are simulated with hidden parameters, to see which parameters are recovered.
        where: Executor of the searches, see `axbridge.fit.search.executor`.
        before: Called before the fit with a line about the recordings, and a line for each unknown.
        report: Called with the present activity and its finished share, 0..1, or None if that is unknown.

    Raises:
        UsageError: no such friction law, parameter, method or executor, a model of another law, or too few recordings.
        ProfileError: no such model, or a mistake in its file.
        RecordingError: recordings that do not match the rig, move too little, or have no supply voltage.
        RigError: the rig is not one arm on a fixed base.
        UnsupportedOperation: SciPy or cma is not installed.
    """
    require("fitting a model", "scipy", "cma")
    rig = rig if isinstance(rig, Rig) else Rig.load(rig)
    known = beforehand(rig, servo)
    fitted, held = loaded_with(loads, list(map(opened, recordings)), list(map(opened, held_out)))
    if servo is not None:
        names = [servo] if isinstance(servo, str) else list(servo)
        report(f"working out what {', '.join(names)} carries", None)
        carried, rig = joints_of_robot([*fitted, *held], rig, names)
        count = len(fitted) * len(names)
        fitted, held = carried[:count], carried[count:]
        if len(names) > 1:  # a joint at rest while others move gives no information, and is no error
            fitted = [run for run in fitted if np.ptp(next(iter(run.values())).position) >= MOVED] or fitted
    if not fitted:
        raise UsageError("every recording is held out", "leave some to fit")
    if friction == COMPARE and len(fitted) + len(held) < 2:
        raise UsageError("one recording does not separate friction laws", "give more, some of them with --holdout")
    by_grid = _by_grid(model, method, friction)
    if by_grid and where is not None:
        raise UsageError("the paper's scans run in this process", "leave --executor out, or use --method cma")
    if prove and (friction == COMPARE or by_grid):
        raise UsageError("a hidden truth is fitted by search, with one friction law", "leave method and friction out")
    prepared = partial(prepare, fitted, rig, model, held_out=held, again=list(map(opened, again)), free=free)
    problem = prepared(friction=None if friction == COMPARE else friction)
    if before is not None:
        before((*known, *excitation(problem)))
    fitting = partial(fit_model, starts=starts, generations=generations, seed=seed, where=where, report=report)
    report("scanning the paper's grid" if by_grid else "searching", None)
    if by_grid:
        fit = paper_procedure(problem, seed)
    elif friction == COMPARE:
        fit = compare_laws(prepared, fitting, budget=budget, where=where, report=report)
    else:
        fit = fitting(problem, budget=budget, richer=richer, prove=prove)
    return fit if prove else replace(fit, warnings=(*known, *fit.warnings))


def _by_grid(model: str, method: str | None, friction: str | None) -> bool:
    """Return whether to use the paper's scans; by default for its model."""
    chosen = method or ("grid" if model == "lima2009" else "cma")
    if chosen not in _METHODS:
        raise UsageError(f"there is no method {chosen!r}", "choose grid or cma")
    if chosen == "grid" and (model != "lima2009" or friction not in {None, "M1"}):
        raise UsageError("the grid is the paper's: model lima2009, friction M1", "use --method cma for the others")
    return chosen == "grid"
