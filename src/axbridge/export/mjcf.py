"""Export of a rig as MJCF, MuJoCo's file format, with a DC motor, gear and position loop at each servo's joint.

MuJoCo's `dcmotor` has one constant for torque and back-EMF. The efficiency η of the gear therefore becomes a larger
resistance: torque = η·K·(U - K·ω)/R is K·(U - K·ω)/(R/η). Its controller computes a torque and adds the back-EMF to the
voltage; the gains below subtract it again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree as ET

from axbridge.comparison.recorded_runs import settings_of
from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig, ServoSpec
from axbridge.config.rig_tables import ServoConfig
from axbridge.config.urdf import DUMMY_INERTIA, DUMMY_MASS, with_checked_meshes
from axbridge.errors import UnsupportedOperation, install, require
from axbridge.servo.columns import Command
from axbridge.servo.position_laws import motor_duty
from axbridge.sim.engine import Scene, arrange, substeps
from axbridge.sim.engines.ideal_joints import IdealJoint

LIMP_GROUP = 1  # group of every servo's actuator: `model.opt.disableactuator = 1 << 1` switches all of them off
_NEEDED = (3, 12)  # earlier versions have another controller in dcmotor
_FLOOR = 1  # contact bits
_LINKS = 2
_STIFF = 0.004  # s; time constant of contacts, stops and dry friction; with MuJoCo's default of 0.02 joints creep
_HARD = [0.99, 0.999, 0.001, 0.5, 2.0]


def _mujoco_module() -> Any:
    """Import MuJoCo; UnsupportedOperation if it is missing or too old."""
    require("an MJCF file", "mujoco")
    import mujoco

    if tuple(int(part) for part in mujoco.__version__.split(".")[:2]) < _NEEDED:
        raise UnsupportedOperation(f"this needs MuJoCo 3.12, here is {mujoco.__version__}", install("mujoco"))
    return mujoco


def to_mjcf(rig: Rig, note: str = "") -> str:
    """Return the rig as an MJCF document; `note` becomes a comment at its begin."""
    mujoco = _mujoco_module()
    scene = Scene.of(rig, [IdealJoint(servo) for servo in rig.servos if servo.drive == "ideal"])
    arrangement = arrange(scene)
    spec = _read(mujoco, rig, with_checked_meshes(scene.urdf, scene.text) or rig.urdf_text())
    spec.modelname = rig.name
    spec.option.gravity = list(scene.gravity)
    spec.option.timestep = substeps(scene.time_step)[1]
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 20  # with the default, standing feet creep
    for name in arrangement.tree.dummies:
        body = spec.body(name)
        body.mass, body.inertia, body.ipos = DUMMY_MASS, [DUMMY_INERTIA] * 3, [0.0] * 3
        body.explicitinertial = True
    _contacts(mujoco, spec, rig, ground=scene.ground, self_collision=scene.self_collision)
    if not scene.fixed_base:
        base = spec.body(arrangement.tree.links[0])
        base.pos = [0.0, 0.0, scene.base_height]
        base.add_freejoint()
    for facts, (low, high) in zip(arrangement.joints, arrangement.limits, strict=True):
        joint = spec.joint(facts.name)
        joint.damping[0], joint.frictionloss = facts.damping, facts.friction
        joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE  # the URDF's; the motor has its own limits
        joint.actfrcrange = [0.0, 0.0]
        joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE if low < high and math.isfinite(high - low) else 0
        joint.range = [low, high] if joint.limited else [0.0, 0.0]
        joint.solref_friction = joint.solref_limit = [_STIFF, 1.0]
        joint.solimp_friction = _HARD
    for servo in rig.dynamixels:
        _drive(mujoco, spec, rig.specs[servo.name])
    with _understood(rig):
        spec.compile()
    start = dict(zip((facts.name for facts in arrangement.joints), arrangement.start, strict=True))
    _start(spec, start, rig.dynamixels, None if scene.fixed_base else scene.base_height)
    spec.compile()
    document: str = spec.to_xml()
    return document.replace("<mujoco", f"<!-- {note.replace('--', '- -')} -->\n<mujoco", 1) if note else document


def left_out(rig: Rig) -> list[str]:
    """Return the parts of the rig's servo models that MJCF does not support, in words."""
    parts: dict[str, object] = {}
    for servo in rig.dynamixels:
        model, row = rig.specs[servo.name].model, settings_of(rig.specs[servo.name], {})
        motor, sensor, loop = model.motor, model.sensor, model.controller
        blurred = motor.dead_duty > 0 or sensor.lag_ms > 0 or sensor.quantised
        of_supply = motor.max_current > 0 and motor.current_limit == "supply"
        slowed = servo.max_velocity or row[Command.SPEED] or row[Command.ACCELERATION]
        straight = "margin, punch, dead duty, lag and quantised readings of the loop (one straight line instead)"
        here = {
            straight: loop.law == "compliance",
            "dead duty, lag and quantised readings of the loop": loop.law == "pid" and blurred,
            "resistance that grows with the duty (that of full duty instead)": motor.resistance_per_duty,
            "resistance that grows with the temperature": motor.resistance_per_kelvin,
            "friction beyond Coulomb and viscous": model.friction.law != "M1",
            "backlash": motor.backlash,
            "a motor that pushes harder one way": motor.asymmetry,
            "limits of the current and its growth": motor.current_step or of_supply,
            "sampled control and a filtered speed": loop.period_ms or loop.speed_filter < 1,
            "limits of speed and acceleration to a goal (send goals that move no faster)": slowed,
            "inductance of the winding": motor.inductance,
            "an offset of the sensor": sensor.angle_offset,
            "noise of the readings": sensor.position_noise and loop.law != "compliance",
        }
        parts |= {words: True for words, there in here.items() if there}
    parts["a supply that sags under load"] = any(bus.supply_resistance > 0 for bus in rig.buses)
    parts["ideal joints (Webots' motors): they have no actuator"] = rig.dynamixels != rig.servos
    return [words for words, there in parts.items() if there]


