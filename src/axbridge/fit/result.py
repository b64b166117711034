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
class Input:
    """A file that a fit was made from."""

    role: str  # ``fitted``, ``held out`` or ``rig``
    name: str  # of the file
    sha256: str  # of its content


@dataclass(frozen=True)
class Fit:
    """What identification found."""

    kind: str  # ``pendulum-servo``, ``ax12``, ``lima2009``
    friction: str  # ``M1`` to ``M6``
    unknowns: tuple[Unknown, ...]  # what was searched
    row: FloatArray  # the whole parameter set (len(axbridge.servo.columns.Param),)
    base: ServoModel  # the model it started from: what was not searched is its
    scores: tuple[Score, ...]  # by recording, fitted ones first
    uncertainty: Uncertainty  # intervals, correlations, flat directions
    starts: tuple[float, ...]  # loss each start ended with, best first
    warnings: tuple[str, ...]  # what the recordings do not identify, in words
    rollouts: int  # how many recordings were simulated
    runs: Runs  # the recordings of `scores`, in their order; angles are the servo's own
    simulated: FloatArray  # what `row` makes of them, rad, (l,)
    rig: Rig  # the arm and the servo that were fitted
    seconds: float = 0.0  # how long it took
    seed: int = 0  # first seed
    inputs: tuple[Input, ...] = ()  # the files it was made from
    # a friction law with more terms that the recordings do not rule out, so the intervals allow for it; empty where
    # there is none, None where nobody looked
    allowed: str | None = None
    held: str = ""  # constants of the model that the intervals allow to be off, in words; empty where none is
    laws: LawComparison | None = None  # how the friction laws compare, where they were compared
    line: KsLine | None = None  # measurements of Ks, where some were given
    surfaces: tuple[Surface, ...] = ()  # the paper's scans, where they were made: friction over falls, gains over steps
    truth: FloatArray | None = None  # the hidden parameter set behind the data, where those were made from one

    def errors(self, *, held_out: bool) -> list[float]:
        """Mean absolute error of each recording that was held out, or of each that was fitted, degrees."""
        return [score.mae for score in self.scores if score.held_out is held_out]

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The unknowns' values with their intervals."""
        ends = zip(self.unknowns, self.uncertainty.low, self.uncertainty.high, strict=True)
        return tuple(Estimate(one, float(self.row[one.column]), float(low), float(high)) for one, low, high in ends)

    @property
    def space(self) -> Space:
        """Its unknowns, around `row`."""
        return Space(self.unknowns, self.row, near=self.kind in KNOWN)

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
    mae_deg: float  # mean absolute error of the fitted recordings
    held_out_mae_deg: float  # of the held-out ones; NaN when there are none
    behind_deg: float  # by how much that is above the smallest
    behind_standard_error_deg: float
    bic: float  # bayesian information criterion of the fitted recordings

    @property
    def tied(self) -> bool:
        """Whether chance may explain that it is not the one with the smallest held-out error."""
        return self.behind_deg <= SURE * self.behind_standard_error_deg


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
