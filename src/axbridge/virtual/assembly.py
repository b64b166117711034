"""Build the engine and the motors of a rig."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import RigError, RigWarning
from axbridge.servo.columns import Passive, pack
from axbridge.servo.steady import SteadyServo
from axbridge.sim.bank import BankServo, ServoBank
from axbridge.sim.engine import Engine, Scene
from axbridge.sim.engines.choice import build_engine
from axbridge.sim.engines.ideal_joints import IdealJoint

_PENDULUM_STEP = 1 / 240  # s


def build_bank(rig: Rig, *, seed: int = 0, ideal: Iterable[IdealJoint] | None = None) -> ServoBank:
    """Build the motor bank of a rig's Dynamixel servos in its world.

    `ideal` are the joints with an ideal drive; by default those of the rig.
    """
    names = [bus.name for bus in rig.buses]
    configs = rig.dynamixels
    regulated = [config.name for config in configs if config.supply_voltage is not None]
    servos = [
        BankServo(
            config.joint,
            rig.specs[config.name].model,
            config.direction,
            rig.specs[config.name].profile.units.position,
            len(names) + regulated.index(config.name) if config.name in regulated else names.index(config.bus),
        )
        for config in configs
    ]
    if ideal is None:
        ideal = [IdealJoint(config) for config in rig.servos if config.drive == "ideal"]
    engine = _build_rig_engine(rig, configs, list(ideal))
    for config in configs:
        if engine.kinds[engine.joints.index(config.joint)] == "prismatic":
            engine.close()
            why = f"joint {config.joint!r} is prismatic, and a Dynamixel turns"
            hint = 'name a revolute or continuous joint, or write drive = "ideal"'
            raise RigError(rig.path, f"servo.{config.name}.joint", why, hint)
    bank = ServoBank(
        engine,
        servos,
        [bus.supply_voltage for bus in rig.buses] + [rig.specs[s.name].supply for s in configs if s.name in regulated],
        supply_resistance=[bus.supply_resistance for bus in rig.buses] + [0.0] * len(regulated),
        seed=seed,
    )
    for config in configs:
        row = bank.passive[bank.joints.index(config.joint)]
        row[Passive.SPRING] = config.spring_constant
        row[Passive.DAMPING] += config.damping_constant
        row[Passive.FRICTION] += config.static_friction
    _warn_of_weak_motors(bank, rig, configs, servos)
    return bank


def _warn_of_weak_motors(bank: ServoBank, rig: Rig, configs: Sequence[ServoConfig], servos: list[BankServo]) -> None:
    """Warn about servos that cannot move, or cannot hold their load at the start."""
    loads = bank.engine.load()
    for config, servo in zip(configs, servos, strict=True):
        joint = bank.joints.index(config.joint)
        motor = SteadyServo.of(pack(servo.model, servo.count))
        volts, passive = float(bank.supply[servo.supply]), float(bank.passive[joint, Passive.FRICTION])
        stall, held = motor.drive(1.0, volts, 0.0), motor.holding_torque(1.0, volts) + passive
        where = f"{rig.path}: servo {config.name!r}"
        if motor.torque(1.0, volts, 0.0) <= passive:
            text = f"{where}: dry friction takes all of its stall torque of {stall:.3g} N·m"
            warnings.warn(f"{text}: it will not move", RigWarning, stacklevel=4)
        elif abs(loads[joint]) > held:
            text = f"{where} carries {abs(loads[joint]):.3g} N·m at the start, and holds {held:.3g} N·m"
            warnings.warn(f"{text} at most: it will sink", RigWarning, stacklevel=4)


def _build_rig_engine(rig: Rig, configs: Sequence[ServoConfig], ideal: list[IdealJoint]) -> Engine:
    """Build the engine of the rig's world; without a world, each Dynamixel drives its own pendulum."""
    if rig.world is not None:
        return build_engine(rig.world.engine, Scene.of(rig, ideal))
    if ideal:
        raise RigError(rig.path, "world", "this rig has no simulated world", 'add [world] urdf = "…"')
    from axbridge.sim.engines.pendulums import Pendulums

    start = [config.position for config in configs]
    return Pendulums([config.joint for config in configs], time_step=_PENDULUM_STEP, start=start)
