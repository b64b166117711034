"""Which buses a verb means: one on the port named by --port, or those of a rig."""

from __future__ import annotations

from axbridge.bus.handshake import Expected, ExpectedBus
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.robot.backend import ports_of


def buses_of(port: str | None, rig: str | None, baud: int) -> list[ExpectedBus]:
    """The buses meant by the options of a verb."""
    if rig is None:
        return [ExpectedBus(port or "auto", baud)]
    loaded = Rig.load(rig)
    if not loaded.dynamixels:
        raise UsageError(f"rig {loaded.name} has no Dynamixels, so there is no line", "name a port with --port")
    if port and len(loaded.buses) > 1:
        raise UsageError(f"rig {loaded.name} has {len(loaded.buses)} buses, but --port names one", "leave --port out")
    return [
        ExpectedBus(
            device,
            bus.baud,
            tuple(
                Expected(servo.name, servo.id, loaded.profile_of(servo), servo.registers)
                for servo in loaded.dynamixels
                if servo.bus == bus.name and servo.id is not None
            ),
        )
        for bus, device in zip(loaded.buses, ports_of(loaded, port), strict=True)
    ]
