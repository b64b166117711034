"""What Bullet's velocity motors are asked for, once a physics step, and what comes back: arithmetic only.

A joint is worked out ahead in substeps (`axbridge.sim.engines.bullet.ahead`), and Bullet is asked for the speed that
came out, within the torque that the servo can give. Torque that Bullet applied and the servo did not give is owed: what
is left of the servo's momentum goes into the next substeps.
"""

from __future__ import annotations

from axbridge.arrays import FloatArray
from axbridge.jit import jit
from axbridge.sim.engines.bullet.implicit import Book, forget

FIRM = 1.0  # N·m·s: what a hard stop may take within a step
# rad/s: how far off the prediction a joint is still held by its motor. More holds a landing, but a motor that holds its
# speed whatever it takes tears feet loose from the floor: a servo gives way. So where contacts hold the robot, it is
# little more than what the step before was off.
_MARGIN, _LITTLE = 10.0, 0.3
_JUMP = 0.2  # rad/s: changes of speed above this within a physics step count as collisions
_NEAR = 0.02  # rad
_GIVE = 0.3  # of a lead that is not due, a step
_DIVERGED = 1e4  # rad/s
_STILL = 0.5  # rad/s: where a robot stands every joint is slower
_PAST = 0.005  # rad past a stop that ask for more sweeps
_STRAIN = 1.0  # rad/s off the speed asked for, likewise


@jit
def begin(book: FloatArray, load: FloatArray, fresh: FloatArray, smooth: bool, step: float, work: FloatArray) -> None:
    """At the start of a physics step: take over the joints' load, and begin to count what acts on them.

    Args:
        book: (n, len(Book)), changed in place.
        load: Of `System`, changed in place.
        fresh: The load now, (n,), N·m.
        smooth: Whether it goes on growing as since the step before.
        step: The physics step, s.
        work: Of `System`; what it remembers of the inertia is out of date.
    """
    n = book.shape[0]
    for j in range(n):
        load[1, j] = (fresh[j] - load[0, j]) / step if smooth else 0.0
        load[0, j] = fresh[j]
        book[j, Book.PUSH] = book[j, Book.DEBT]
        book[j, Book.DAMP] = book[j, Book.CLOCK] = 0.0
        book[j, Book.START] = book[j, Book.ANGLE]
        book[j, Book.START_SPEED] = book[j, Book.SPEED]
    forget(work)


@jit
def ask(
    book: FloatArray, stops: FloatArray, actual: FloatArray, step: float, resting: bool, missed: float,
    asked: FloatArray, low: FloatArray, high: FloatArray,
) -> None:  # fmt: skip
    """At the end of a physics step: the speed to ask of Bullet, and the torque that may be spent on it.

    Without contact it is the mean speed of the step, so that Bullet's one-step rule for positions makes no error, and
    the servos keep their own speed at its end. A contact leaves the joints at the speed it lets them have, so there
    they get that of the end; see `_keep_pace`.

    Args:
        book: (n, len(Book)), changed in place.
        stops: Hard stops, (n, 2).
        actual: Speeds that Bullet had at the start, (n,).
        step: The physics step, s.
        resting: Whether contacts hold the robot.
        missed: What `take_over` said of the step before, rad/s.
        asked: Result, (n,).
        low: Result: lowest torque, (n,). Bullet starts from the middle, which is what is expected.
        high: Result: highest torque.
    """
    margin = min(_LITTLE + missed, _MARGIN) if resting else _MARGIN
    for j in range(book.shape[0]):
        end = book[j, Book.SPEED]
        armature = book[j, Book.ARMATURE]
        book[j, Book.FORETOLD] = end
        if book[j, Book.PLAY] > 0.0:
            # What passed on to a joint with backlash is known; below, what its rotor kept is taken off again.
            book[j, Book.PUSH] += armature * (end - book[j, Book.START_SPEED])
        if book[j, Book.PLAY] > 1.0:
            book[j, Book.DAMP] = 0.0
        asked[j] = end if resting else (book[j, Book.ANGLE] - book[j, Book.START]) / step
        stiffness = armature + book[j, Book.DAMP]  # N·m·s for each rad/s that the joint is off the prediction
        needed = book[j, Book.PUSH] - armature * (end - book[j, Book.START_SPEED])
        reach = stiffness * (abs(asked[j] - actual[j]) + margin)
        near = _NEAR + step * abs(actual[j])
        angle = book[j, Book.START]
        if angle > stops[j, 1] - near or angle < stops[j, 0] + near:
            reach += FIRM  # a hard stop gives way to nothing; Bullet's own reacts only once it is passed
        low[j], high[j] = (needed - reach) / step, (needed + reach) / step


