"""The contract of every physics `Engine`: the motion of small robots is compared with textbook results."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.config.model import ControllerParams, FrictionParams, MotorParams, ServoModel
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import SimulationDiverged, UsageError
from axbridge.rotations import LinkPose
from axbridge.servo.columns import Command, Mode, Passive, State
from axbridge.sim.bank import BankServo, ServoBank
from axbridge.sim.engine import Engine, Scene
from axbridge.sim.engines.ideal_joints import IdealJoint
from axbridge.testing.bus_contract import kept

_G = 9.81
_STEP = 1 / 240  # s, the physics step of all scenes
_NOTHING = (0.0, 0.0, 0.0)
_VOLTS = 10.0


def check_engine(make_engine: Callable[[Scene], Engine]) -> list[str]:
    """Check every promise of the engine contract, each in worlds of its own.

    Args:
        make_engine: Builds the engine for a scene.

    Returns:
        The names of the promises kept.

    Raises:
        AssertionError: a promise was broken; the message has its name and the observed behaviour.
    """
    with tempfile.TemporaryDirectory(prefix="axbridge-") as folder:
        return kept(globals(), ("build",), lambda check: check(partial(_build, make_engine, Path(folder))))


_Build = Callable[..., closing[Engine]]


def _build(make: Callable[[Scene], Engine], folder: Path, *parts: str, **scene: Any) -> closing[Engine]:
    """Return an engine with a robot of these links and joints; `scene` are fields of `Scene`."""
    urdf = folder / "robot.urdf"
    urdf.write_text(f'<robot name="check">{"".join(parts)}</robot>')
    return closing(make(Scene(urdf, time_step=_STEP, **scene)))


class _CheckMotor(IdealJoint):
    """An ideal joint on the shaft with a fixed set-point: speed and largest torque."""

    def __init__(self, *row: float, **config: Any) -> None:
        super().__init__(ServoConfig(name="motor", joint="shaft", drive="ideal", **config))
        self._row = row[0], row[1]

    @property
    def row(self) -> tuple[float, float]:
        return self._row


def _link(name: str, mass: float, inertia: float, drop: float = 0.0, box: float = 0.0) -> str:
    """Return a link with its mass `drop` m below its frame, and with a collision box of edge `box` m at its frame."""
    moments = f'ixx="{inertia}" iyy="{inertia}" izz="{inertia}" ixy="0" ixz="0" iyz="0"'
    shape = f'<collision><geometry><box size="{box} {box} {box}"/></geometry></collision>' if box else ""
    body = f'<origin xyz="0 0 {-drop}"/><mass value="{mass}"/><inertia {moments}/>'
    return f'<link name="{name}"><inertial>{body}</inertial>{shape}</link>'


def _joint(name: str, parent: str, child: str, drop: float = 0.0, kind: str = "continuous", limit: str = "") -> str:
    """Return a joint `drop` m below its parent's frame; its axis is -y, so a positive angle swings towards x."""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0 0 {-drop}"/><axis xyz="0 -1 0"/>{limit}</joint>'
    )


_BASE = _link("base", 1.0, 1.0)
_INERTIA, _MASS, _DROP = 1e-3, 0.1, 0.06  # of the arm: about its centre of mass, kg·m²; kg; m below the shaft
_ARM = _BASE, _link("arm", _MASS, _INERTIA, _DROP), _joint("shaft", "base", "arm")
_ABOUT_SHAFT = _INERTIA + _MASS * _DROP**2
_WEIGHT = _MASS * _G * _DROP  # N·m


def _ahead(
    engine: Engine,
    seconds: float,
    torque: float | Sequence[float] = 0.0,
    damping: float = 0.0,
    armature: float = 0.0,
    friction: float = 0.0,
    backlash: float = 0.0,
) -> float:
    """Drive every joint with this torque (1 N·m at most) for `seconds`, in whole steps; return the first torque."""
    motor = MotorParams(
        resistance=1e-5, inductance=0.0, torque_constant=1e-6, gear_ratio=1.0, armature=armature, backlash=backlash,
        thermal_resistance=0.0,
    )  # fmt: skip
    none = FrictionParams(coulomb=0.0, viscous=0.0)
    model = ServoModel(name="torque", motor=motor, friction=none, controller=ControllerParams(law="pid"))
    bank = ServoBank(engine, [BankServo(joint, model, 1, 0.005, 0) for joint in engine.joints], [_VOLTS])
    bank.command[:, [Command.TORQUE, Command.TORQUE_LIMIT]] = 1.0
    bank.command[:, Command.MODE] = Mode.WHEEL_DUTY
    bank.command[:, Command.DUTY] = torque
    bank.passive[:, Passive.DAMPING], bank.passive[:, Passive.FRICTION] = damping, friction
    bank.advance((round(seconds / engine.time_step) + 0.01) * engine.time_step)
    return float(bank.state[0, State.TORQUE]) if len(bank.state) else 0.0