def _read(mujoco: Any, rig: Rig, text: str) -> Any:
    root = ET.fromstring(text)  # noqa: S314 - the user's own file, read before
    settings = {"discardvisual": "false", "fusestatic": "false", "balanceinertia": "false", "strippath": "false"}
    if root.find(".//mesh") is not None:
        settings["meshdir"] = str(rig.urdf_path().resolve().parent)
    ET.SubElement(ET.SubElement(root, "mujoco"), "compiler", settings)
    for inertia in root.iter("inertia"):  # MuJoCo needs all six moments
        inertia.attrib.update({key: inertia.get(key, "0") for key in ("ixy", "ixz", "iyz")})
    with _understood(rig):
        return mujoco.MjSpec.from_string(ET.tostring(root, encoding="unicode"))


@contextmanager
def _understood(rig: Rig) -> Iterator[None]:
    """Raise MuJoCo's errors as UnsupportedOperation."""
    try:
        yield
    except ValueError as failure:
        first = str(failure).splitlines()[0]
        raise UnsupportedOperation(f"MuJoCo cannot read {rig.urdf_path()}: {first}", "see its message") from failure


def _contacts(mujoco: Any, spec: Any, rig: Rig, *, ground: bool, self_collision: bool) -> None:
    """Set which geoms collide, and the links' friction by their URDF, as on a floor with friction 1."""
    rough = {shape.link: shape.friction for shape in rig.shapes("collision")}
    for body in spec.bodies:
        for geom in body.geoms:
            if geom.contype or geom.conaffinity:  # the others are visual only
                geom.contype = _LINKS
                geom.conaffinity = _FLOOR | _LINKS if self_collision else _FLOOR
                geom.friction[0] = rough.get(body.name, 0.5)
                geom.priority = 1  # else MuJoCo uses the larger friction of a pair
                geom.solref = [_STIFF, 1.0]
                geom.solimp = [0.95, 0.99, 0.0005, 0.5, 2.0]
    if ground:
        spec.worldbody.add_geom(
            name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.1], contype=_FLOOR, conaffinity=_LINKS,
            rgba=[0.8, 0.8, 0.8, 1.0],
        )  # fmt: skip
        spec.worldbody.add_light(pos=[0.0, -1.0, 2.0], dir=[0.0, 0.5, -1.0])


