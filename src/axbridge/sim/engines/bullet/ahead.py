"""Loops, motors and joints worked out ahead of a longer physics step: substep after substep, in one compiled call.

Bullet takes 1 to 4 ms a step, a servo's loop wants 1 ms at most, and back-EMF is far stiffer than either. So the engine
takes its joints' inertia M and load c, once a physics step, and solves in substeps of h seconds

    (M + A + h·W·D) ω⁺ = (M + A) ω - h (1 - W) D ω + h (τ - c(t)) + f,    c(t) = c0 + c1·t

with torque τ, damping D and armature A of the drives (`axbridge.sim.substep`), and f of dry friction and stops
(`axbridge.sim.engines.bullet.implicit`). A substep has this order, because each part needs the one before:

1. the load at its middle; and joints that were hit across their play take their rotors along, before the motors are
   asked what they do to whom;
2. `gather`: τ, D, A and friction's limit, from angles and speeds at the start;
3. `solve`: ω⁺ of all joints together;
4. rotors that reach a flank within the substep hit their joints: this needs ω⁺, and the inverse of the matrix that
   `solve` has made, and ends before the angles move;
5. `move`: angles at the mean speed W·ω⁺ + (1 - W)·ω, and the sums of what acted, which Bullet is then asked for;
6. `account`: currents, heat and registers from mean speeds.

*On the floor no rotor leaves its flank.* Contacts are Bullet's, and act after all this: the speeds worked out here then
err by more than a rotor in its play takes to cross it. A standing robot's joints would be loose half the time, and it
would fall.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from axbridge.arrays import FloatArray, IntArray
from axbridge.errors import SimulationDiverged
from axbridge.jit import as_tuple, jit
from axbridge.servo.columns import Joint, Param, Passive
from axbridge.sim.backlash import meeting
from axbridge.sim.engines.bullet.implicit import BEFORE, IMPULSE, MEAN, SPEED, USED, WEIGHT, Acting, Book, move, solve
from axbridge.sim.substep import ARMATURE, DAMPING, KEPT, LIMIT, LOOSE, PULL, TORQUE, Drives, account, gather


class System(NamedTuple):
    """Joints as a linear system, for the length of a physics step.

    Attributes:
        inertia: M, joint-space inertia, (n, n), kg·m².
        loads: c0 and c1, load torque at the start of the physics step, N·m, and its growth, N·m/s, (2, n).
        book: What is remembered of each joint, (n, len(Book)); changed in place.
        work: From `axbridge.sim.engines.bullet.implicit.workspace`.
        resting: Whether contacts hold the robot.
    """

    inertia: FloatArray
    loads: FloatArray
    book: FloatArray
    work: FloatArray
    resting: bool = False


class AheadEngine:
    """The side of an engine that works its joints out ahead; what follows them in the world is the subclass's.

    Attributes:
        joints: Joint names, in the order of every array.
        time_step: A substep, s.
    """

    joints: tuple[str, ...]
    time_step: float
    _system: System
    _left: int  # substeps until the next physics step

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Joint positions and speeds; inside a physics step as predicted."""
        book = self._system.book
        return book[:, Book.ANGLE].copy(), book[:, Book.SPEED].copy()

    def advance(self, drives: Drives, first: int, count: int) -> None:
        """Go ahead in substeps; the world follows whenever a physics step is complete."""
        while count:
            part = min(count, self._left)
            failed = run(part, first, self.time_step, as_tuple(drives), as_tuple(self._system))
            first, count, self._left = first + part, count - part, self._left - part
            if failed >= 0:
                raise SimulationDiverged(self.joints[failed], first * self.time_step)
            if self._left == 0:
                self._follow()

    @abstractmethod
    def _follow(self) -> None:
        """Complete a physics step, and make `_system` and `_left` ready for the next."""