def _near(value: float, expected: float, within: float, what: str) -> None:
    assert abs(value - expected) <= within, f"{what} is {value:.6g}, not {expected:.6g} (within {within:g})"


def _joints_come_in_the_order_asked_for_and_start_where_they_should(build: _Build) -> None:
    limit = '<limit lower="-1" upper="2" effort="9" velocity="9"/>'
    parts = (
        _BASE, _link("a", 0.1, 1e-3), _link("b", 0.1, 1e-3), _link("c", 0.1, 1e-3),
        _joint("first", "base", "a"), _joint("second", "a", "b", kind="revolute", limit=limit),
        _joint("third", "b", "c", kind="prismatic", limit=limit),
    )  # fmt: skip
    with build(*parts, joints=["third"], start={"first": 0.5, "third": 0.1}, stops={"third": (0.0, 0.3)}) as made:
        assert made.joints == ("third", "first", "second"), f"joints are {made.joints}"
        assert made.kinds == ("prismatic", "revolute", "revolute"), f"kinds are {made.kinds}"
        assert made.limits == ((0.0, 0.3), (-math.inf, math.inf), (-1.0, 2.0)), f"limits are {made.limits}"
        positions, speeds = made.state()
        assert np.allclose(positions, (0.1, 0.5, 0.0)), f"positions are {positions}"
        assert not speeds.any(), f"speeds are {speeds}"
        assert 0 < made.time_step <= _STEP * (1 + 1e-9), f"a step of {made.time_step} s"


def _a_free_pendulum_swings_by_the_textbook_and_keeps_its_energy(build: _Build) -> None:
    with build(*_ARM, start={"shaft": 0.05}) as engine:
        period = 2 * math.pi * math.sqrt(_ABOUT_SHAFT / _WEIGHT)
        _ahead(engine, period)
        _near(float(engine.state()[0][0]), 0.05, 1e-3, "the angle after a period")
    with build(*_ARM, start={"shaft": 2.0}) as engine:
        for _ in range(5):
            _ahead(engine, 0.5)
            (angle,), (speed,) = engine.state()
            energy = 0.5 * _ABOUT_SHAFT * speed**2 - _WEIGHT * math.cos(angle)
            _near(energy, -_WEIGHT * math.cos(2.0), 0.01 * _WEIGHT, "the energy")


def _a_torque_accelerates_link_and_armature(build: _Build) -> None:
    with build(*_ARM, gravity=_NOTHING) as engine:
        _ahead(engine, 0.25, torque=0.02, armature=0.004)
        speed = 0.25 * 0.02 / (_ABOUT_SHAFT + 0.004)
        _near(float(engine.state()[1][0]), speed, 0.01 * speed, "the speed")
        _near(float(engine.state()[0][0]), speed * 0.125, 0.02 * speed * 0.125, "the angle")


def _damping_that_is_stiff_for_a_light_link_is_stable(build: _Build) -> None:
    parts = _BASE, _link("foot", 0.02, 1e-5), _joint("shaft", "base", "foot")
    with build(*parts, gravity=_NOTHING) as engine:
        _ahead(engine, 0.25, torque=1.0, damping=0.4)
        _near(float(engine.state()[1][0]), 2.5, 0.005, "the speed")


def _dry_friction_holds_up_to_its_limit(build: _Build) -> None:
    with build(*_ARM, gravity=_NOTHING) as engine:
        used = _ahead(engine, 1.0, torque=0.02, friction=0.03)
        _near(float(engine.state()[0][0]), 0.0, 1e-3, "the angle of a joint that is held")
        _near(used, 0.0, 1e-3, "what motor and friction give it")
        used = _ahead(engine, 0.1, torque=0.05, friction=0.03)
        speed = 0.1 * 0.02 / _ABOUT_SHAFT
        _near(float(engine.state()[1][0]), speed, 0.02 * speed, "the speed of one that slips")
        _near(used, 0.02, 1e-4, "what motor and friction give it")


