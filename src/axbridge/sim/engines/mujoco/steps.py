"""What goes into MuJoCo in a step, and what comes out: arithmetic on its memory, as kernels.

With numpy these few sums take as long as MuJoCo itself: its arrays are short.
"""

from __future__ import annotations

from typing import NamedTuple

from axbridge.arrays import FloatArray, IntArray
from axbridge.jit import jit
from axbridge.servo.columns import Passive
from axbridge.servo.motor import fitted_weight
from axbridge.sim.substep import ARMATURE, DAMPING, TORQUE, Drives

_GIVE = 0.003  # by this share of the 0.01 % that MuJoCo makes them give way do dry friction, motors and stops
_RETURN = 1.0  # rad/s: how fast a joint that was pushed past a stop is brought back
_SLACK = 5e-7  # rad: so far past a stop it is left, or it would press against its own friction there
_LIGHTEST = 1e-15  # kg·m²


class Memory(NamedTuple):
    """Where a robot's joints are in MuJoCo's arrays, and these arrays: of degrees of freedom, if nothing else is said.

    Attributes:
        dof: Degree of freedom of each driven joint, (n,).
        joint: MuJoCo's number of it, (n,).
        diagonal: Its place in `inertia`, (n,).
        inertia: Joint-space inertia, its sparse entries, kg·m².
        speed: rad/s.
        armature: kg·m²; changed in place, as are the next three.
        friction: N·m.
        stops: Lower and upper one of each joint, (joints, 2), rad.
        torque: Applied, N·m.
    """

    dof: IntArray
    joint: IntArray
    diagonal: IntArray
    inertia: FloatArray
    speed: FloatArray
    armature: FloatArray
    friction: FloatArray
    stops: FloatArray
    torque: FloatArray


class ConstraintRows(NamedTuple):
    """MuJoCo's constraint rows of a step, those of dry friction and motors first, then those of stops.

    Attributes:
        of: What each is of; of friction the degree of freedom.
        give: How far each gives way; changed in place, as are the next two.
        hold: The inverse of that.
        wanted: Acceleration that each asks for.
        speed: rad/s.
        way: How far a joint is from its stop, rad.
    """

    of: IntArray
    give: FloatArray
    hold: FloatArray
    wanted: FloatArray
    speed: FloatArray
    way: FloatArray


@jit
def tell(step: float, drives: Drives, friction: FloatArray, memory: Memory) -> None:
    """Write into MuJoCo's memory what acts on the driven joints in a step.

    The part of the damping that is taken implicitly goes into the armature: see `axbridge.sim.engines.mujoco.engine`.

    Args:
        step: s.
        drives: As `gather` left them; this and `memory` by `as_tuple`.
        friction: Most torque of dry friction, (n,), N·m.
        memory: Changed in place.
    """
    known, there = Drives(*drives), Memory(*memory)
    motor = known.motor
    torque, damping, armature = motor[TORQUE], motor[DAMPING], motor[ARMATURE]
    for j in range(len(there.dof)):
        d, number, part = there.dof[j], there.joint[j], step * damping[j]
        ratio = part / (there.inertia[there.diagonal[j]] - there.armature[d] + armature[j] + _LIGHTEST)
        there.armature[d] = armature[j] + fitted_weight(ratio) * part
        there.friction[d] = friction[j]
        there.stops[number, 0], there.stops[number, 1] = known.passive[j, Passive.LOW], known.passive[j, Passive.HIGH]
        there.torque[d] = torque[j] - damping[j] * there.speed[d]


@jit
def aim(step: float, rubbing: int, stopping: int, targets: FloatArray, held: FloatArray, rows: ConstraintRows) -> None:
    """Say what the rows of friction, motors and stops are to reach in a step of `step` seconds.

    Args:
        step: s.
        rubbing: Rows of dry friction and motors.
        stopping: Rows of stops.
        targets: Speeds that friction is to bring each degree of freedom to, (nv,).
        held: What friction gave in the step before, (nv,). It goes on holding that. Else it would have to creep to know
            of its load, until a stop takes it.
        rows: By `as_tuple`.
    """
    known = ConstraintRows(*rows)
    of, give, hold, wanted, speed, way = known.of, known.give, known.hold, known.wanted, known.speed, known.way
    for k in range(rubbing + stopping):
        give[k] *= _GIVE
        hold[k] /= _GIVE
    for k in range(rubbing):
        wanted[k] = (targets[of[k]] - speed[k]) / step + give[k] * held[of[k]]
    for k in range(rubbing, rubbing + stopping):  # a joint ends the step at its stop at most
        allowed = -way[k] if way[k] > 0.0 else min(max(-way[k] - _SLACK, 0.0), step * _RETURN)
        wanted[k] = (allowed / step - speed[k]) / step


@jit
def sum_up(
    rubbing: int, of: IntArray, force: FloatArray, dof: IntArray, speed: FloatArray, held: FloatArray, spent: FloatArray
) -> float:
    """After a step: what dry friction and motors gave.

    Args:
        rubbing: Rows of dry friction and motors.
        of: See `ConstraintRows`.
        force: Of each row, N·m.
        dof: See `Memory`.
        speed: Likewise.
        held: Result, (nv,).
        spent: Result: that of the driven joints, (n,).

    Returns:
        The sum of all speeds' squares, (rad/s)².
    """
    squares = 0.0
    for d in range(len(held)):
        held[d] = 0.0
        squares += speed[d] * speed[d]
    for k in range(rubbing):
        held[of[k]] = force[k]
    for j in range(len(dof)):
        spent[j] = held[dof[j]]
    return squares
