"""`axbridge calibrate`: find by hand which servo is which joint, and write it into the rig."""

from __future__ import annotations

import difflib
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from axbridge.cli.app import app
from axbridge.cli.exit import early_end, motors_after
from axbridge.cli.keys import END, Ended, pressed
from axbridge.cli.options import PortOption, RigOption, YesOption, separated, shared
from axbridge.cli.progress import Show, progress
from axbridge.errors import UsageError

if TYPE_CHECKING:
    from axbridge.config.rig import Rig
    from axbridge.config.rig_edit import Value
    from axbridge.config.rig_tables import ServoConfig
    from axbridge.robot.calibration import Mounting
    from axbridge.robot.event_log import ServoLost
    from axbridge.robot.robot import Robot

_WIGGLE, _SKIP, _BACK, _QUIT = "w", "s", "b", "q"
_PAUSE = 0.02  # s between two looks for a key
_AWAY = 20.0  # s in which a servo that no longer answers may come back


@app.command()
def calibrate(
    *,
    rig: RigOption,
    port: PortOption = None,
    joints: Annotated[str, shared("--joints")] = "",
    yes: YesOption = False,
) -> None:
    """Find ids, directions, zeros and limits of your robot by hand, and write them into its rig.

    First all motors go off, so hold the robot. Then you turn one joint after the other by hand. The LED of the servo
    that is meant blinks, and the key w moves it a little. You see the changes before they are written. Comments in the
    file stay. The motors are off at the end, however it ends.
    """
    from axbridge.config.rig import Rig
    from axbridge.robot.calibration import rig_of_bus
    from axbridge.robot.open import open_robot

    loaded = Rig.load(rig)
    _refuse_unwritable(loaded, rig)
    queue = _chosen(loaded, joints)
    text = _text_of(loaded.path)
    opened: Rig | None = None

    def left(_: BaseException) -> str:
        motors = motors_after(opened) if opened else "no motor was moved"
        return f"stopped: {motors}; {loaded.path} is as it was"

    with early_end(left, Ended):
        with progress("asking who is on the line"):
            there = rig_of_bus(loaded, port)
        with open_robot(there, "real") as robot, pressed() as key:
            opened = there
            for servo in robot.values():
                servo.torque_off()
            ids = ", ".join(str(servo.config.id) for servo in robot.values())
            print(f"on the line: servo{'s' * (len(robot) > 1)} {ids}; all motors are off: hold the robot")
            print(
                f"keys: {_WIGGLE} moves the servo a little, {_SKIP} leaves a joint out, {_BACK} goes back, "
                f"{_QUIT} ends, any other goes on",
                flush=True,
            )
            with progress("") as show:
                found = _Dialogue(robot, loaded, key, show).run(queue)
            _write(loaded, text, found, key, yes=yes)