def _a_stop_is_not_passed(build: _Build) -> None:
    with build(*_ARM, gravity=_NOTHING, stops={"shaft": (-0.5, 0.4)}) as engine:
        for torque, stop in ((0.2, 0.4), (-0.2, -0.5)):
            _ahead(engine, 0.7, torque=torque, damping=0.02, armature=0.004)
            _near(float(engine.state()[0][0]), stop, 0.02, "the angle at a stop")
            _near(float(engine.state()[1][0]), 0.0, 0.05, "the speed there")


def _the_load_is_the_torque_that_holds_a_joint(build: _Build) -> None:
    with build(*_ARM, start={"shaft": 1.0}) as engine:
        _ahead(engine, 0.05, friction=1.0)
        _near(float(engine.load()[0]), _WEIGHT * math.sin(1.0), 0.02 * _WEIGHT, "the load")


def _joints_of_a_chain_move_each_other(build: _Build) -> None:
    parts = (
        _BASE, _link("upper", 0.1, 1e-4, 0.05), _link("lower", 0.1, 1e-4, 0.05), _joint("a", "base", "upper"),
        _joint("b", "upper", "lower", drop=0.1),
    )  # fmt: skip
    with build(*parts, gravity=_NOTHING) as engine:
        _ahead(engine, 0.02, torque=(0.0, 0.01))
        inner = 1e-4 + 0.1 * 0.05**2
        couple = inner + 0.1 * 0.1 * 0.05
        matrix = np.array(((inner + 1e-4 + 0.1 * 0.15**2, couple), (couple, inner)))
        wanted = np.linalg.solve(matrix, (0.0, 0.01)) * 0.02
        speeds = engine.state()[1]
        assert np.allclose(speeds, wanted, rtol=0.05), f"speeds are {speeds}, not {wanted}"


def _a_rotor_that_meets_its_joint_shares_its_momentum(build: _Build) -> None:
    with build(*_ARM, gravity=_NOTHING) as engine:  # the motor turns alone for 60 ms, through half the play
        _ahead(engine, 0.05, torque=0.02, armature=0.004, backlash=0.018)
        _near(float(engine.state()[1][0]), 0.0, 1e-9, "the speed of the joint before that")
    with build(*_ARM, gravity=_NOTHING) as engine:
        _ahead(engine, 0.25, torque=0.02, armature=0.004, backlash=0.018)
        together = 0.25 * 0.02 / (0.004 + _ABOUT_SHAFT)
        _near(float(engine.state()[1][0]), together, 0.01 * together, "the speed of both")


def _a_base_that_stands_free_falls_turns_and_can_be_placed(build: _Build) -> None:
    heavy = _link("base", 1.0, 1.0, drop=0.2), *_ARM[1:]
    with build(*heavy, fixed_base=False, base_height=2.0) as engine:
        _ahead(engine, 0.25)
        pose, moved = engine.base(), engine.motion("base")
        assert pose is not None, "a base that stands free has a pose"
        _near(pose[0][2], 1.8 - 0.5 * _G * 0.25**2, 0.02, "its height after a fall of 0.25 s")
        _near(moved.place[2], 2.0 - 0.5 * _G * moved.time**2, 0.02, "the height of its frame")
        _near(moved.speed[2], -_G * moved.time, 0.02, "its speed")
        there: LinkPose = (0.1, 0.2, 3.0), (0.0, math.sin(0.3), 0.0, math.cos(0.3))
        engine.place_base(there)
        base = engine.base()
        assert base is not None, "the base is still there"
        for part, wanted in zip(base, there, strict=True):
            assert np.allclose(part, wanted, atol=1e-6), f"placed at {there}, found at {base}"
    ball = _link("base", 0.1, _ABOUT_SHAFT), _link("arm", 0.1, _ABOUT_SHAFT), _joint("shaft", "base", "arm")
    with build(*ball, fixed_base=False, base_height=2.0, gravity=_NOTHING) as engine:
        _ahead(engine, 0.25, torque=0.01)
        pose = engine.base()
        assert pose is not None, "a base that stands free has a pose"
        angle = float(engine.state()[0][0])
        _near(2 * math.asin(pose[1][1]), angle / 2, 0.02 * angle, "how far the base turned against its joint")