def _drive(mujoco: Any, spec: Any, resolved: ServoSpec) -> None:
    """Add motor, gear, friction and loop of one servo to its joint."""
    servo, model, units, supply = resolved.config, resolved.model, resolved.profile.units, resolved.supply
    motor, friction = model.motor, model.friction
    row = settings_of(resolved, {})
    k_theta, k_integral, k_omega = _gains(model, row, units.position, supply)
    most_volts = float(motor_duty(min(row[Command.TORQUE_LIMIT], 1.0), motor.dead_duty)) * supply
    joint = spec.joint(servo.joint)
    joint.armature = motor.armature
    joint.damping[0] += friction.viscous + servo.damping_constant
    joint.frictionloss += friction.coulomb + friction.output + servo.static_friction
    joint.stiffness[0] = servo.spring_constant
    # a resistance that grows with the duty is that of full duty, which fits an AX-12's step best
    constant, resistance = motor.output_constant, (motor.resistance + motor.resistance_per_duty) / motor.efficiency
    torque = constant / resistance  # N·m per V
    most = motor.max_current * motor.efficiency if motor.current_limit == "motor" else 0.0  # for R/η
    actuator = spec.add_actuator(name=servo.name, target=servo.joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    actuator.set_to_dcmotor(
        motorconst=[constant, constant],
        resistance=resistance,
        saturation=[0.0, most, 0.0],
        controller=[torque * k_theta, torque * k_integral, torque * (constant + k_omega), 0.0, 0.0, most_volts],
        ctrlspec=int(mujoco.mjtCtrlInput.mjINPUT_POS),
    )  # fmt: skip
    actuator.group = LIMP_GROUP
    actuator.ctrllimited = mujoco.mjtLimited.mjLIMITED_TRUE
    (low, high), (lowest, highest) = servo.soft_limits, resolved.calibration.range
    actuator.ctrlrange = [max(low, lowest), min(high, highest)]
    delay = model.sensor.latency_ms / 1000
    if delay > 0:
        actuator.delay = max(delay, spec.option.timestep)
        actuator.nsample = math.ceil(actuator.delay / spec.option.timestep) + 1


def _gains(model: ServoModel, row: Sequence[float], count: float, supply: float) -> tuple[float, float, float]:
    """Return the gains of the linear law nearest to a servo's: volts = kθ·error + ki·∫error - kω·speed, in V, rad, s.

    Compliance control reaches full duty at the end of margin and slope; so does the line through the origin.
    """
    law = model.controller
    if law.law == "state_feedback":
        return law.k_theta, 0.0, law.k_omega
    if law.law == "compliance":
        slope = law.slope or 0.5 * (row[Command.SLOPE_CW] + row[Command.SLOPE_CCW])
        margin = 0.5 * (row[Command.MARGIN_CW] + row[Command.MARGIN_CCW])
        return supply / (margin + slope), 0.0, 0.0
    gains = Command.P_GAIN, Command.I_GAIN, Command.D_GAIN
    p, i, d = (row[gain] * supply / count for gain in gains)
    return law.p_duty * p, law.i_duty * i, law.d_duty * d


def _start(spec: Any, start: dict[str, float], driven: Sequence[ServoConfig], height: float | None) -> None:
    """Add the rig's start pose as a key frame, with goals that hold it."""
    place = [] if height is None else [0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0]
    joints = (joint for body in spec.bodies for joint in body.joints)  # in the order of positions
    hinges = (start[joint.name] for joint in joints if joint.name and joint.type != 0)  # without the base
    key = spec.add_key(name="start")
    key.qpos = [*place, *hinges]
    key.ctrl = [servo.position for servo in driven]
