"""Identify a servo model: by the paper's scans, or search, polish, compute intervals, describe."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.lag import baseline, lag_of
from axbridge.comparison.metrics import parse_condition
from axbridge.comparison.recorded_dynamics import joints_of_robot
from axbridge.comparison.recorded_runs import packed
from axbridge.config.rig import Rig
from axbridge.errors import UsageError, as_word, require
from axbridge.fit import intervals
from axbridge.fit.friction_laws import allowing_for, compare_laws, richer_law
from axbridge.fit.least_squares import best_polished, keep_unidentified, polish
from axbridge.fit.lima2009 import paper_procedure
from axbridge.fit.prediction import parts, predicted, speeds
from axbridge.fit.prepare import MOVED, Problem, excitation, loaded_with, prepare, resting_noise
from axbridge.fit.result import Fit, Score, doubts, scores_of
from axbridge.fit.search import KEPT, Job, Mapper, Report, StartOutcome, executor, freed, losses, search
from axbridge.fit.suspects import sampling, suspects_of
from axbridge.fit.unknowns import Space
from axbridge.recording.recording import Recording, Track
from axbridge.recording.stored import opened_all
from axbridge.servo import checks
from axbridge.servo.columns import Param
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import Runs

COMPARE = "compare"  # instead of a friction law: compare all
_METHODS = "grid", "cma"
_ON_FEET = (
    "a robot on its feet shows torque, slope, armature and latency of a leg's servo roughly, and friction badly: a "
    "load that is worked out a little wrong looks like them; to find out, record the robot hung up by its body "
    "(fixed_base = true in its rig), that servo moving alone"
)
APART = 1.0  # degrees: larger differences between predictions of the best starts give a warning
MISSED = 1.75  # times the others' error: larger errors of a recording, or of held-out ones, give a warning
CONDITIONS = "mae", "rmse", "held_out_mae", "held_out_rmse"
_NO_TIMES = "some command times are unknown and fitted, so sensor.latency_ms is not identified"
_RANDOM_RANGE = 0.25, 0.75  # share of the range for a random hidden value if `Space.usual` is infinite
_STEP = 0.5e-3  # s: simulation step of hidden data, half of a fit's step


def beforehand(rig: Rig, servo: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return warnings that are known before the fit."""
    free_standing = servo is not None and rig.world is not None and not rig.world.fixed_base
    return (_ON_FEET,) if free_standing else ()


