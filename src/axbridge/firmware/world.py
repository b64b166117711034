"""A whole rig, simulated: mechanics, motors, virtual servos and lines; at the same time the clock they live by."""

from __future__ import annotations

from typing import Literal, Protocol

from axbridge.errors import RigError
from axbridge.firmware.line import Line
from axbridge.firmware.servo import Motors, VirtualServo, baud_of
from axbridge.plant.mechanics import FloatArray
from axbridge.profile import FirmwareProfile
from axbridge.rig import BusConfig, Rig, ServoConfig

__all__ = ["Bank", "World", "initial_registers"]

_WATCH = 0.02  # s between two looks of the firmware at temperature, supply and load


class Bank(Motors, Protocol):
    """The motors and joints of a rig, one row a dynamixel servo.

    Attributes:
        supply: Volts of each bus, (buses,); writable.
        time: s.
    """

    supply: FloatArray
    time: float

    def advance(self, until: float) -> None:
        """Run loops, motors and mechanics until `time >= until` (s)."""

    def close(self) -> None:
        """Release the engine."""


class World:
    """A rig come alive.

    Args:
        rig: What to build.
        model: Servo model of every servo instead of the rig's.
        seed: Of everything random.
        timing: Instead of the buses' own ``bus_timing``.
        bank: The motors, instead of those built from the rig.

    Attributes:
        rig: The rig.
        lines: Line by bus name.
        servos: Virtual servo by name.
        next_watch: When the firmware looks at its alarms next, s.

    Raises:
        RigError, ProfileError: the rig cannot be built.
    """

    def __init__(
        self,
        rig: Rig,
        *,
        model: str | None = None,
        seed: int = 0,
        timing: Literal["wire", "none"] | None = None,
        bank: Bank | None = None,
    ) -> None:
        self.rig = rig
        self.bank = _build(rig, model, seed) if bank is None else bank
        self._now = 0.0
        self.next_watch = _WATCH
        configs = [servo for servo in rig.servos if servo.drive == "dynamixel"]
        buses = {bus.name: bus for bus in rig.buses}
        self.servos = {
            config.name: VirtualServo(
                profile := rig.profile_of(config),
                self.bank,
                index,
                zero=config.zero,
                registers=initial_registers(rig, config, profile, buses[config.bus]),
            )
            for index, config in enumerate(configs)
        }
        self._rows = list(self.servos.values())
        self.lines = {
            bus.name: Line(
                [self.servos[config.name] for config in configs if config.bus == bus.name],
                baud=bus.baud,
                timing=timing or bus.bus_timing,
                seed=seed * 1000 + place,
            )
            for place, bus in enumerate(rig.buses)
        }

    def now(self) -> float:
        """Simulated seconds since the start."""
        return self._now

    def sleep_until(self, due: float) -> None:
        """Advance the simulation to `due`; the firmware looks at its alarms on the way."""
        while self.next_watch <= due:
            self._move_to(self.next_watch)
            self.next_watch += _WATCH
            for servo, state in zip(self._rows, self.bank.state.tolist(), strict=True):
                servo.monitor(state, self._now)
        self._move_to(due)

    def power_cycle(self) -> None:
        """Switch every servo off and on again: EEPROM is kept, RAM starts anew."""
        for servo in self._rows:
            servo.power_cycle(self._now)

    def close(self) -> None:
        """Release the engine; may be called twice."""
        self.bank.close()

    def _move_to(self, due: float) -> None:
        if due > self._now:
            self.bank.advance(due)
            self._now = due


def initial_registers(rig: Rig, config: ServoConfig, profile: FirmwareProfile, bus: BusConfig) -> dict[str, int]:
    """Registers of a servo of a rig that differ from the factory's: id, baud rate, and those the rig names.

    Raises:
        RigError: no such register, or a value outside its range.
    """
    assert config.id is not None  # checked by the rig
    key = f"servo.{config.name}.registers"
    for name, value in config.registers.items():
        register = profile.registers.get(name)
        if register is None:
            known = ", ".join(sorted(profile.registers))
            raise RigError(rig.path, f"{key}.{name}", f"{profile.name} has no such register", f"it has: {known}")
        if not register.minimum <= value <= register.maximum:
            raise RigError(
                rig.path,
                f"{key}.{name}",
                f"{value} is outside {register.minimum}..{register.maximum}",
                "take a value the servo would accept",
            )
    baud = min(range(255), key=lambda value: abs(baud_of(value, profile.units_name) - bus.baud))
    return {"id": config.id, "baud_rate": baud, **config.registers}


def _build(rig: Rig, model: str | None, seed: int) -> Bank:
    """Mechanics and motors of a rig."""
    from axbridge.firmware.assembly import build_bank

    return build_bank(rig, model=model, seed=seed)