class _Dialogue:
    """Asks a hand for one joint after the other.

    Args:
        robot: All servos on the line, limp, with angles that count from 0.
        rig: Whose joints they are.
        key: The next key, or "".
        show: Says what moves, while a key is waited for.
    """

    def __init__(self, robot: Robot, rig: Rig, key: Callable[[], str], show: Show) -> None:
        from axbridge.config.rig_check import positive_ways
        from axbridge.robot.event_log import Watch

        self._robot, self._rig, self._key, self._show = robot, rig, key, show
        self._ways = positive_ways(rig)
        self._watch = Watch(robot)
        self._found: dict[str, Mounting] = {}
        self._limits: dict[str, dict[str, int]] = {}  # of servos that were moved, as they were
        self._servo_of: dict[str, str] = {}  # by joint's servo in the rig: what moves it

    def run(self, queue: list[ServoConfig]) -> dict[str, Mounting]:
        """What was found, by name of the rig's servo; a joint whose servo turns out to be another's comes later."""
        from axbridge.robot.event_log import ServoLost

        place = 0
        while place < len(queue):
            servo = queue[place]
            print(f"joint {place + 1} of {len(queue)}: {servo.name}, {self._expected(servo)}", flush=True)
            try:
                answer = self._joint(servo)
            except ServoLost as lost:
                self._await_all(lost)
                print(f"  all answer again: {servo.name} once more; what was found before is kept", flush=True)
                continue
            if answer == _BACK:
                place = max(place - 1, 0)
                for name in (servo.name, queue[place].name):
                    self._found.pop(name, None)
                    self._servo_of.pop(name, None)
                continue
            if servo.name in self._found:
                self._tell(servo)
                queue += self._robbed(servo, queue)
            place += 1
        return self._found

    def _await_all(self, lost: ServoLost) -> None:
        """Wait until every servo answers again, and make all limp: one may have been lost while it was moved.

        Raises:
            ServoLost: one did not come back.
            Ended: the user has had enough.
        """
        from axbridge.robot.event_log import Watch
        from axbridge.robot.identify_joint import give_back

        print(f"  {lost.message}: waiting until all answer; {_QUIT} ends", flush=True)
        self._show("waiting for an answer")
        until = self._robot.time + _AWAY
        while self._robot.last_step.errors:
            if self._robot.step() == -1 or self._key().lower() in {_QUIT, END}:
                raise Ended
            if self._robot.time > until:
                raise lost
        for name in self._robot:
            give_back(self._robot, name, self._limits.get(name, {}))
        self._watch = Watch(self._robot)

    def _joint(self, servo: ServoConfig) -> str:
        """Ask for all of one joint, again and again while the user wants it; returns the key that left it, or ""."""
        while True:
            before = self._angles()
            name, turned, answer = self._first(servo, before)
            if answer:
                return answer
            print(f"  {name} moved by {math.degrees(turned):+.0f}°", flush=True)
            answer = self._rest(servo, name, turned, before)
            if answer != _BACK:
                return answer

    def _first(self, servo: ServoConfig, before: dict[str, float]) -> tuple[str, float, str]:
        """The servo that moves a joint, how far it turned towards larger angles, and the key that ended it, or ""."""
        from axbridge.robot.identify_joint import blinking

        way = self._ways.get(servo.joint, "the way that shall count as positive")
        meant = self._meant(servo)
        while True:
            with blinking(self._robot, meant) if meant else nullcontext(lambda: None) as blink:
                answer = self._asked(f"1 turn it {way}, by 20° or more, and hold it; press a key", before, follow=blink)
            if answer == _WIGGLE:
                self._wiggle(meant)
                before.update(self._angles())  # it may have sunk since
                continue
            if answer:
                return "", 0.0, answer
            try:
                return *self._moved(before, servo), ""
            except UsageError as failure:
                print(f"  again: {failure.message}\n  {failure.hint}", flush=True)

    def _rest(self, servo: ServoConfig, name: str, turned: float, before: dict[str, float]) -> str:
        """Ask for zero and limits, and keep what was found; returns the key that ended it, or ""."""
        from axbridge.robot.calibration import ENOUGH, Mounting

        if answer := self._asked("2 bring it to 0 rad, as the URDF draws it; press a key", before, name):
            return answer
        zero = self._count(name)
        lowest = highest = zero

        def follow() -> None:
            nonlocal lowest, highest
            lowest, highest = min(lowest, self._count(name)), max(highest, self._count(name))

        if answer := self._asked("3 lead it to both its ends, as far as it may go; press a key", before, name, follow):
            return answer
        config = self._robot[name].config
        profile = self._robot.rig.profile_of(config)
        gone = (highest - lowest) * profile.units.position >= ENOUGH
        self._found[servo.name] = Mounting(
            config.bus, config.id or 0, profile, zero, 1 if turned > 0 else -1, (lowest, highest) if gone else None,
            config.registers,
        )  # fmt: skip
        self._servo_of[servo.name] = name
        return ""

    def _by_rig(self, servo: ServoConfig) -> str:
        """The servo that moves a joint by the rig, as it is called here; "" when it does not answer."""
        place = servo.bus, servo.id
        return next((one.name for one in self._robot.values() if (one.config.bus, one.config.id) == place), "")

    def _taken(self, servo: ServoConfig) -> dict[str, str]:
        """Servos that move another joint, as was found, and that joint."""
        return {moved: joint for joint, moved in self._servo_of.items() if joint != servo.name}

    def _left(self, servo: ServoConfig) -> list[str]:
        """Servos that may move a joint: nobody has found them to move another."""
        return [name for name in self._robot if name not in self._taken(servo)]

    def _meant(self, servo: ServoConfig) -> str:
        """The servo that should move a joint: the rig's, or the only one that is left; "" when nobody can say."""
        name, left = self._by_rig(servo), self._left(servo)
        if name in self._taken(servo):
            return left[0] if len(left) == 1 else ""
        return name

    def _expected(self, servo: ServoConfig) -> str:
        """Which servo should move a joint, in words."""
        name, meant, taken = self._by_rig(servo), self._meant(servo), self._taken(servo)
        if name not in taken:
            return f"servo {servo.id} by the rig: {'its LED blinks' if meant else 'which does not answer'}"
        but = f"{name}, by the rig, moves {taken[name]}"
        if meant:
            return f"{meant}, the only one left ({but}): its LED blinks"
        left = self._left(servo)
        return f"one of {', '.join(left)} ({but})" if left else f"but no servo is left ({but})"

    def _wiggle(self, name: str) -> None:
        """Move a servo a little, and say what came of it."""
        from axbridge.robot.identify_joint import TORQUE, VISIBLE, limits_of, wiggle

        if not name:
            print("  it is not known which servo that is: nothing was moved", flush=True)
            return
        try:
            self._limits.setdefault(name, limits_of(self._robot, name))
            far = wiggle(self._robot, name, self._watch.look)
        except UsageError as refused:
            print(f"  not moved: {refused.message}\n  {refused.hint}", flush=True)
            return
        held = "" if far > VISIBLE else ": something holds it, or its load is too heavy for so little torque"
        print(
            f"  {name} moved by {math.degrees(far):.0f}° at {TORQUE:.0%} of its torque, and is limp again{held}",
            flush=True,
        )

    def _moved(self, before: dict[str, float], servo: ServoConfig) -> tuple[str, float]:
        """The servo that has moved.

        Raises:
            UsageError: none, or more than one, or one that is another joint's already.
        """
        from axbridge.robot.calibration import ENOUGH, moved_most

        now = self._angles()
        start = dict(before)
        if max(abs(now[name] - start[name]) for name in now) >= ENOUGH:
            before.update(now)  # a second try starts here
        name, turned = moved_most(start, now)
        taken = self._taken(servo)
        if name in taken:
            raise UsageError(f"{name} has moved, and it moves {taken[name]}", f"turn {servo.name}, or go back with b")
        return name, turned

    def _asked(
        self, what: str, before: Mapping[str, float], name: str = "", follow: Callable[[], None] = lambda: None
    ) -> str:
        """Ask, and let the robot go on until a key is pressed; returns it where it asks for another way, else "".

        Raises:
            Ended: the user wants to end, or there is nobody to press a key.
            BusError: a servo got lost.
        """
        while self._key() not in {"", END}:  # struck twice: that was for the question before
            pass
        print(f"  {what}", flush=True)
        while not (struck := self._key().lower()) or (struck == _WIGGLE and name):  # which servo it is, is known then
            if self._robot.step() == -1:
                raise Ended
            self._watch.look()
            follow()
            now = self._angles()
            most = name or max(now, key=lambda one: abs(now[one] - before[one]))
            self._show(f"{most} at {math.degrees(now[most]):.1f}°, {math.degrees(now[most] - before[most]):+.1f}°")
        if struck in {_QUIT, END}:
            raise Ended
        return struck if struck in {_WIGGLE, _SKIP, _BACK} else ""

    def _tell(self, servo: ServoConfig) -> None:
        found = self._found[servo.name]
        other = "" if found.id == servo.id else f" (the rig says {servo.id})"
        print(f"  {servo.name} is servo {found.id}{other}, zero {found.zero}, direction {found.direction}", flush=True)
        if found.reach is None:
            print("  it was not led to its ends: its limits stay as they are", flush=True)

    def _robbed(self, servo: ServoConfig, queue: list[ServoConfig]) -> list[ServoConfig]:
        """The joint that the rig gave this servo to, if it is not asked for anyway."""
        found = self._found[servo.name]
        robbed = [one for one in self._rig.servos if (one.bus, one.id) == (found.bus, found.id)]
        new = [one for one in robbed if one.name != servo.name and one not in queue]
        for one in new:
            print(f"  servo {one.id} is {one.name}'s by the rig: {one.name} comes, too", flush=True)
        return new

    def _angles(self) -> dict[str, float]:
        return {name: servo.state.position for name, servo in self._robot.items()}

    def _count(self, name: str) -> int:
        servo = self._robot[name]
        return round(servo.state.position / self._robot.rig.profile_of(servo.config).units.position)


