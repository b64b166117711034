"""The tables of a rig file: a bus, a servo, a sensor, the world, and what else is said of a robot once.

Angles are rad, lengths m, torques N·m, times in the unit the key says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from axbridge.config import toml_tables

SensorKind = Literal["imu", "gps", "force-3d", "force", "bumper", "distance"]
_SHORTEST, _LONGEST = 0.01, 60_000.0  # ms, of a step: 100 kHz to a minute
_ROUNDING = 1e-4  # share by which a physics step differs from a whole rate where it was rounded


class BusConfig(toml_tables.TomlTable):
    """One half-duplex line.

    Attributes:
        name: Name the servos refer to.
        port: Device path, pyserial URL (``socket://``, ``rfc2217://``), or ``auto``.
        baud: Bits per second.
        supply_voltage: Voltage of the supply, V (simulation; real servos measure it).
        supply_resistance: Internal resistance of the supply, ohm (simulation).
        bus_timing: ``wire``: a transaction takes its time in the simulation, too; ``none``: it takes none.
    """

    name: str = "main"
    port: str = "auto"
    baud: int = Field(default=1_000_000, gt=0, le=4_500_000)
    supply_voltage: float = Field(default=11.1, gt=0, le=24)
    supply_resistance: float = Field(default=0.0, ge=0)
    bus_timing: Literal["wire", "none"] = "wire"


class Parameter(toml_tables.TomlTable):
    """A number that the URDF names as ``${name}``; in a rig also just the number.

    Attributes:
        value: What it is, unless somebody says otherwise.
        unit: Its unit, for messages.
        min: Lowest that makes sense.
        max: Highest.
    """

    value: float
    unit: str = ""
    min: float | None = None
    max: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _take_number(cls, data: Any) -> Any:
        return data if isinstance(data, Mapping) else {"value": data}

    @model_validator(mode="after")
    def _check_range(self) -> Parameter:
        low = -math.inf if self.min is None else self.min
        high = math.inf if self.max is None else self.max
        if not low <= self.value <= high:
            why = f"{self.value:g} is outside {low:g}..{high:g} {self.unit}".rstrip()
            raise toml_tables.Misfit("value", why, "correct it")
        return self


class WorldConfig(toml_tables.TomlTable):
    """The simulated world.

    Attributes:
        urdf: Robot description beside the rig file.
        engine: ``bullet``, ``mujoco``, or ``auto``: Bullet where it is installed and no joint is ideal, else MuJoCo.
        fixed_base: Whether the base link is bolted down.
        gravity: m/s².
        time_step_ms: Physics step. A rig of ideal joints alone takes its basic time step when this is left out.
        self_collision: Whether the robot's links collide with each other.
        ground: Whether there is a floor at z = 0.
        base_height: Height of the base link's frame at the start, m.
        gui: Whether the engine shows the world in a window.
    """

    urdf: str
    engine: Literal["auto", "bullet", "mujoco"] = "auto"
    fixed_base: bool = True
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    time_step_ms: float = Field(default=1000 / 240, ge=_SHORTEST, le=100)
    self_collision: bool = False
    ground: bool = False
    base_height: float = 0.0
    gui: bool = False

    @field_validator("time_step_ms")
    @classmethod
    def _whole_rate(cls, value: float) -> float:
        """4.1667 means 1/240 s: taken as it is written, steps of 20 ms would end up to a substep after the motors."""
        exact = 1000 / round(1000 / value) if value < 1000 else value
        return exact if abs(value - exact) < _ROUNDING * exact else value


class RobotConfig(toml_tables.TomlTable):
    """Webots' Robot node.

    Attributes:
        basic_time_step_ms: Default control period.
        battery: J now, J at most, recharge W; absent = no battery. As in Webots, the recharge needs a Charger: no rig
            has one, so that a battery only empties.
        cpu_consumption: W.
    """

    basic_time_step_ms: float = Field(default=20.0, ge=_SHORTEST, le=_LONGEST)
    battery: tuple[float, float, float] | None = None
    cpu_consumption: float = Field(default=0.0, ge=0)

    @field_validator("battery")
    @classmethod
    def _check_battery(cls, value: tuple[float, float, float] | None) -> tuple[float, float, float] | None:
        if value is not None and not (0 <= value[0] <= value[1] and value[1] > 0 and value[2] >= 0):
            raise ValueError(f"[J now, J at most, recharge W] need 0 <= now <= most and recharge >= 0: {list(value)}")
        return value


class SafetyConfig(toml_tables.TomlTable):
    """What happens to the motors when the program ends, fails or falls silent, and what they are spared.

    Attributes:
        on_exit: ``limp``: torque off; ``hold``: stay powered where they are; ``park``: go to `park`, then limp.
        park: Position by servo name, rad.
        stale_command_ms: Apply `on_exit` when the controller has not called `step` for so long; absent = never.
        soft_start_ms: Time the torque limit takes to rise when a servo comes back after a loss of power or port,
            or after more than this time.
        max_temperature: A servo hotter than this, °C, is switched off; absent = its firmware's own limit alone.
        voltage: Lowest and highest supply, V, likewise.
        stall: Share of its torque that a joint is left when it pushes hard for 0.2 s and does not move; 1 = all of it;
            absent = as its profile says, 1 for Dynamixels.
    """

    on_exit: Literal["limp", "hold", "park"] = "limp"
    park: dict[str, float] = {}
    stale_command_ms: float | None = Field(default=None, gt=0, le=_LONGEST)
    soft_start_ms: float = Field(default=500.0, ge=0, le=_LONGEST)
    max_temperature: float | None = Field(default=None, gt=0)
    voltage: tuple[float, float] | None = None
    stall: float | None = Field(default=None, gt=0, le=1)

    @model_validator(mode="after")
    def _check_park(self) -> SafetyConfig:
        if self.on_exit == "park" and not self.park:
            raise ValueError('on_exit = "park" needs a pose: park = { servo = 0.0 }')
        return self


class ViewConfig(toml_tables.TomlTable):
    """The live page.

    Attributes:
        on_close: When the last page is closed: ``go on``: nothing happens; ``limp``: every motor is switched off.
    """

    on_close: Literal["go on", "limp"] = "go on"


class WebotsConfig(toml_tables.TomlTable):
    """What Webots controllers see beside the servos.

    Attributes:
        time_step_ms: Basic time step that they read; by default the robot's.
        aliases: Device name in a controller -> servo, or one of its devices: ``LeftKneeS = "left_knee_sensor"``.
        devices: Names of devices that no backend has -> their Webots class: ``eye = "Camera"``.
        controller_args: Arguments of the controller, when the command line gives none.
        synchronization: False: the simulation is paced by the wall clock, and `step` tells how late it was.
        model: Robot.getModel().
        custom_data: Robot.getCustomData().
        project_path: Robot.getProjectPath(); by default the controller's folder.
    """

    time_step_ms: float | None = Field(default=None, ge=_SHORTEST, le=_LONGEST)
    aliases: dict[str, str] = {}
    devices: dict[str, str] = {}
    controller_args: tuple[str, ...] = ()
    synchronization: bool = True
    model: str = ""
    custom_data: str = ""
    project_path: str = ""


class SensorConfig(toml_tables.TomlTable):
    """Something that the robot senses with, beside its servos.

    Attributes:
        name: What programs call it.
        kind: `imu` (how it is turned, turns and is pushed), `gps` (where it is), `force-3d` (what pushes its link),
            `force` (what presses on its face), `bumper` (whether anything touches its link) or `distance` (to the
            floor).
        link: Of the URDF, that it sits on; absent = the base link.
        position: In the link's frame, m.
        rotation: Roll, pitch and yaw in the link's frame, rad; face and beam of a sensor look along its x axis.
        noise: Standard deviation of a simulated reading, m or N; an imu's has names of its own.
        range: How far a `distance` sees, m.
        orientation_noise: Of a simulated imu, rad.
        rate_noise: Of a simulated imu, rad/s.
        rate_bias: What a simulated imu always adds to x, y and z, rad/s.
        acceleration_noise: Of a simulated imu, m/s².
        acceleration_bias: Likewise, m/s².
        port: Of the real imu, device path or pyserial URL; absent = the real robot has no such sensor.
        baud: Of the real imu, bits per second.
    """

    name: str = Field(min_length=1)
    kind: SensorKind
    link: str | None = None
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    noise: float = Field(default=0.0, ge=0)
    range: float = Field(default=1.0, gt=0)
    orientation_noise: float = Field(default=0.0, ge=0)
    rate_noise: float = Field(default=0.0, ge=0)
    rate_bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    acceleration_noise: float = Field(default=0.0, ge=0)
    acceleration_bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    port: str | None = None
    baud: int = Field(default=57_600, gt=0)

    @model_validator(mode="after")
    def _check_kind(self) -> SensorConfig:
        takes = {"name", "kind", "link", "position", "rotation", *_OF_KIND.get(self.kind, ("noise",))}
        other = {
            key for key in self.model_fields_set - takes if getattr(self, key) != type(self).model_fields[key].default
        }
        for key in sorted(other):  # a recording keeps the whole rig, with what is usual
            why = f"a sensor of kind {self.kind!r} has no {key}"
            raise toml_tables.Misfit(key, why, f"it has: {', '.join(sorted(takes))}")
        return self


_OF_KIND = {  # what a sensor may say beside its name and place
    "imu": (
        "orientation_noise", "rate_noise", "rate_bias", "acceleration_noise", "acceleration_bias", "port", "baud",
    ),
    "distance": ("noise", "range"),
    "bumper": (),
}  # fmt: skip
_SEVEN_TURNS = 7 * math.tau  # rad, the most that a servo counts in multi-turn mode


class ServoConfig(toml_tables.TomlTable):
    """One joint and what drives it. A sliding joint has m, m/s and N in place of rad, rad/s and N·m.

    Attributes:
        name: What programs call it; `group::member` couples servos, as in Webots.
        joint: Joint of the URDF.
        drive: `dynamixel`, or `ideal`: a velocity-driven joint motor with a force limit, in simulation only.
        bus: Name of the line it is on.
        id: Its number on that line.
        profile: Firmware profile by name, or a .toml beside the rig.
        zero: Present Position at 0 rad, counts.
        direction: 1, or -1 when the joint turns against the servo.
        model: Servo model of the simulation by name, or a .toml beside the rig.
        params: Single constants of the model: `{ motor = { armature = 0.004 } }`.
        registers: Register values that the servo should have; written when they differ.
        min_position: Lower soft limit, rad; both limits 0 = off.
        max_position: Upper soft limit, rad.
        min_stop: Lower hard stop of the joint, rad; both stops 0 = the URDF's.
        max_stop: Upper hard stop of the joint, rad.
        max_velocity: rad/s; left out: the data sheet's no-load speed, for an ideal drive 10.
        max_torque: N·m; left out: the data sheet's stall torque, for an ideal drive 10; 0 = a passive ideal joint.
        acceleration: rad/s²; -1 = unlimited.
        control_pid: Gains of the controller "pid".
        controller: `firmware`: the servo's own loop; `pid`: Webots' velocity loop on the host.
        multiplier: Webots' coupling factor.
        consumption_factor: W per N·m, of ideal drives.
        spring_constant: Of the joint, N·m/rad.
        damping_constant: Of the joint, N·m·s/rad.
        static_friction: Of the joint, N·m.
        supply_voltage: Of a regulator of its own, V (simulation); absent = its bus's.
        position: At the start of a simulation, rad.
        resolution: Of the position sensor, rad; 0 = none.
        noise: Of the position sensor, rad.
    """

    name: str = Field(min_length=1)
    joint: str = Field(min_length=1)
    drive: Literal["dynamixel", "ideal"] = "dynamixel"
    bus: str = "main"
    id: int | None = Field(default=None, ge=0, le=253)
    profile: str = "ax-12a"
    zero: int = 512
    direction: Literal[1, -1] = 1
    model: str = "lima2009"
    params: dict[str, dict[str, Any]] = {}
    registers: dict[str, int] = {}
    min_position: float = 0.0
    max_position: float = 0.0
    min_stop: float = 0.0
    max_stop: float = 0.0
    max_velocity: float | None = Field(default=None, gt=0)
    max_torque: float | None = Field(default=None, ge=0)
    acceleration: float = -1.0
    control_pid: tuple[float, float, float] = (10.0, 0.0, 0.0)
    controller: Literal["firmware", "pid"] = "firmware"
    multiplier: float = 1.0
    consumption_factor: float = Field(default=10.0, ge=0)
    spring_constant: float = Field(default=0.0, ge=0)
    damping_constant: float = Field(default=0.0, ge=0)
    static_friction: float = Field(default=0.0, ge=0)
    supply_voltage: float | None = Field(default=None, gt=0, le=24)
    position: float = 0.0
    resolution: float = Field(default=0.0, ge=0)
    noise: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _check(self) -> ServoConfig:
        if self.name.count("::") > 1:
            why = f"{self.name!r} has more than one `::`: base::member couples servos"
            raise toml_tables.Misfit("name", why, "write it once, or not at all")
        if self.acceleration < 0 and self.acceleration != -1:
            why = f"acceleration {self.acceleration} must be positive, or -1 for unlimited"
            raise toml_tables.Misfit("acceleration", why, "correct it")
        if self.control_pid[0] <= 0 or min(self.control_pid) < 0:
            why = f"P must be positive, I and D not negative: {list(self.control_pid)}"
            raise toml_tables.Misfit("control_pid", why, "correct it")
        for low, high in (("min_position", "max_position"), ("min_stop", "max_stop")):
            if getattr(self, low) > getattr(self, high):
                why = f"{low} {getattr(self, low)} is above {high} {getattr(self, high)}"
                raise toml_tables.Misfit(low, why, "exchange them, or give both")
        if self.min_stop != 0 and self.min_stop == self.max_stop:
            raise toml_tables.Misfit("max_stop", f"both stops are at {self.max_stop:g}", "leave the joint room to move")
        if self.min_stop < self.max_stop:
            if not self.min_stop <= self.position <= self.max_stop:
                why = f"{self.position:g} is outside the stops {self.min_stop:g}..{self.max_stop:g}"
                raise toml_tables.Misfit("position", why, "start between them")
            bottom, top = self.soft_limits
            if bottom > self.max_stop or top < self.min_stop:
                why = f"the limits {bottom:g}..{top:g} lie outside the stops {self.min_stop:g}..{self.max_stop:g}"
                raise toml_tables.Misfit("min_position", why, "let them overlap")
        if self.drive == "dynamixel":
            for key in ("min_position", "max_position", "min_stop", "max_stop", "position"):
                angle = getattr(self, key)
                if abs(angle) > _SEVEN_TURNS:
                    why = f"{angle:g} rad is {abs(angle) / math.tau:.0f} turns, more than a Dynamixel counts"
                    raise toml_tables.Misfit(
                        key, why, f"angles are in radians: {angle:g} degrees are {math.radians(angle):.4g}"
                    )
        if self.drive == "dynamixel" and self.max_torque == 0:
            raise toml_tables.Misfit("max_torque", "0 is for ideal joints", "leave it out")
        if self.drive == "dynamixel" and self.id is None:
            raise toml_tables.Misfit("id", f"servo {self.name!r} needs an id", 'add it, or drive = "ideal"')
        return self

    @property
    def soft_limits(self) -> tuple[float, float]:
        """Lowest and highest position, rad; ±inf when both are 0 (off)."""
        if self.min_position == self.max_position == 0:
            return -math.inf, math.inf
        return self.min_position, self.max_position
