"""Fit a model by search with one friction law: search, polish, compute intervals, describe."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.lag import baseline, lag_of
from axbridge.comparison.metrics import parse_condition
from axbridge.comparison.recorded_runs import packed
from axbridge.fit import intervals
from axbridge.fit.friction_laws import allowing_for, richer_law
from axbridge.fit.least_squares import best_polished, left_alone, polish
from axbridge.fit.prediction import parts, predicted, speeds
from axbridge.fit.prepare import Problem, resting_noise
from axbridge.fit.result import Fit, Input, Score
from axbridge.fit.search import KEPT, Job, Mapper, Report, StartOutcome, executor, freed, losses, search
from axbridge.fit.unknowns import Space, Unknown
from axbridge.recording.provenance import origin_of
from axbridge.recording.recording import Track
from axbridge.servo.columns import Param
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import Runs

APART = 1.0  # degrees: larger differences between predictions of the best starts give a warning
MISSED = 1.75  # times the others' error: larger errors of a recording, or of held-out ones, give a warning
LARGEST_USEFUL_ERROR = 5.0  # degrees: a model with a larger error is not useful, even with narrow intervals
CONDITIONS = "mae", "rmse", "held_out_mae", "held_out_rmse"
_NO_TIMES = "some command times are unknown and fitted, so sensor.latency_ms is not identified"
BEST = 3  # least number of starts whose predictions are compared
_RANDOM_RANGE = 0.25, 0.75  # share of the range for a random hidden value if `Space.usual` is infinite
_STEP = 0.5e-3  # s: simulation step of hidden data, half of a fit's step


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
            point = left_alone(space, runs, point, bounds.flat)
            bounds = estimated()
        report("constants held", None)
        constants = intervals.constants_of(space, runs)
        bounds, wanted = intervals.marginalise_constants(bounds, space, runs, point, constants, mapper)
    best = [item for item in solution.outcomes if item.searched] or solution.outcomes[:KEPT]
    row, *others = space.sets(np.array([point, *(outcome.point for outcome in best)]))
    usual = packed(problem.rig.specs[problem.rig.servos[0].name].model, problem.rig)
    simulated, *rest, start, own = predicted(np.array([row, *others, packed(problem.base, problem.rig), usual]), every)
    scores = beside_others(problem, scores_of(problem, simulated, np.array(rest)))
    others_too = zip(scores, scores_of(problem, start), scores_of(problem, own), strict=True)
    scores = tuple(replace(score, start=first.mae, own=given.mae) for score, first, given in others_too)
    return fit_of(
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


def fit_of(
    problem: Problem, unknowns: tuple[Unknown, ...], row: FloatArray, bounds: intervals.Uncertainty, **results: Any
) -> Fit:
    """Return the fit of a problem with these unknowns, parameters (len(Param),), intervals, and fields of `Fit`."""
    return Fit(
        kind=problem.kind, friction=problem.friction, base=problem.base, rig=problem.rig, inputs=_inputs_of(problem),
        runs=problem.every, unknowns=unknowns, row=row, uncertainty=bounds, **results,
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


def beside_others(problem: Problem, scores: Sequence[Score]) -> tuple[Score, ...]:
    """Add the errors of a perfect servo, a delay with a lag, and repetitions to the held-out scores, or to all."""
    count = len(problem.fitted) if problem.held_out else 0
    joints: dict[str, list[Track]] = {}
    for track in (next(iter(recording.values())) for recording in problem.fitted):
        joints.setdefault(track.name, []).append(track)
    lags = {name: lag_of(tracks) for name, tracks in joints.items()}
    only = next(iter(lags.values())) if len(lags) == 1 else None
    compared = list(scores[:count])
    judged, floors = problem.held_out or problem.fitted, problem.floors or (math.nan,) * len(problem.fitted)
    for score, recording, floor in zip(scores[count:], judged, floors, strict=True):
        track = next(iter(recording.values()))
        driven = track.enabled & ~np.isnan(track.command) & ~np.isnan(track.position)
        lag = lags.get(track.name, only)
        if lag is None or not driven.any():  # the goals of a limp joint mean nothing
            compared.append(replace(score, floor=floor))
        else:
            perfect, lagging = baseline(track, lag)
            compared.append(replace(score, perfect=perfect.mae, lagging=lagging.mae, floor=floor))
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


def _inputs_of(problem: Problem) -> tuple[Input, ...]:
    """Return names and hashes of a fit's files; an input without a file is left out."""
    made = [("fitted", run.path) for run in problem.fitted] + [("held out", run.path) for run in problem.held_out]
    files = [entry for entry in dict.fromkeys([("rig", problem.rig.path), *made]) if entry[1].is_file()]
    return tuple(Input(role, path.name, str(origin_of(path)["source_sha256"])) for role, path in files)


def scores_of(problem: Problem, simulated: FloatArray, others: FloatArray | None = None) -> tuple[Score, ...]:
    """Return the scores of a simulation (l,) on all recordings; `others` (k, l) are those of the best starts."""
    every, count = problem.every, len(problem.fitted)
    error = np.degrees(every.errors(simulated))
    chances = np.full(every.recordings, math.nan)
    if others is not None and len(others) >= BEST:  # two are too few to compare
        apart = np.where(every.judged, np.abs(np.degrees(others - simulated)), 0.0)
        chances = every.means(apart).max(axis=0)
    recordings = [*problem.fitted, *problem.held_out]
    several = len(problem.rig.servos) > 1
    names = [f"{run.path.name} {next(iter(run))}" if several else run.path.name for run in recordings]
    means = zip(names, every.means(np.abs(error)), every.means(error**2), chances, strict=True)
    return tuple(
        Score(name, float(mae), float(np.sqrt(mse)), index >= count, float(chance))
        for index, (name, mae, mse, chance) in enumerate(means)
    )


def check(fit: Fit, condition: str) -> list[str]:
    """Return the recordings that fulfil `condition`, each with its value in words."""
    metric, holds = parse_condition(condition, CONDITIONS)
    held = metric.startswith("held_out_")
    scores = [score for score in fit.scores if score.held_out or not held]
    if not scores:
        return [f"{metric} is not known: no recording is held out"]
    values = [(score.name, float(getattr(score, metric.removeprefix("held_out_")))) for score in scores]
    return [f"{name}: {metric} = {value:.4g}" for name, value in values if holds(value)]


def doubts(scores: Sequence[Score]) -> tuple[str, ...]:
    """Return warnings for recordings that the model does not follow: intervals assume the right kind of model."""
    return tuple(
        f"the model does not follow {score.name} (RMSE {score.rmse:.1f}°): its values and intervals are not valid; "
        "try another model or friction law, and look at the recording"
        for score in scores
        if score.rmse > LARGEST_USEFUL_ERROR
    )


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