def _refuse_unwritable(rig: Rig, given: str) -> None:
    """Only a file of the user's own is written to.

    Raises:
        UsageError: the rig comes with axbridge, or parameters were given with its name.
        RecordingError: its folder is not writable.
    """
    from axbridge.config.urdf_parameters import split_options
    from axbridge.files import check_writable

    if split_options(given)[1]:
        raise UsageError(f"{given}: parameters are not calibrated", "give the rig's name alone")
    if rig.comes_along:
        own = f"my_{rig.name}"
        raise UsageError(
            f"rig {rig.name} comes with axbridge", f"run `axbridge rig copy {rig.name} {own}`, then calibrate {own}"
        )
    check_writable(rig.path)


def _chosen(rig: Rig, joints: str) -> list[ServoConfig]:
    """The rig's Dynamixels that were asked for.

    Raises:
        UsageError: the rig has no such servo, or none on a line.
    """
    on_a_line = rig.dynamixels
    if not on_a_line:
        raise UsageError(f"rig {rig.name} has no Dynamixels", "there is nothing to calibrate")
    names = separated(joints)
    known = ", ".join(servo.name for servo in on_a_line)
    for name in names:
        if name not in {servo.name for servo in on_a_line}:
            raise UsageError(f"rig {rig.name} has no servo {name!r}", f"it has: {known}")
    return [servo for servo in on_a_line if not names or servo.name in names]