@jit
def take_over(
    book: FloatArray, inertia: FloatArray, before: FloatArray, actual: FloatArray, angles: FloatArray,
    applied: FloatArray, growth: FloatArray, step: float, resting: bool, asked: FloatArray,
) -> float:  # fmt: skip
    """After a physics step: the joints' true state, and what is left over of the servos' momentum.

    Args:
        book: (n, len(Book)), changed in place.
        inertia: (n, n), kg·m².
        before: Speeds that Bullet had before the step, (n,).
        actual: After it.
        angles: After it.
        applied: Torques that Bullet applied, (n,), N·m.
        growth: Of the load in this step, which Bullet does not see, N·m/s.
        step: The physics step, s.
        resting: As in `ask`.
        asked: Speeds asked for.

    Returns:
        By how much the joint that went least as asked missed its speed, rad/s.
    """
    n = book.shape[0]
    worst = 0.0
    for j in range(n):
        missed = actual[j] - asked[j]
        worst = max(worst, abs(missed))
        ahead = book[j, Book.SPEED] - asked[j]
        # A joint that was stopped by something does not gain what it was predicted to.
        ahead *= max(0.0, 1.0 - abs(missed) / (abs(ahead) + 1e-12))
        book[j, Book.SPEED] = actual[j] + ahead
        _keep_pace(book[j], before[j], actual[j], step, resting)
        book[j, Book.ANGLE] = angles[j] - book[j, Book.LEAD]
        gained = book[j, Book.SPEED] - book[j, Book.START_SPEED]
        book[j, Book.DEBT] = book[j, Book.PUSH] - book[j, Book.DAMP] * missed
        book[j, Book.DEBT] -= book[j, Book.ARMATURE] * gained + step * (applied[j] + 0.5 * step * growth[j])
    for j in range(n):
        if not resting:
            for k in range(n):
                book[j, Book.DEBT] -= inertia[j, k] * (
                    book[k, Book.SPEED] - book[k, Book.START_SPEED] - actual[k] + before[k]
                )
        # What a collision leaves over is let go: carried on, it keeps a robot on the floor trembling.
        jump = (actual[j] - before[j]) / _JUMP
        book[j, Book.DEBT] /= 1.0 + jump * jump
        if book[j, Book.PLAY] > 1.0:
            book[j, Book.DEBT] += book[j, Book.ARMATURE] * (book[j, Book.SPEED] - book[j, Book.FORETOLD])
    return worst


@jit
def _keep_pace(row: FloatArray, before: float, actual: float, step: float, resting: bool) -> None:
    """How far Bullet's position is ahead after a step.

    Bullet moves a joint all step long at the speed of the step's end. Where it was asked for just that speed, its
    positions are half a step ahead of its speeds; taken as they are, a swing would lose height in each step. Where it
    was asked for the mean speed they are not ahead. The change from one to the other is spread over some steps.

    Args:
        row: Of the book; LEAD is changed.
        before: Speed before the step, rad/s.
        actual: After it.
        step: s.
        resting: Whether it was asked for the speed of the step's end.
    """
    due = 0.0
    if resting:
        due = 0.5 * step * min(max(actual, -_MARGIN), _MARGIN)  # faster, a landing has thrown it
        row[Book.LEAD] += due - 0.5 * step * min(max(before, -_MARGIN), _MARGIN)
    row[Book.LEAD] += _GIVE * (due - row[Book.LEAD])


@jit
def share(
    speed: FloatArray, low: FloatArray, high: FloatArray, positions: FloatArray, stops: FloatArray, near: float,
    firm: float, orders: FloatArray, applied: FloatArray,
) -> None:  # fmt: skip
    """What a step asks of each joint: a torque that is given, and a motor that adds what the speed needs.

    A landing may take a joint to its stop and past it before the engine knows of either, so there the motor may do what
    the stop would.

    Args:
        speed: As asked, (n,).
        low: Likewise.
        high: Likewise.
        positions: Of the joints, (n,).
        stops: (n, 2).
        near: How far from a stop a joint may be to reach it in this step; 0 where nothing can land.
        firm: What a stop can take, N·m or N.
        orders: Result, (3, n): speeds, torques given, most that a motor adds.
        applied: Result, (n,): the torques given.
    """
    for j in range(len(speed)):
        orders[0, j] = speed[j]
        orders[1, j] = applied[j] = 0.5 * (high[j] + low[j])
        orders[2, j] = 0.5 * (high[j] - low[j])
        if near > 0.0 and not stops[j, 0] + near <= positions[j] <= stops[j, 1] - near:
            orders[2, j] += firm


@jit
def survey(figures: FloatArray, asked: FloatArray, stops: FloatArray, applied: FloatArray) -> tuple[int, bool]:
    """Look at the joints' motion after a step.

    Args:
        figures: Positions, rad or m, speeds and torques of the motors, (3, n).
        asked: Speeds asked for, (n,).
        stops: (n, 2).
        applied: Changed in place: the motors' torques are added, (n,).

    Returns:
        The joint whose motion left the finite range, -1 where there is none; and whether one moves, is past its stop or
        went far from what was asked: a hard case to solve.
    """
    strained = False
    for j in range(len(asked)):
        position, speed = figures[0, j], figures[1, j]
        if not abs(speed) < _DIVERGED:
            return j, True
        past = max(stops[j, 0] - position, position - stops[j, 1])
        strained = strained or past > _PAST or abs(speed) > _STILL or abs(speed - asked[j]) > _STRAIN
        applied[j] += figures[2, j]
    return -1, strained
