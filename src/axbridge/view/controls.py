"""The panel: buttons, sliders and tables; each passes a request on, none touches the robot itself."""

from __future__ import annotations

import html
import math
import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from axbridge.config.urdf import Tree
from axbridge.errors import AxBridgeError, UsageError
from axbridge.motion.files import load_move
from axbridge.motion.mirror import signs
from axbridge.motion.mtn import joints_of
from axbridge.robot.robot import Robot
from axbridge.view.actions import RegisterRow, end_of_range
from axbridge.view.events import LoggedEvent
from axbridge.view.page import LivePage
from axbridge.view.poses import PoseFile, mirrored
from axbridge.view.scene import RobotScene
from axbridge.view.snapshot import Picture

_EVERY = 0.1  # s between updates of sliders and words
_HANDS = 0.7  # s in which a slider that somebody has moved is left alone
_SLOW = 0.9  # of the steps that were asked for: fewer are too slow
_START = "start pose of the rig"
_DURATIONS = 0.1, 60.0  # s of a way to a pose
_PACES = 0.1, 4.0  # of moves
_GOOD, _BAD, _IDLE = "#2b8a3e", "#c92a2a", "#b07800"


class Controls:
    """The panel of a page.

    Args:
        page: What it asks.
        scene: What it has shown.
        tree: Links of the robot; None for a rig without a URDF.
    """

    def __init__(self, page: LivePage, scene: RobotScene, tree: Tree | None) -> None:
        self._page, self._robot, self._scene, self._tree = page, page.robot, scene, tree
        self._gui = page.server.gui
        self._due = 0.0
        self._moved_at: dict[str, float] = {}
        self._read: tuple[str, Sequence[RegisterRow]] | None = None  # registers that are not shown yet
        self._poses = PoseFile(Path(f"{page.robot.name}.poses.json"))
        self._scale = {name: _unit(servo.type) for name, servo in page.robot.items()}
        self._gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(30, 96, 190))
        self._build_top()
        tabs = self._gui.add_tab_group()
        with tabs.add_tab("Drive"):
            self._build_drive()
        with tabs.add_tab("Poses"):
            self._build_poses()
        with tabs.add_tab("Servo"):
            self._build_servo()
        with tabs.add_tab("Robot"):
            self._build_robot()
        with tabs.add_tab("Events"):
            self._events = self._gui.add_html("")

    # ---- building

    def _build_top(self) -> None:
        page = self._page
        self._status = self._gui.add_html("")
        off = self._gui.add_button("ALL OFF (space)", color="red", hint="Every motor off at once, until released")
        off.on_click(lambda _: page.all_off())
        self._release = self._gui.add_button("Release", color="green", visible=False, hint="Motors may be switched on")
        self._release.on_click(lambda _: page.release())
        self._log = self._gui.add_html("")

    def _build_drive(self) -> None:
        gui, names = self._gui, list(self._robot)
        power = gui.add_button_group("torque, all", ("on", "off"))
        power.on_click(lambda event: self._power(names, on=event.target.value == "on"))
        self._duration = gui.add_number("goto takes, s", 1.0, min=_DURATIONS[0], max=_DURATIONS[1], step=0.1)
        self._speed = self._build_speed()
        self._torque = gui.add_slider("torque of all, %", 0.0, 100.0, 0.5, 100.0, hint="Of each servo's highest torque")
        self._torque.on_update(lambda event: self._limit(event, "torque limit", self._limit_torque))
        self._sliders: dict[str, Any] = {}
        self._switches: dict[str, Any] = {}
        parts = limbs(self._robot, self._tree)
        for title, members in parts.items():
            with gui.add_folder(title, expand_by_default=len(parts) < 3 or title == next(iter(parts))):
                if len(parts) > 1:
                    group = gui.add_button_group("torque", ("on", "off"))
                    group.on_click(lambda event, some=members: self._power(some, on=event.target.value == "on"))
                for name in members:
                    self._build_joint(name, title)

    def _build_speed(self) -> Any:
        """One of the sliders for the one limit of speed."""
        slider = self._gui.add_slider("speed of all, %", 1.0, 100.0, 0.5, 100.0, hint="Of each servo's highest speed")
        slider.on_update(lambda event: self._limit(event, "speed limit", self._page.actions.limit_speed))
        return slider

    def _build_joint(self, name: str, limb: str) -> None:
        servo, (scale, unit) = self._robot[name], self._scale[name]
        low, high = end_of_range(servo)
        low, high = math.ceil(10 * scale * low) / 10, math.floor(10 * scale * high) / 10  # its ends are still allowed
        label = _shorter(name, limb)
        here = servo.state.position
        at = min(max(round(scale * here, 1), low), high) if math.isfinite(here) else low
        marks = ((low, f"{low:g}{unit}"), (high, f"{high:g}{unit}"))
        slider = self._gui.add_slider(
            label, low, high, 0.1, at, marks=marks, hint=f"{name}: goal; follows while it is limp"
        )
        slider.on_update(lambda event: self._slid(name, event))
        switch = self._gui.add_checkbox("torque", initial_value=servo.torque_enabled, hint=name)
        switch.on_update(lambda event: self._switched(name, event))
        self._sliders[name], self._switches[name] = slider, switch

    def _build_poses(self) -> None:
        gui, page = self._gui, self._page
        self._pose = gui.add_dropdown("pose", (_START, *self._poses.poses))
        self._click("Go", lambda: self._go(self._chosen_pose()), hint="In the time that Drive says; switches motors on")
        self._click("Go to its mirror image", lambda: self._go(mirrored(self._chosen_pose(), signs(self._robot.rig))))
        if page.can_rise:
            self._click("Put it on its feet", page.rise, hint="The simulated robot, as by a hand")
        self._pose_name = gui.add_text("name", "")
        self._click("Save the pose of now", self._save_pose, hint=f"In {self._poses.path}")
        with gui.add_folder("Move"):
            moves = sorted(str(path) for kind in ("json", "mtn", "motion") for path in Path().glob(f"*.{kind}"))
            self._file = gui.add_text("file", next((path for path in moves if "poses" not in path), ""))
            self._pace = gui.add_number("pace", 1.0, min=_PACES[0], max=_PACES[1], step=0.1)
            self._click("Play", self._play)
            self._click("Stop", page.stop_move, hint="By its exit page, where it has one")

    def _build_servo(self) -> None:
        gui = self._gui
        names = tuple(self._robot)
        self._servo = gui.add_dropdown("servo", names)
        self._facts = gui.add_html("")
        self._speed_again = self._build_speed()
        self._own_torque = gui.add_slider("its torque, %", 0.0, 100.0, 0.5, 100.0)
        self._own_torque.on_update(lambda event: self._limit_own(event, self._servo.value))
        self._click("Let it recover", lambda: self._ask("recover", self._robot[self._chosen()].recover),
                    hint="After an overload, or when it was switched off at a limit of the rig")  # fmt: skip
        self._click("Read its registers", self._read_registers)
        self._registers: dict[str, int] = {}
        self._register = gui.add_dropdown("register", ("read them first",))
        self._counts = gui.add_text("counts", "0")
        self._click("Write", self._write_register, hint="Checked and verified, as by `axbridge servo write`")
        self._sure = self._click("Write it all the same", self._write_doubtful)
        self._sure.visible = False
        self._doubtful: tuple[str, str, int] | None = None
        self._register.on_update(lambda _: self._show_counts())
        self._table = gui.add_html("")

    def _build_robot(self) -> None:
        gui = self._gui
        self._scene.add_choices()
        if self._page.can_rise:  # a simulated robot that stands free
            touch = gui.add_checkbox("contacts", initial_value=True)
            touch.on_update(lambda event: setattr(self._scene, "show_contacts", event.target.value))
        stamp = f"{datetime.now().astimezone():%Y-%m-%d-%H%M}"
        self._recording = gui.add_text(
            "recording", f"{self._robot.name}-{stamp}.mcap", hint="The second one of this name gets a number"
        )
        self._record = self._click("Record", self._toggle_recording)
        self._line = gui.add_html("")

    def _click(self, label: str, done: Callable[[], object], hint: str | None = None) -> Any:
        """A button; what goes wrong is shown on the page."""
        button = self._gui.add_button(label, hint=hint)
        button.on_click(lambda _: self._try(done))
        return button

    def _try(self, done: Callable[[], object]) -> None:
        try:
            done()
        except AxBridgeError as error:
            self._page.tell(str(error))

    # ---- what people do

    def _ask(self, topic: str | None, request: Callable[[], Any]) -> None:
        self._page.desk.ask(topic, request)

    def _power(self, names: Sequence[str], *, on: bool) -> None:
        """No later request takes the place of this one: what is to be off goes off."""
        self._ask(None, lambda: self._page.actions.torque(names, on=on))

    def _chosen(self) -> str:
        """The servo of the tab Servo; a client of somebody's own may name any."""
        return self._robot[self._servo.value].name

    def _slid(self, name: str, event: Any) -> None:
        if event.client is None:  # by ourselves, to follow the joint
            return
        self._moved_at[name] = time.monotonic()
        goal = event.target.value / self._scale[name][0]

        def move() -> None:
            try:
                self._page.actions.move(name, goal)
            except AxBridgeError:
                self._moved_at.pop(name, None)  # it shows where the joint goes again
                raise

        self._ask(f"move {name}", move)

    def _switched(self, name: str, event: Any) -> None:
        if event.client is None:
            return
        self._moved_at[f"torque {name}"] = time.monotonic()
        self._power([name], on=event.target.value)

    def _limit(self, event: Any, topic: str, limit: Callable[[float], None]) -> None:
        """Have a limit set to the share that a slider shows."""
        if event.client is None:
            return
        share = event.target.value / 100
        self._moved_at[topic] = time.monotonic()
        self._ask(topic, lambda: limit(share))

    def _limit_torque(self, share: float) -> None:
        self._page.actions.limit_torque(self._robot, share)

    def _limit_own(self, event: Any, name: str) -> None:
        self._limit(event, f"torque limit {name}", lambda share: self._page.actions.limit_torque([name], share))

    def _chosen_pose(self) -> dict[str, float]:
        if self._pose.value == _START:
            return {servo.name: servo.position for servo in self._robot.rig.servos}
        if self._pose.value not in self._poses.poses:
            raise AxBridgeError(f"there is no pose {self._pose.value!r}")
        return self._poses.poses[self._pose.value]

    def _go(self, pose: dict[str, float]) -> None:
        duration = _within(_DURATIONS, self._duration.value, "goto takes, s")
        self._ask("way", lambda: self._page.actions.way(pose, duration))

    def _save_pose(self) -> None:
        picture = self._page.picture
        if picture is None:
            raise AxBridgeError("no step was made yet: there is no pose")
        self._poses.save(self._pose_name.value, {name: state.position for name, state in picture.states.items()})
        self._pose.options = (_START, *self._poses.poses)
        self._pose.value = self._pose_name.value.strip()
        self._page.tell(f"saved {self._pose.value} in {self._poses.path}")

    def _play(self) -> None:
        pace = _within(_PACES, self._pace.value, "pace")
        move, notes = load_move(self._file.value, joints_of(self._robot.rig))
        for note in notes:
            self._page.tell(note)
        self._page.play(Path(self._file.value).name, move, pace)

    def _read_registers(self) -> None:
        name = self._chosen()
        self._ask("registers", lambda: self._page.actions.registers(name, lambda rows: self._take(name, rows)))

    def _take(self, name: str, rows: Sequence[RegisterRow]) -> None:
        """In the step: keep what was read; the page's thread shows it."""
        self._read = name, rows

    def _write_register(self) -> None:
        name, register, text = self._chosen(), self._register.value, self._counts.value.strip()
        if register not in self._registers:
            raise AxBridgeError("no registers were read yet", "press `Read its registers`")
        if not re.fullmatch(r"-?[0-9]{1,6}", text):
            raise AxBridgeError(f"{text!r} is no whole number: nothing is written", "give counts, not units")
        value = int(text)
        doubt = self._page.actions.doubt(name, register, value)
        self._doubtful = (name, register, value) if doubt else None
        self._sure.visible = bool(doubt)
        if doubt:
            self._sure.label = f"Write {register} {value} to {name} all the same"
            raise AxBridgeError(doubt, "nothing is written yet: press the button below Write if you mean it")
        self._write(name, register, value)

    def _write_doubtful(self) -> None:
        """What somebody was asked about, and nothing else."""
        doubtful, self._doubtful = self._doubtful, None
        self._sure.visible = False
        if doubtful is not None:
            self._write(*doubtful)

    def _write(self, name: str, register: str, value: int) -> None:
        def write() -> Any:
            self._page.tell(self._page.actions.write(name, register, value))
            return self._page.actions.registers(name, lambda rows: self._take(name, rows))

        self._ask("registers", write)

    def _toggle_recording(self) -> None:
        if self._page.recording is None:
            name = Path(self._recording.value.strip()).name  # in the folder where one started, and nowhere else
            if not name:
                raise AxBridgeError("a recording needs a name", "type one in the field above")
            self._page.record(Path(name))
        else:
            self._page.stop_recording()

    def _show_counts(self) -> None:
        self._counts.value = str(self._registers.get(self._register.value, 0))

    # ---- the page's thread

    def refresh(self, picture: Picture | None) -> None:
        """Show how things are; ten times a second at most."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY
        page = self._page
        said = html.escape(page.message)
        _show(self._log, f'<div class="axbridge-said" style="{_PLAIN};{_PALE};font-size:11px;{_ROOM}">{said}</div>')
        _show(self._events, _table([(_span(line), _often(line)) for line in page.events.latest()]))
        if picture is None:
            _show(self._status, _banner(page.off or "waiting for the first step", _IDLE))
            return
        _show(self._status, self._state_of(picture, now))
        if self._release.visible != page.robot.stopped:
            self._release.visible = page.robot.stopped
        label = "Record" if page.recording is None else f"Stop recording {page.recording}"
        if self._record.label != label:
            self._record.label = label
        for name, slider in self._sliders.items():
            self._follow(name, slider, picture, now)
        _show(self._facts, self._facts_of(picture))
        _show(self._line, self._line_of(picture))
        self._show_limits(now)
        read, self._read = self._read, None
        if read is not None:
            self._show_registers(*read)

    def _follow(self, name: str, slider: Any, picture: Picture, now: float) -> None:
        goal, at = picture.goals[name], picture.states[name].position
        shown = goal if math.isfinite(goal) else at
        if now - self._moved_at.get(name, -math.inf) > _HANDS and math.isfinite(shown):
            value = min(max(round(self._scale[name][0] * shown, 1), slider.min), slider.max)
            if not abs(value - slider.value) < 0.25:  # it may be no number
                slider.value = value
        switch = self._switches[name]
        if now - self._moved_at.get(f"torque {name}", -math.inf) > _HANDS and switch.value != picture.on[name]:
            switch.value = picture.on[name]

    def _show_limits(self, now: float) -> None:
        """What holds now; of all servos: the highest."""
        torques = {name: servo.goals.torque for name, servo in self._robot.items()}
        own = self._servo.value
        for topic, slider, share in (
            ("speed limit", self._speed, self._page.actions.share),
            ("speed limit", self._speed_again, self._page.actions.share),
            ("torque limit", self._torque, max(torques.values())),
            (f"torque limit {own}", self._own_torque, torques.get(own, 0.0)),
        ):
            if now - self._moved_at.get(topic, -math.inf) > _HANDS and slider.value != _percent(share):
                slider.value = _percent(share)

    def _state_of(self, picture: Picture, now: float) -> str:
        page, robot = self._page, self._robot
        wrong = [page.off] if robot.stopped else []
        if "" in picture.lost:
            wrong.append("port lost: looking for it")
        else:
            wrong += [f"{name} {why}" for name, why in picture.lost.items()]
        stale = [f"no step for {now - picture.seen:.0f} s: what you ask for waits"] if now - picture.seen > 1.0 else []
        if wrong or stale:
            return _banner("; ".join(wrong + stale), _BAD if wrong else _IDLE)
        if picture.causes:
            return _banner("; ".join(picture.causes), _IDLE)
        doing = f" · plays {page.playing}" if page.playing else ""
        doing += " · records" if page.recording else ""
        doing += f" · {page.off}" if page.off else ""
        where = f"{robot.backend} · {picture.time:.0f} s"
        if picture.rate < _SLOW * picture.wanted:
            why = "steps are late"
            return _banner(f"{where} · {picture.rate:.0f} of {picture.wanted:.0f} steps/s: {why}{doing}", _IDLE)
        return _banner(f"{where} · {picture.rate:.0f} steps/s{doing}", _GOOD)

    def _facts_of(self, picture: Picture) -> str:
        name = self._servo.value if self._servo.value in picture.states else next(iter(picture.states))
        state, (scale, unit) = picture.states[name], self._scale[name]
        goal = picture.goals[name]
        rows = (
            ("at", f"{scale * state.position:.1f} {unit}"),
            ("goal", "limp" if not picture.on[name] else f"{scale * goal:.1f} {unit}"),
            ("turns at", f"{scale * state.velocity:.0f} {unit}/s"),
            ("load", f"{100 * state.load:.0f} %"),
            ("torque, estimated", f"{state.torque:.2f} N·m"),
            ("supply", f"{state.voltage:.1f} V"),
            ("temperature", f"{state.temperature:.0f} °C"),
            ("errors", state.errors.describe()),
        )
        return _table(rows)

    def _line_of(self, picture: Picture) -> str:
        rows = [
            ("steps", f"{picture.rate:.1f} a second"),
            ("late steps", str(picture.late)),
            ("a bus cycle takes", f"{picture.cycle:.2f} ms"),
        ]
        rows += [
            (name, f"{lost} lost, {damaged} damaged, {late} late")
            for name, (lost, damaged, late) in picture.packets.items()
            if lost or damaged or late
        ]
        return _table(rows)

    def _show_registers(self, name: str, rows: Sequence[RegisterRow]) -> None:
        self._registers = {register: counts for _, _, _, register, counts, _ in rows}
        writable = tuple(register for _, _, access, register, _, _ in rows if "w" in access.lower())
        if self._register.options != writable:
            self._register.options = writable
        self._show_counts()
        body = "".join(
            f"<tr><td>{address}</td><td>{html.escape(register)}</td><td style='text-align:right'>{counts}</td>"
            f"<td>{html.escape(units)}</td></tr>"
            for address, _, _, register, counts, units in rows
        )
        head = f"<tr><th colspan=4 style='text-align:left'>{html.escape(name)}</th></tr>"
        _show(self._table, f'<table style="{_PLAIN};font-size:11px;border-spacing:6px 1px">{head}{body}</table>')


def _show(element: Any, content: str) -> None:
    """Only what has changed goes to the browsers."""
    if element.content != content:
        element.content = content


_PLAIN = "font-family:sans-serif;font-variant-numeric:tabular-nums;padding:0 0.75em"
# Two lines, whatever is said: what is below must not slip away from under somebody's hand.
_FIXED = "box-sizing:content-box;line-height:1.4;height:2.8em;overflow:auto"
_ROOM = "box-sizing:content-box;line-height:1.4;min-height:7em;overflow-wrap:anywhere"  # likewise, for whole sentences
_PALE = "color:var(--mantine-color-dimmed)"  # readable on light and on dark pages


def _banner(text: str, colour: str) -> str:
    return (
        f'<div class="axbridge-banner" style="{_PLAIN};font-size:13px;font-weight:600;color:white;background:{colour};'
        f'border-radius:4px;margin:0.3em 0.6em;padding:0.35em 0.75em;{_FIXED}">{html.escape(text)}</div>'
    )


def _table(rows: Sequence[tuple[str, str]]) -> str:
    body = "".join(
        f"<tr><td style='{_PALE};white-space:nowrap;vertical-align:top'>{html.escape(name)}</td>"
        f"<td>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    return f'<table style="{_PLAIN};font-size:12px;border-spacing:6px 1px">{body}</table>'


def _span(line: LoggedEvent) -> str:
    """From when till when, s."""
    return f"{line.first:.0f} s" if line.last - line.first < 1 else f"{line.first:.0f} … {line.last:.0f} s"


def _often(line: LoggedEvent) -> str:
    return line.text if line.times == 1 else f"{line.text} (× {line.times})"


def _within(ends: tuple[float, float], value: float, what: str) -> float:
    """The value of a field."""
    low, high = ends
    if not low <= value <= high:
        raise UsageError(f"{what}: {value:g} is not within {low:g} .. {high:g}")
    return value


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _unit(kind: str) -> tuple[float, str]:
    """How many of the page's units are a rad or m, and the unit."""
    return (180 / math.pi, "°") if kind == "rotational" else (1000.0, " mm")