def _a_joint_can_be_put_somewhere_at_rest_and_the_others_stay(build: _Build) -> None:
    parts = (*_ARM, _link("hand", 0.05, 1e-4, 0.02), _joint("wrist", "arm", "hand", 2 * _DROP))
    with build(*parts, joints=("shaft", "wrist"), start={"shaft": 0.4, "wrist": -0.3}) as engine:
        _ahead(engine, 0.1 + engine.time_step)  # to the middle of a physics step, if the engine has substeps
        before = engine.state()[0][1]
        engine.place_joint(0, 1.1)
        (shaft, wrist), (speed, _) = engine.state()
        _near(float(shaft), 1.1, 1e-9, "the angle of the joint that was put somewhere")
        _near(float(speed), 0.0, 1e-9, "its speed")
        _near(float(wrist), float(before), 1e-9, "the angle of the other one")
        _ahead(engine, _STEP)
        _near(float(engine.state()[0][0]), 1.1, 0.01, "its angle a moment later")


def _a_base_that_is_bolted_down_stays(build: _Build) -> None:
    with build(*_ARM) as engine:
        assert engine.base() is None, "a base that is bolted down has no pose of its own"
        with suppress(UsageError):
            engine.place_base(((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)))
            raise AssertionError("placing it must raise UsageError")


def _links_are_where_their_joints_have_them(build: _Build) -> None:
    parts = (
        _BASE, _link("upper", 0.1, 1e-4, 0.05), _link("lower", 0.1, 1e-4, 0.05), _joint("a", "base", "upper", drop=0.1),
        _joint("b", "upper", "lower", drop=0.2),
    )  # fmt: skip
    with build(*parts, start={"a": 0.5, "b": 0.4}, base_height=1.0, fixed_base=True) as engine:
        poses = engine.poses()
        assert set(poses) == {"base", "upper", "lower"}, f"poses of {sorted(poses)}"
        wanted = {
            "base": ((0.0, 0.0, 1.0), 0.0),
            "upper": ((0.0, 0.0, 0.9), 0.5),
            "lower": ((0.2 * math.sin(0.5), 0.0, 0.9 - 0.2 * math.cos(0.5)), 0.9),
        }
        for name, (place, angle) in wanted.items():
            assert np.allclose(poses[name][0], place, atol=1e-5), f"{name} is at {poses[name][0]}, not at {place}"
            turned = -math.sin(angle / 2), math.cos(angle / 2)
            got = poses[name][1][1], poses[name][1][3]
            same = np.allclose(got, turned, atol=1e-5) or np.allclose(got, (-turned[0], -turned[1]), atol=1e-5)
            assert same, f"{name} is turned {poses[name][1]}"


def _the_motion_of_a_link_is_reported(build: _Build) -> None:
    with build(*_ARM, gravity=_NOTHING, start={"shaft": 0.5}) as engine:
        _ahead(engine, 0.25, torque=0.02)
        moved = engine.motion("arm")
        speed = moved.time * 0.02 / _ABOUT_SHAFT
        assert 0.25 - _STEP <= moved.time <= 0.25 + 1e-9, f"after 0.25 s the link's motion is of {moved.time} s"
        assert np.allclose(moved.spin, (0.0, -speed, 0.0), atol=0.01 * speed), f"it turns at {moved.spin}, not {speed}"
        assert np.allclose(moved.speed, 0.0, atol=1e-6), f"on its own axis a link moves at {moved.speed}"
        assert np.allclose(moved.place, engine.poses()["arm"][0], atol=1e-5), f"it is at {moved.place}"
        still = engine.motion("base")
        assert not any((*still.speed, *still.spin)), f"a base that is bolted down moves: {still}"
        with suppress(UsageError):
            engine.motion("tail")
            raise AssertionError("a link that is not there must raise UsageError")