def _write(rig: Rig, text: str, found: Mapping[str, Mounting], key: Callable[[], str], *, yes: bool) -> None:
    """Show what changes in the file, ask, and write it whole.

    Raises:
        RigError: the findings make no sound rig.
        UsageError: the file has changed meanwhile.
        Ended: the user does not want it.
    """
    from axbridge.config.rig_check import check_rig
    from axbridge.config.rig_edit import edited
    from axbridge.files import replacing
    from axbridge.robot.calibration import changes, check_whole

    check_whole(rig, found)
    new: dict[str, dict[str, Value]] = {}
    for servo in rig.servos:
        if servo.name in found:
            values, notes = changes(rig, servo, found[servo.name])
            if values:
                new[servo.name] = values
            for note in notes:
                print(f"note: {note}", file=sys.stderr)
    if not new:
        print(f"{rig.path} says all of this already: nothing is written")
        return
    tables = [{**servo.model_dump(exclude_unset=True), **new.get(servo.name, {})} for servo in rig.servos]
    check_rig(rig.overridden({"servo": tables}))
    result = edited(text, new, rig.path)
    sys.stdout.writelines(_difference(text, result, str(rig.path)))
    if not yes:
        print("write it? y or n", flush=True)
        while (struck := key().lower()) not in {"y", "n", _QUIT, END}:  # one key too many must not lose all this
            time.sleep(_PAUSE)
        if struck != "y":
            raise Ended
    if _text_of(rig.path) != text:
        raise UsageError(f"{rig.path} was changed meanwhile, by another program", "run it again")
    place = rig.path.resolve()  # where a link leads
    with replacing(place) as temporary:
        temporary.write_bytes(result.encode())
        shutil.copymode(place, temporary)
    print(f"wrote {rig.path}; next: `axbridge rig check {rig.path}`")


def _difference(old: str, new: str, path: str) -> Iterator[str]:
    """Lines that differ, as `diff -u` shows them; in colours on a terminal."""
    colours = {"+": "32", "-": "31", "@": "36"} if sys.stdout.isatty() else {}
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), path, f"{path}, calibrated", n=1, lineterm=""):
        colour = colours.get(line[:1])
        yield f"\x1b[{colour}m{line}\x1b[0m\n" if colour else f"{line}\n"


def _text_of(path: Path) -> str:
    return path.read_bytes().decode()
