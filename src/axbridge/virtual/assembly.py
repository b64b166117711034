"""From a rig to its mechanics and motors."""

from __future__ import annotations

from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig, ServoConfig
from axbridge.errors import RigError
from axbridge.physics.bank import BankServo, Drive, ServoBank
from axbridge.physics.engines.ideal_joints import IdealBank, IdealJoint, IdealMechanics
from axbridge.physics.mechanics import Mechanics

__all__ = ["build_bank", "model_of"]

_PENDULUM_STEP = 1 / 240  # s


def build_bank(rig: Rig, *, model: str | None = None, seed: int = 0, ideal: IdealBank | None = None) -> ServoBank:
    """The bank of a rig's Dynamixels in its PyBullet world; `ideal` are the joints that have none.

    Without a world every Dynamixel swings a pendulum of its own.

    Raises:
        RigError, ProfileError: something the rig names is wrong, or ideal joints have no world.
    """
    names = [bus.name for bus in rig.buses]
    configs = [config for config in rig.servos if config.drive == "dynamixel"]
    servos = [
        BankServo(
            config.joint,
            model_of(rig, config, model),
            config.direction,
            rig.profile_of(config).units.position,
            names.index(config.bus),
        )
        for config in configs
    ]
    free = [config.joint for config in rig.servos if config.drive == "ideal"]
    mechanics = _world(rig, configs, free)
    for config in configs:
        if mechanics.kinds[mechanics.joints.index(config.joint)] == "prismatic":
            mechanics.close()
            why = f"joint {config.joint!r} is prismatic, and a Dynamixel turns"
            hint = 'name a revolute or continuous joint, or write drive = "ideal"'
            raise RigError(rig.path, f"servo.{config.name}.joint", why, hint)
    if free:
        mechanics = IdealMechanics(
            mechanics, ideal or IdealBank([IdealJoint(c) for c in rig.servos if c.joint in free])
        )
    bank = ServoBank(
        mechanics,
        servos,
        [bus.supply_voltage for bus in rig.buses],
        supply_resistance=[bus.supply_resistance for bus in rig.buses],
        seed=seed,
    )
    for config in configs:
        row = bank.drive[bank.joints.index(config.joint)]
        row[Drive.SPRING] = config.spring_constant
        row[Drive.DAMPING] = config.damping_constant
        row[Drive.FRICTION] = config.static_friction
    return bank


def model_of(rig: Rig, config: ServoConfig, name: str | None) -> ServoModel:
    """The model called `name`; the rig's where there is none, or the firmware has no registers for its law."""
    chosen = rig.model_of(config, name)
    fits = chosen.controller.law != "compliance" or "cw_compliance_slope" in rig.profile_of(config).registers
    return chosen if fits else rig.model_of(config)


def _world(rig: Rig, configs: list[ServoConfig], free: list[str]) -> Mechanics:
    if rig.world is None and not free:
        from axbridge.physics.engines.pendulums import Pendulums

        return Pendulums(
            [config.joint for config in configs],
            time_step=_PENDULUM_STEP,
            start=[config.position for config in configs],
        )
    if rig.world is None:
        raise RigError(rig.path, "world", "this rig has no simulated world", 'add [world] urdf = "…"')
    from axbridge.physics.engines.bullet import BulletMechanics

    return BulletMechanics(
        rig.urdf_path(),
        time_step=rig.physics_step_ms / 1000,
        fixed_base=rig.world.fixed_base,
        gravity=rig.world.gravity,
        ground=rig.world.ground,
        self_collision=rig.world.self_collision,
        base_height=rig.world.base_height,
        gui=rig.world.gui,
        first=[config.joint for config in configs],
        last=free,
        start={config.joint: config.position for config in rig.servos},
        stops={config.joint: (config.min_stop, config.max_stop) for config in configs if _has_stops(config)},
        unbounded=free,
        text=rig.urdf_text(),
    )


def _has_stops(config: ServoConfig) -> bool:
    return config.min_stop < config.max_stop