def _the_floor_carries_what_stands_on_it_by_weight_and_friction(build: _Build) -> None:
    box = _link("base", 1.0, 2e-3, box=0.1), _link("arm", 0.1, 1e-4, 0.0), _joint("shaft", "base", "arm")
    slope = 1.0, 0.5, -_G  # m/s²; friction must hold the body
    with build(*box, fixed_base=False, ground=True, base_height=0.051, gravity=slope) as engine:
        assert engine.contacts() == [], "nothing touches before the first step"
        pushes, places = [], []
        for _ in range(10):
            _ahead(engine, 0.1, friction=0.01)
            pushes.append(np.sum([contact.force for contact in engine.contacts()], axis=0))
            places.append(engine.motion("base").place)
        push = np.mean(pushes[5:], axis=0)
        assert np.allclose(push, -1.1 * np.array(slope), atol=0.1), f"weight and slope push back with {push} N"
        _near(places[-1][2], 0.05, 1.5e-3, "the height of the box")
        assert np.allclose(places[5], places[-1], atol=1e-4), f"it went from {places[5]} to {places[-1]}"
        contacts = engine.contacts()
        assert {contact.link for contact in contacts} == {"base"}, f"these touch: {contacts}"
        points = np.array([contact.point for contact in contacts])
        assert np.all(np.abs(points[:, 2]) < 2e-3), f"they touch at {points}"
        pressed = np.array([contact.force[2] for contact in contacts])
        middle = np.array(places[-1])[:2] + 0.05 * np.array(slope[:2]) / _G
        centre = pressed @ points[:, :2] / pressed.sum()
        assert np.allclose(centre, middle, atol=2e-3), f"the push acts at {centre}, not at {middle}"
    with build(*box, fixed_base=False, ground=True, base_height=1.0) as engine:
        _ahead(engine, 0.1)
        assert engine.contacts() == [], "nothing touches in the air"


def _ideal_motors_hold_speeds_and_springs_pull_or_are_refused(build: _Build) -> None:
    fast = _CheckMotor(2.0, 1.0)
    try:
        made = build(*_ARM, ideal=[fast])
    except UsageError:
        return
    with made as engine:
        assert engine.joints == (), "an ideal joint is in no array"
        _ahead(engine, 0.25)
        _near(fast.speed, 2.0, 1e-3, "the speed of the motor")
        _near(fast.position, 0.5, 0.02, "its angle")
        _near(fast.torque, _WEIGHT * math.sin(fast.position), 0.05 * _WEIGHT, "its torque")
    weak = _CheckMotor(2.0, 0.01)
    with build(*_ARM, ideal=[weak], gravity=_NOTHING) as engine:
        _ahead(engine, 0.1)
        _near(weak.speed, 0.1 * 0.01 / _ABOUT_SHAFT, 0.02, "the speed of a motor at its limit")
    spring = _CheckMotor(0.0, 0.0, spring_constant=0.5, damping_constant=0.05)
    with build(*_ARM, ideal=[spring], start={"shaft": 1.0}, gravity=_NOTHING) as engine:
        _ahead(engine, 3.0)
        _near(spring.position, 0.0, 1e-3, "the angle that a damped spring comes to")


def _the_same_calls_give_the_same_bits(build: _Build) -> None:
    box = _link("base", 1.0, 2e-3, box=0.1), _link("arm", 0.1, 1e-4, 0.1, box=0.02), _joint("shaft", "base", "arm")
    ends = []
    for _ in range(2):
        with build(*box, fixed_base=False, ground=True, base_height=0.2, start={"shaft": 0.3}) as engine:
            _ahead(engine, 0.5, torque=0.05, damping=0.05, armature=0.001)
            ends.append((engine.state()[0].tobytes(), engine.state()[1].tobytes(), engine.base()))
    assert ends[0] == ends[1], "two runs of the same world differ"


def _worlds_are_independent(build: _Build) -> None:
    with build(*_ARM, start={"shaft": 1.0}) as first, build(*_ARM) as second:
        held = first.state()[0]
        _ahead(second, 0.05, torque=0.1)
        assert np.array_equal(first.state()[0], held), "one world moved with another"
        _ahead(first, 0.05)
        assert held[0] == 1.0, "figures that were handed out change later"
        first.close()
        first.close()
        _ahead(second, 0.05)


def _a_motion_that_diverges_is_an_error_that_names_a_joint(build: _Build) -> None:
    with build(*_ARM) as engine:
        try:
            _ahead(engine, 0.1, torque=math.nan)
        except SimulationDiverged as failure:
            assert failure.joint == "shaft", f"it names {failure.joint}"
            return
        raise AssertionError("a torque that is no number must raise SimulationDiverged")
