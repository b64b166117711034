"""From a rig to its mechanics and motors."""

from __future__ import annotations

from axbridge.errors import RigError
from axbridge.firmware.bank import BankServo, ServoBank
from axbridge.firmware.ideal import IdealBank, IdealJoint, IdealMechanics
from axbridge.plant.mechanics import Mechanics
from axbridge.rig import Rig

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
        [config.joint for config in configs] + free,
        time_step=rig.physics_step_ms / 1000,
        gravity=rig.world.gravity,
        start={config.joint: config.position for config in rig.servos},
        unbounded=free,
    )
    if free:
        mechanics = IdealMechanics(
            mechanics, ideal or IdealBank([IdealJoint(c) for c in rig.servos if c.joint in free])
        )
    return ServoBank(mechanics, servos, [bus.supply_voltage for bus in rig.buses], seed=seed)