def identify(
    recordings: Recording | str | Path | Sequence[Recording | str | Path],
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
        recordings: Recordings, or their files, to which the model is fitted; also one alone.
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
    called, rig = (rig.path, rig) if isinstance(rig, Rig) else (rig, Rig.load(rig))
    known = beforehand(rig, servo)
    seed = checks.seed(seed)
    if not (generations >= 1 and budget > 0):
        raise UsageError(f"no search in {generations} generations and {budget:g} s", "give more, such as 150 s")
    fitted, held = loaded_with(loads, opened_all(recordings), opened_all(held_out))
    names = [servo] if isinstance(servo, str) else list(servo or ())

    def typed(lines: Sequence[str]) -> tuple[str, ...]:
        """Return lines whose commands name the rig, and a servo of it."""
        options = f"--rig {as_word(called)}" + (f" --servo {as_word(names[0])}" if names else "")
        return tuple(line.replace("--rig RIG", options) for line in lines)

    if names:
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
    prepared = partial(prepare, fitted, rig, model, held_out=held, again=opened_all(again), free=free)
    problem = prepared(friction=None if friction == COMPARE else friction)
    if before is not None:
        before(typed((*known, *excitation(problem))))
    fitting = partial(fit_model, starts=starts, generations=generations, seed=seed, where=where, report=report)
    report("scanning the paper's grid" if by_grid else "searching", None)
    if by_grid:
        fit = paper_procedure(problem, seed)
        fit = replace(fit, scores=beside_models(problem, fit.scores))
    elif friction == COMPARE:
        fit = compare_laws(prepared, fitting, budget=budget, where=where, report=report)
    else:
        fit = fitting(problem, budget=budget, richer=richer, prove=prove)
    if prove:
        return replace(fit, warnings=typed(fit.warnings))
    report("looking at the recordings", None)
    lines = *known, *sampling([*fitted, *held]), *suspects_of(fit, fitted), *fit.warnings
    return replace(fit, warnings=typed(lines))


def _by_grid(model: str, method: str | None, friction: str | None) -> bool:
    """Return whether to use the paper's scans; by default for its model."""
    chosen = method or ("grid" if model == "lima2009" else "cma")
    if chosen not in _METHODS:
        raise UsageError(f"there is no method {chosen!r}", "choose grid or cma")
    if chosen == "grid" and (model != "lima2009" or friction not in {None, "M1"}):
        raise UsageError("the grid is the paper's: model lima2009, friction M1", "use --method cma for the others")
    return chosen == "grid"


@dataclass(frozen=True)
class Solution:
    """Result of search and polish."""

    space: Space  # the unknowns; the armature may be 0, unlike in the problem's space
    fitted: Runs  # the runs whose error was minimised: the recordings, or parts of them
    point: FloatArray  # the optimum, (n,)
    free: FloatArray  # the optimum without the prior (`Space.anchored`), (n,)
    outcomes: tuple[StartOutcome, ...]  # the starts, best first


def fit_model(
    problem: Problem,
    *,
    starts: int = 12,
    generations: int = 80,
    budget: float = 150.0,
    seed: int = 0,
    richer: bool = True,
    prove: bool = False,
    where: str | Mapper | None = None,
    report: Report = lambda _what, _share: None,
) -> Fit:
    """Fit the model of a prepared problem; arguments and errors are those of `identify`."""
    begin = time.monotonic()
    truth = None
    if prove:
        problem, truth = hidden(problem, seed)
        richer = False  # the data follow the fit's law
    with executor(where) as mapper:
        cut = None if problem.smooth else parts(problem.runs)
        loss = "huber" if problem.smooth else "mae"
        job = Job(problem.space, problem.runs, seed, generations, loss=loss, parts=cut)
        outcomes = search(job, mapper, starts=starts, budget=budget, near=problem.begin, report=report)
        solution = polished(problem, cut, *freed(job, outcomes, mapper, report))
        fit = judged(problem, solution, mapper, report)
        fit = replace(fit, seed=seed, truth=truth)
        if richer:
            report("richer friction laws", None)
            point = fit.space.point(fit.row)
            law = richer_law(
                solution.space, problem.friction, solution.fitted, point, generations=2 * generations, seed=seed,
                mapper=mapper, report=report,
            )  # fmt: skip
            fit = allowing_for(fit, law)
    return replace(fit, seconds=time.monotonic() - begin)


def hidden(problem: Problem, seed: int) -> tuple[Problem, FloatArray]:
    """Return the problem with data simulated with random hidden parameters, and these parameters, (len(Param),).

    Noise, rounding and errors of the times are those of the recordings; nothing is held out.
    """
    rng = np.random.default_rng(seed)
    space, runs, usual = problem.space, problem.runs, problem.space.usual
    near = space.point(space.base) + np.where(np.isfinite(usual), usual, 0.0) * rng.normal(size=len(space))
    drawn = np.where(np.isfinite(usual), np.clip(near, 0.05, 0.95), rng.uniform(*_RANDOM_RANGE, len(space)))
    row = space.row(drawn)
    count = float(row[Param.COUNT])
    position = rollouts(row[None], runs, _STEP)[0] + rng.normal(0.0, resting_noise(runs), len(runs.time))
    if len(runs.spread):
        time_errors = runs.each(runs.spread) * rng.normal(size=len(runs.time))
        position += speeds(runs) * time_errors
    simulated = runs._replace(position=count * np.round(position / count))
    return replace(problem, runs=simulated, every=simulated, held_out=(), floors=()), row


def polished(problem: Problem, cut: Runs | None, space: Space, outcomes: Sequence[StartOutcome]) -> Solution:
    """Run least squares from the best start; a sticking joint needs whole recordings to fit better than parts did."""
    point, runs = outcomes[0].point, problem.runs
    if problem.smooth:
        begin = None if problem.begin is None else space.point(problem.space.row(problem.begin))
        free = best_polished(replace(space, anchored=False), runs, [point, begin])
        point = best_polished(space, runs, [free, space.point(space.base)]) if space.anchored else free
        return Solution(space, runs, point, free, tuple(outcomes))
    whole = polish(space, runs, point)
    if cut is None or losses(space, runs, whole[None]).mean() < losses(space, cut, point[None]).mean():
        whole = best_polished(space, runs, [whole, *(outcome.point for outcome in outcomes[1:KEPT])])
        return Solution(space, runs if cut is None else cut, whole, whole, tuple(outcomes))
    return Solution(space, cut, point, point, tuple(outcomes))


def judged(problem: Problem, solution: Solution, mapper: Mapper, report: Report) -> Fit:
    """Return the fit: intervals with the effect of constants, scores, differences between starts, and warnings."""
    space, runs, point, every = solution.space, problem.runs, solution.point, problem.every

    def estimated() -> intervals.Uncertainty:
        own = intervals.uncertainty(space, solution.fitted, point, mapper)
        return intervals.widen_to(own, space, point, solution.free)

    report("intervals", None)
    bounds = estimated()
    constants: tuple[intervals.Constant, ...] = ()
    wanted: tuple[intervals.Wanted, ...] = ()
    if problem.smooth:
        if bounds.flat:
            point = keep_unidentified(space, runs, point, bounds.flat)
            bounds = estimated()
        report("constants held", None)
        constants = intervals.constants_of(space, runs)
        bounds, wanted = intervals.marginalise_constants(bounds, space, runs, point, constants, mapper)
    best = [item for item in solution.outcomes if item.searched] or solution.outcomes[:KEPT]
    row, *others = space.sets(np.array([point, *(outcome.point for outcome in best)]))
    simulated, *rest = predicted(np.array([row, *others]), every)
    scores = beside_models(problem, scores_of(problem, simulated, np.array(rest)))
    return Fit.of(
        problem, space.unknowns, row, bounds, scores=scores, simulated=simulated,
        starts=tuple(sorted(outcome.loss for outcome in solution.outcomes)),
        warnings=(
            *([_NO_TIMES] if every.unknown_command_times.any() else []),
            *_warnings(space, bounds, row),
            *(_in_words(problem, space, scores, item) for item in wanted),
            *_missed(bounds, scores),
            *doubts(scores),
        ),
        rollouts=sum(outcome.rollouts for outcome in solution.outcomes),
        held=", ".join(f"{item.name} (±{item.off:.0%})" for item in constants),
    )  # fmt: skip


def _in_words(problem: Problem, space: Space, scores: Sequence[Score], wanted: intervals.Wanted) -> str:
    """Return in words which value of a constant fits better, and its effect on the held-out recordings."""
    constant, change = wanted.constant, "larger" if wanted.factor > 1 else "smaller"
    text = f"the recordings would suit a {constant.name} about {abs(wanted.factor - 1):.0%} {change} than the model's"
    if problem.held_out:
        space, runs = intervals.moved(space, problem.every, constant, wanted.factor)
        moved = scores_of(problem, predicted(space.sets(wanted.point[None]), runs)[0])
        with_it, without = (np.mean([score.mae for score in several if score.held_out]) for several in (moved, scores))
        text += f" (tried: held-out error {with_it:.2f}° with it, {without:.2f}° without)"
    return f"{text}; to find out, record {constant.best_experiment}"


def beside_models(problem: Problem, scores: Sequence[Score]) -> tuple[Score, ...]:
    """Add the errors of the models that the verdict names to the scores.

    They are the model of the start and the rig's own; and for the held-out recordings, or for all if there are none, a
    perfect servo, a delay with a lag, and repetitions.
    """
    own = problem.rig.specs[problem.rig.servos[0].name].model
    simulated = predicted(np.array([packed(model, problem.rig) for model in (problem.base, own)]), problem.every)
    models = zip(scores, *(scores_of(problem, motion) for motion in simulated), strict=True)
    compared = [replace(score, start=first.mae, own=given.mae) for score, first, given in models]
    joints: dict[str, list[Track]] = {}
    for track in (next(iter(recording.values())) for recording in problem.fitted):
        joints.setdefault(track.name, []).append(track)
    lags = {name: lag_of(tracks) for name, tracks in joints.items()}
    only = next(iter(lags.values())) if len(lags) == 1 else None
    judged, floors = problem.held_out or problem.fitted, problem.floors or (math.nan,) * len(problem.fitted)
    for index, recording, floor in zip(range(-len(judged), 0), judged, floors, strict=True):
        track = next(iter(recording.values()))
        driven = track.enabled & ~np.isnan(track.command) & ~np.isnan(track.position)
        compared[index] = replace(compared[index], floor=floor)
        lag = lags.get(track.name, only)
        if lag is not None and driven.any():  # the goals of a limp joint mean nothing
            perfect, lagging = baseline(track, lag)
            compared[index] = replace(compared[index], perfect=perfect.mae, lagging=lagging.mae)
    return tuple(compared)


def _missed(bounds: intervals.Uncertainty, scores: Sequence[Score]) -> tuple[str, ...]:
    """Return signs that a fit is incomplete, as one warning."""
    ends = [name for name in bounds.at_end if name not in bounds.flat]
    notes = [f"{' and '.join(ends)} ended at an end of the range"] if ends else []
    worst, middle = max(scores, key=lambda score: score.mae), float(np.median([score.mae for score in scores]))
    if worst.mae > MISSED * middle:
        notes.append(f"{worst.name} has the largest error ({worst.mae:.2f}°; median {middle:.2f}°)")
    held, fitted = (np.array([score.mae for score in scores if score.held_out is kind]) for kind in (True, False))
    if len(held) and held.mean() > MISSED * fitted.mean():
        notes.append(f"held-out recordings have larger errors than the rest ({held.mean():.2f}°, {fitted.mean():.2f}°)")
    far = max(scores, key=lambda score: np.nan_to_num(score.chance, nan=-1.0))
    if far.chance > max(APART, far.mae):
        notes.append(f"the best starts predict {far.name} differently, by {far.chance:.1f}° on average")
    what = "other motions may have such errors, as the model lacks something or the search failed"
    what += "; hold out a motion like those the model is for, and try more --starts or a richer --friction"
    return (f"{'; '.join(notes)}: {what}",) if notes else ()


def check(fit: Fit, condition: str) -> list[str]:
    """Return the recordings that fulfil `condition`, each with its value in words."""
    metric, holds = parse_condition(condition, CONDITIONS)
    held = metric.startswith("held_out_")
    scores = [score for score in fit.scores if score.held_out or not held]
    if not scores:
        return [f"{metric} is not known: no recording is held out"]
    values = [(score.name, float(getattr(score, metric.removeprefix("held_out_")))) for score in scores]
    return [f"{name}: {metric} = {value:.4g}" for name, value in values if holds(value)]


def _warnings(space: Space, bounds: intervals.Uncertainty, row: FloatArray) -> tuple[str, ...]:
    best_experiment = {unknown.name: unknown.best_experiment for unknown in space.unknowns}
    warnings = []
    for unknown in space.unknowns:
        if unknown.name in bounds.flat:
            same = math.isclose(row[unknown.column], space.base[unknown.column], rel_tol=1e-6)
            kept = ", so the model's value stays" if same else ""
            warnings.append(f"not identified: {unknown.name}{kept}; record {unknown.best_experiment}")
    warnings += [
        f"not separated: {a} and {b} (correlation {value:+.2f}); record {best_experiment[a]}"
        for a, b, value in bounds.alike
        if a not in bounds.flat and b not in bounds.flat
    ]
    return tuple(warnings)