def _shorter(name: str, limb: str) -> str:
    side = limb.partition(" ")[0]
    return name.removeprefix(f"{side}_").replace("_", " ")


def limbs(robot: Robot, tree: Tree | None) -> dict[str, list[str]]:
    """Servos by limb: the chains of joints that leave the base, named by their first and last joint."""
    if tree is None:
        return {"joints": list(robot)}
    servos = {servo.joint: servo.name for servo in robot.rig.servos}
    root: list[int] = []
    chains: dict[int, list[str]] = {}
    for link, parent in enumerate(tree.parent.tolist()):
        root.append(link if parent <= 0 else root[parent])
        dof = int(tree.dof[link])
        if dof >= 0 and tree.joints[dof].name in servos:
            chains.setdefault(root[link], []).append(servos[tree.joints[dof].name])
    found = {}
    for names in chains.values():
        side = names[0].partition("_")[0]
        if len(names) > 1 and all(name.startswith(f"{side}_") for name in names):
            first, last = (names[place].removeprefix(f"{side}_").partition("_")[0] for place in (0, -1))
            found[f"{side} {first} to {last}"] = names
        else:
            found[" to ".join(dict.fromkeys((names[0], names[-1])))] = names
    left = [name for name in robot if not any(name in names for names in found.values())]
    return {**found, "others": left} if left else found
