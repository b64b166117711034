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
    """How well the fitted model predicts one recording.

    Attributes:
        name: Of its file.
        mae: Degrees.
        rmse: Degrees.
        held_out: Whether the fit never saw it.
        chance: How far from this prediction the other best starts' are, at most, on average over the recording,
            degrees; NaN where there is only one.
    """

    name: str
    mae: float
    rmse: float
    held_out: bool
    chance: float = math.nan


@dataclass(frozen=True)
class End:
    """Where one of the best starts ended: how far apart they are is what the search left to chance.

    Attributes:
        fitted: Mean absolute error of the recordings fitted, degrees.
        held_out: Of those held out; NaN when there are none.
    """

    fitted: float
    held_out: float


@dataclass(frozen=True)
class Input:
    """A file that a fit was made from.

    Attributes:
        role: ``fitted``, ``held out`` or ``rig``.
        name: Of the file.
        sha256: Of its content.
    """

    role: str
    name: str
    sha256: str


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
        warnings: What the data cannot tell, in words.
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
    """How one friction law did.

    Attributes:
        law: ``M1`` to ``M6``.
        parameters: How many were fitted, the other unknowns of the model included.
        fitted: Mean absolute error of the fitted recordings, degrees.
        held_out: Of the held-out ones; NaN when there are none.
        behind: By how much that is above the smallest, degrees.
        error: Standard error of `behind`.
        bic: Bayesian information criterion of the fitted recordings.
    """

    law: str
    parameters: int
    fitted: float
    held_out: float
    behind: float
    error: float
    bic: float

    @property
    def tied(self) -> bool:
        """Whether chance may explain that it is not the one with the smallest held-out error."""
        return self.behind <= SURE * self.error


@dataclass(frozen=True)
class LawComparison:
    """All laws side by side.

    Attributes:
        scores: In the order M1 to M6.
        chosen: The law that was taken.
        rule: Why, in words.
    """

    scores: tuple[LawScore, ...]
    chosen: str
    rule: str

    @property
    def note(self) -> str:
        """What the held-out recordings leave open, in words; empty when they leave nothing."""
        others = [score.law for score in self.scores if score.tied and score.law != self.chosen]
        if not others:
            return ""
        return (
            f"the held-out recordings do not tell {self.chosen} from {', '.join(others)}; "
            "what would: holding out more of them, with slow reversals under load"
        )


@dataclass(frozen=True)
class KsLine:
    """Ks, the paper's figure 5.

    Attributes:
        speed: Motor side, rad/s, (n,).
        volts: Open-circuit, V, (n,).
        ks: Slope through the origin, V·s/rad.
        error: Its standard error.
    """

    speed: FloatArray
    volts: FloatArray
    ks: float
    error: float


@dataclass(frozen=True)
class Surface:
    """Mean squared error over two unknowns.

    Attributes:
        x: The first unknown.
        y: The second.
        xs: Its values, (n,).
        ys: (m,).
        mse: deg², (n, m).
        best: Where the scan ended, (2,).
        least: Mean squared error there, deg².
    """

    x: Unknown
    y: Unknown
    xs: FloatArray
    ys: FloatArray
    mse: FloatArray
    best: tuple[float, float]
    least: float
