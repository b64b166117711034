"""From a rig to its mechanics and motors."""

from __future__ import annotations

from axbridge.errors import RigError
from axbridge.firmware.bank import BankServo, Drive, ServoBank
from axbridge.firmware.ideal import IdealBank, IdealJoint, IdealMechanics
from axbridge.plant.mechanics import Mechanics
from axbridge.rig import Rig, ServoConfig

__all__ = ["build_bank"]


def build_bank(rig: Rig, *, model: str | None = None, seed: int = 0, ideal: IdealBank | None = None) -> ServoBank:
    """The bank of a rig's Dynamixels in its PyBullet world; `ideal` are the joints that have none.

    Raises:
        RigError, ProfileError: the rig has no world, or something it names is wrong.
    """
    from axbridge.plant.bullet import BulletMechanics

    if rig.world is None:
        raise RigError(rig.path, "world", "this rig has no simulated world", 'add [world] urdf = "…"')
    names = [bus.name for bus in rig.buses]
    configs = [config for config in rig.servos if config.drive == "dynamixel"]
    servos = [
        BankServo(
            config.joint,
            rig.model_of(config, model),
            config.direction,
            rig.profile_of(config).units.position,
            names.index(config.bus),
        )
        for config in configs
    ]
    free = [config.joint for config in rig.servos if config.drive == "ideal"]
    mechanics: Mechanics = BulletMechanics(
        rig.urdf_path(),
        time_step=rig.physics_step_ms / 1000,
        fixed_base=rig.world.fixed_base,
        gravity=rig.world.gravity,
        ground=rig.world.ground,
        self_collision=rig.world.self_collision,
        base_height=rig.world.base_height,
        first=[config.joint for config in configs],
        last=free,
        start={config.joint: config.position for config in rig.servos},
        stops={config.joint: (config.min_stop, config.max_stop) for config in configs if _has_stops(config)},
        unbounded=free,
    )
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


def _has_stops(config: ServoConfig) -> bool:
    return config.min_stop < config.max_stop
