"""What identification found, as facts: estimates, errors, how friction laws compare, the paper's scans."""

from __future__ import annotations

import math
from dataclasses import dataclass

from axbridge.arrays import FloatArray
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.fit.intervals import Uncertainty
from axbridge.fit.unknowns import KNOWN, Space, Unknown
from axbridge.sim.runs import Runs

SURE = 2.0  # standard errors that chance may explain


@dataclass(frozen=True)
class Estimate:
    """One identified value with its 95 % interval, in SI at the output shaft."""

    unknown: Unknown
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """How well the fitted model predicts one recording."""

    name: str  # of its file
    mae: float  # degrees
    rmse: float  # degrees
    held_out: bool  # whether the fit never saw it
    # how far from this prediction the other best starts' are, at most, on average over the recording, degrees; NaN
    # where there are fewer than three
    chance: float = math.nan
    # MAE of a servo that is where its goal is, degrees; like the next two NaN where it is not known
    perfect: float = math.nan
    lagging: float = math.nan  # of a joint with the delay and lag that suit the fitted recordings best
    floor: float = math.nan  # of a repeat of the same motion: no model can do better


@dataclass(frozen=True)
class End:
    """Where one of the best starts ended: how far apart they are is what the search left to chance."""

    fitted: float  # mean absolute error of the recordings fitted, degrees
    held_out: float  # of those held out; NaN when there are none


@dataclass(frozen=True)
class Input:
    """A file that a fit was made from."""

    role: str  # ``fitted``, ``held out`` or ``rig``
    name: str  # of the file
    sha256: str  # of its content


@dataclass(frozen=True)
class Fit:
    """What identification found.

    Attributes:
        kind: ``pendulum-servo``, ``ax12``, ``lima2009``.
        friction: ``M1`` to ``M6``.
        estimates: The unknowns.
        row: The whole parameter set (len(axbridge.servo.columns.Param),).
        base: The model it started from: what was not searched is its.
        scores: By recording, fitted ones first.
        uncertainty: Intervals, correlations, flat directions.
        starts: Loss each start ended with, best first.
        warnings: What the recordings do not identify, in words.
        rollouts: How many recordings were simulated.
        seconds: How long it took.
        seed: First seed.
        runs: The recordings of `scores`, in their order; angles are the servo's own.
        simulated: What `row` makes of them, rad, (l,).
        rig: The arm and the servo that were fitted.
        ends: What the best starts make of them, best first; empty where nothing was left to chance.
        inputs: The files it was made from.
        allowed: A friction law with more terms that the recordings do not rule out, so the intervals allow for it;
            empty where there is none, None where nobody looked.
        held: Constants of the model that the intervals allow to be off, in words; empty where none is.
        laws: How the friction laws compare, where they were compared.
        line: Measurements of Ks, where some were given.
        surfaces: The paper's scans, where they were made: friction over the falls, gains over the steps.
        truth: The hidden parameter set behind the data, where those were made from one.
    """

    kind: str
    friction: str
    estimates: tuple[Estimate, ...]
    row: FloatArray
    base: ServoModel
    scores: tuple[Score, ...]
    uncertainty: Uncertainty
    starts: tuple[float, ...]
    warnings: tuple[str, ...]
    rollouts: int
    runs: Runs
    simulated: FloatArray
    rig: Rig
    seconds: float = 0.0
    seed: int = 0
    ends: tuple[End, ...] = ()
    inputs: tuple[Input, ...] = ()
    allowed: str | None = None
    held: str = ""
    laws: LawComparison | None = None
    line: KsLine | None = None
    surfaces: tuple[Surface, ...] = ()
    truth: FloatArray | None = None

    @property
    def space(self) -> Space:
        """Its unknowns, around `row`."""
        return Space(tuple(estimate.unknown for estimate in self.estimates), self.row, near=self.kind in KNOWN)

    @property
    def condition(self) -> str:
        """What the intervals take for granted, in a sentence."""
        friction = f"the intervals hold if the servo's friction follows law {self.friction}"
        if self.allowed:
            friction += f" or {self.allowed}, which the recordings do not rule out (--friction {self.allowed})"
        elif self.allowed is not None:
            friction += ", and the recordings call for no law with more terms"
        else:
            friction += ": if it follows another, friction may lie outside"
        if self.held:
            friction += f"; they allow for constants that the fit takes from the model: {self.held}"
        return f"{friction}; all torques, inertias and friction scale with the mass given for the arm"


@dataclass(frozen=True)
class LawScore:
    """How one friction law did."""

    law: str  # ``M1`` to ``M6``
    parameters: int  # how many were fitted, the other unknowns of the model included
    fitted: float  # mean absolute error of the fitted recordings, degrees
    held_out: float  # of the held-out ones; NaN when there are none
    behind: float  # by how much that is above the smallest, degrees
    error: float  # standard error of `behind`
    bic: float  # bayesian information criterion of the fitted recordings

    @property
    def tied(self) -> bool:
        """Whether chance may explain that it is not the one with the smallest held-out error."""
        return self.behind <= SURE * self.error


@dataclass(frozen=True)
class LawComparison:
    """All laws side by side."""

    scores: tuple[LawScore, ...]  # in the order M1 to M6
    chosen: str  # the law that was taken
    rule: str  # why, in words

    @property
    def note(self) -> str:
        """What the held-out recordings leave open, in words; empty when they leave nothing."""
        others = [score.law for score in self.scores if score.tied and score.law != self.chosen]
        if not others:
            return ""
        return (
            f"the held-out recordings do not separate {self.chosen} from {', '.join(others)}; "
            "hold out more of them, with slow reversals under load"
        )


@dataclass(frozen=True)
class KsLine:
    """Ks, the paper's figure 5."""

    speed: FloatArray  # motor side, rad/s, (n,)
    volts: FloatArray  # open-circuit, V, (n,)
    ks: float  # slope through the origin, V·s/rad
    error: float  # its standard error


@dataclass(frozen=True)
class Surface:
    """Mean squared error over two unknowns."""

    x: Unknown  # the first unknown
    y: Unknown  # the second
    xs: FloatArray  # its values, (n,)
    ys: FloatArray  # (m,)
    mse: FloatArray  # deg², (n, m)
    best: tuple[float, float]  # where the scan ended, (2,)
    least: float  # mean squared error there, deg²