@jit
def run(count: int, first: int, step: float, drives: Drives, system: System) -> int:
    """Advance servos and joints by `count` substeps.

    Args:
        count: Substeps.
        first: Number of the first one since the start (picks the noise).
        step: Length of a substep, s.
        drives: Of the bank; this and the next by `as_tuple`.
        system: Of the engine.

    Returns:
        -1, or the joint whose inertia is not positive or whose motion is not finite.
    """
    known, joints = Drives(*drives), System(*system)
    servo, params, joint, passive, motor = known.servo, known.params, known.joint, known.passive, known.motor
    inertia, loads, book, work = joints.inertia, joints.loads, joints.book, joints.work
    n = joint.shape[0]
    pull, loose, torque, damping = motor[PULL], motor[LOOSE], motor[TORQUE], motor[DAMPING]
    acting = Acting(torque, damping, motor[ARMATURE], motor[LIMIT], passive[:, Passive.LOW], passive[:, Passive.HIGH])
    for j in range(n):
        joint[j, Joint.ANGLE], joint[j, Joint.SPEED] = book[j, Book.ANGLE], book[j, Book.SPEED]
        book[j, Book.ARMATURE] = params[servo[j], Param.ARMATURE] if servo[j] >= 0 else 0.0
    for index in range(first, first + count):
        playing = False
        for j in range(n):
            pull[j] = loads[0, j] + loads[1, j] * (book[j, Book.CLOCK] + 0.5 * step)
            if joint[j, Joint.LOOSE] != 0.0:
                play = inertia[j, j] * params[servo[j], Param.BACKLASH]
                if joints.resting or abs(book[j, Book.DEBT]) * step > play:
                    _catch(params[servo[j]], joint[j], book[j])
                else:
                    playing = True
        gather(index, step, drives)
        failed = solve(step, inertia, pull, acting, book, work)
        if failed >= 0:
            return failed
        if playing:
            _meet(work[:n], servo, params, joint, book, work[SPEED], work[WEIGHT], loose, step)
        failed = move(step, torque, damping, book, work)
        if failed >= 0:
            return failed
        for j in range(n):
            joint[j, Joint.ANGLE], joint[j, Joint.SPEED] = book[j, Book.ANGLE], book[j, Book.SPEED]
        account(index, step, drives, work[BEFORE], work[MEAN], work[USED], work[IMPULSE])
        for j in range(n):
            if servo[j] >= 0 and params[servo[j], Param.BACKLASH] > 0.0:
                book[j, Book.PUSH] -= motor[KEPT, j]
                if joints.resting:
                    joint[j, Joint.LOOSE] = 0.0
                book[j, Book.PLAY] = 1.0 + joint[j, Joint.LOOSE]
    return -1


@jit
def _meet(
    inverse: FloatArray, servo: IntArray, params: FloatArray, joint: FloatArray, book: FloatArray, speed: FloatArray,
    weight: FloatArray, loose: FloatArray, step: float,
) -> None:  # fmt: skip
    """Rotors in their play that reach a flank in this substep hit their joints.

    Args:
        inverse: Of the substep's matrix, (n, n).
        servo: Row of the servo that drives each joint, (n,).
        params: (servos, len(Param)).
        joint: (n, len(Joint)), changed in place; ROTOR as at the substep's end, ANGLE and SPEED as at its start.
        book: (n, len(Book)), changed in place.
        speed: At its end, rad/s, changed in place, (n,).
        weight: Of that in the mean speed, (n,).
        loose: 1 for joints in their play, (n,).
        step: s.
    """
    n = speed.shape[0]
    for j in range(n):
        if loose[j] == 0.0:
            continue
        row = servo[j]
        ahead = step * (weight[j] * speed[j] + (1.0 - weight[j]) * joint[j, Joint.SPEED])
        flank, hit = meeting(
            joint[j, Joint.ROTOR] - joint[j, Joint.ANGLE] - ahead, joint[j, Joint.ROTOR_SPEED], speed[j],
            params[row, Param.BACKLASH], params[row, Param.ARMATURE], inverse[j, j],
        )  # fmt: skip
        if flank != 0:
            joint[j, Joint.LOOSE], joint[j, Joint.FLANK] = 0.0, float(flank)
            book[j, Book.PUSH] += hit
            for i in range(n):
                speed[i] += inverse[i, j] * hit


@jit
def _catch(params: FloatArray, joint: FloatArray, book: FloatArray) -> None:
    """A joint that was hit so hard that it crosses its play at once, or stands, takes its rotor along.

    Args:
        params: The servo's row.
        joint: The joint's row, changed in place.
        book: Likewise.
    """
    taken = params[Param.ARMATURE] * (joint[Joint.ROTOR_SPEED] - joint[Joint.SPEED])
    joint[Joint.LOOSE] = 0.0
    joint[Joint.FLANK] = -1.0 if book[Book.DEBT] > 0.0 else 1.0
    book[Book.DEBT] += taken
    book[Book.PUSH] += taken
