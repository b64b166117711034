"""The tables of a rig file: bus, servo, sensor, world and settings of the robot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from axbridge.config import toml_tables

SensorKind = Literal["imu", "gps", "force-3d", "force", "bumper", "distance"]
_SHORTEST, _LONGEST = 0.01, 60_000.0  # ms; steps from 100 kHz to a minute
_ROUNDING = 1e-4  # largest relative difference between a rounded physics step and a whole rate


class BusConfig(toml_tables.TomlTable):
    """One half-duplex line."""

    name: str = "main"  # name the servos refer to
    port: str = "auto"  # device path, pyserial URL (`socket://`, `rfc2217://`), or `auto`
    baud: int = Field(default=1_000_000, gt=0, le=4_500_000)  # bits per second
    # voltage of the supply, V (simulation; real servos measure it)
    supply_voltage: float = Field(default=11.1, gt=0, le=24)
    supply_resistance: float = Field(default=0.0, ge=0)  # internal resistance of the supply, ohm (simulation)
    # simulated time of a transaction: `wire`: as on a real line; `none`: 0
    bus_timing: Literal["wire", "none"] = "wire"


class Parameter(toml_tables.TomlTable):
    """A number that the URDF names as ``${name}``; in a rig also just the number."""

    value: float  # default value
    unit: str = ""  # its unit, for messages
    min: float | None = None  # lowest allowed value
    max: float | None = None  # highest allowed value

    @model_validator(mode="before")
    @classmethod
    def _accept_number(cls, data: Any) -> Any:
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
    """The simulated world."""

    urdf: str  # robot description beside the rig file
    # `bullet`, `mujoco`, `none` (each joint alone) or `auto`: Bullet if it is installed and no joint is ideal, else
    # MuJoCo, else none
    engine: Literal["auto", "bullet", "mujoco", "none"] = "auto"
    fixed_base: bool = True  # whether the base link is bolted down
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)  # m/s²
    # physics step; default if all joints are ideal: the basic time step
    time_step_ms: float = Field(default=1000 / 240, ge=_SHORTEST, le=100)
    self_collision: bool = False  # whether the robot's links collide with each other
    ground: bool = False  # whether there is a floor at z = 0
    base_height: float = 0.0  # height of the base link's frame at the start, m
    gui: bool = False  # whether the engine shows the world in a window

    @field_validator("time_step_ms")
    @classmethod
    def _whole_rate(cls, value: float) -> float:
        """Round to a whole rate: 4.1667 ms means 1/240 s; else a 20 ms step would end up to a substep late."""
        exact = 1000 / round(1000 / value) if value < 1000 else value
        return exact if abs(value - exact) < _ROUNDING * exact else value


class RobotConfig(toml_tables.TomlTable):
    """Webots' Robot node."""

    basic_time_step_ms: float = Field(default=20.0, ge=_SHORTEST, le=_LONGEST)  # default control period
    # J now, J at most, recharge W; absent = no battery. As in Webots, recharging needs a Charger; no rig has one, so
    # the battery only discharges
    battery: tuple[float, float, float] | None = None
    cpu_consumption: float = Field(default=0.0, ge=0)  # W

    @field_validator("battery")
    @classmethod
    def _check_battery(cls, value: tuple[float, float, float] | None) -> tuple[float, float, float] | None:
        if value is not None and not (0 <= value[0] <= value[1] and value[1] > 0 and value[2] >= 0):
            raise ValueError(f"[J now, J at most, recharge W] need 0 <= now <= most and recharge >= 0: {list(value)}")
        return value


class SafetyConfig(toml_tables.TomlTable):
    """State of the motors when the program ends, fails or stops stepping, and their limits."""

    # `limp`: torque off; `hold`: stay powered where they are; `park`: go to `park`, then limp
    on_exit: Literal["limp", "hold", "park"] = "limp"
    park: dict[str, float] = {}  # position by servo name, rad
    # time without a call of `step` after which `on_exit` is applied; absent = never
    stale_command_ms: float | None = Field(default=None, gt=0, le=_LONGEST)
    # rise time of the torque limit after a servo has lost power or port, or has been missing for longer than this time
    soft_start_ms: float = Field(default=500.0, ge=0, le=_LONGEST)
    # temperature above which a servo is switched off, °C; absent = only its firmware's limit
    max_temperature: float | None = Field(default=None, gt=0, le=150)
    voltage: tuple[float, float] | None = None  # lowest and highest supply, V; outside it a servo is switched off
    # share of its torque that a joint keeps after a stall of 0.2 s; 1 = all of it; absent = the profile's value, 1 for
    # Dynamixels
    stall: float | None = Field(default=None, gt=0, le=1)

    @model_validator(mode="after")
    def _check_park(self) -> SafetyConfig:
        if self.on_exit == "park" and not self.park:
            raise ValueError('on_exit = "park" needs a pose: park = { servo = 0.0 }')
        if self.voltage is not None and not 0 <= self.voltage[0] < self.voltage[1]:
            raise toml_tables.Misfit("voltage", "these are no lowest and highest V", "write voltage = [9.0, 12.6]")
        return self


class BridgeConfig(toml_tables.TomlTable):
    """Rules of `axbridge bridge`. When its program has ended, it applies `on_exit` of `[safety]`."""

    # positions, speeds, torques, currents and duties beyond the servos' limits are clipped; without position limits the
    # joint's stops count
    limits: bool = True
    # speed limit towards a first goal that is more than 0.26 rad (15°) away, rad/s; 0 = the program's
    far_goal_speed: float = Field(default=0.785, ge=0, le=10)
    torque_on: bool = True  # a servo's goal becomes its position before its torque comes on
    # share of its torque that a servo keeps after a stall of 0.2 s; 1 = all of it; absent = that of `[safety]`, else
    # 0.3 for the X and STS series and 1 for other servos
    stall: float | None = Field(default=None, gt=0, le=1)
    # alarms are reported, and a servo outside `max_temperature` or `voltage` of `[safety]` is switched off
    alarms: bool = True
    # let EEPROM writes, ids, baud rates and factory resets pass, as `--allow-service`
    allow_service: bool = False


class ViewConfig(toml_tables.TomlTable):
    """The live page."""

    # action when the last page is closed: `go on`: none; `limp`: every motor is switched off
    on_close: Literal["go on", "limp"] = "go on"


class WebotsConfig(toml_tables.TomlTable):
    """Settings for Webots controllers."""

    # basic time step of the controllers; default: the robot's
    time_step_ms: float | None = Field(default=None, ge=_SHORTEST, le=_LONGEST)
    # device name in a controller -> servo or device of a servo: `LeftKneeS = "left_knee_sensor"`
    aliases: dict[str, str] = {}
    devices: dict[str, str] = {}  # devices that axbridge does not provide -> their Webots class: `eye = "Camera"`
    controller_args: tuple[str, ...] = ()  # default arguments of the controller
    synchronization: bool = True  # False: the simulation runs in real time, and `step` returns its lateness
    model: str = ""  # Robot.getModel()
    custom_data: str = ""  # Robot.getCustomData()
    project_path: str = ""  # Robot.getProjectPath(); default: the controller's folder


class SensorConfig(toml_tables.TomlTable):
    """A sensor of the robot, apart from its servos."""

    name: str = Field(min_length=1)  # its name in programs
    # `imu` (orientation, angular rate, acceleration), `gps` (position), `force-3d` (contact force on its link), `force`
    # (contact force on its face), `bumper` (contact of its link) or `distance` (to the floor)
    kind: SensorKind
    link: str | None = None  # link of the URDF that carries it; absent = the base link
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)  # in the link's frame, m
    # roll, pitch and yaw in the link's frame, rad; face and beam of a sensor point along its x axis
    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    # standard deviation of a simulated reading, m or N; an imu has its own noise keys
    noise: float = Field(default=0.0, ge=0)
    range: float = Field(default=1.0, gt=0)  # range of a `distance` sensor, m
    orientation_noise: float = Field(default=0.0, ge=0)  # of a simulated imu, rad
    rate_noise: float = Field(default=0.0, ge=0)  # of a simulated imu, rad/s
    rate_bias: tuple[float, float, float] = (0.0, 0.0, 0.0)  # constant error of a simulated imu about x, y and z, rad/s
    acceleration_noise: float = Field(default=0.0, ge=0)  # of a simulated imu, m/s²
    acceleration_bias: tuple[float, float, float] = (0.0, 0.0, 0.0)  # likewise, m/s²
    port: str | None = None  # of the real imu, device path or pyserial URL; absent = the real robot has no such sensor
    baud: int = Field(default=57_600, gt=0)  # of the real imu, bits per second

    @model_validator(mode="after")
    def _check_kind(self) -> SensorConfig:
        takes = {"name", "kind", "link", "position", "rotation", *_OF_KIND.get(self.kind, ("noise",))}
        for key in sorted(self.model_fields_set - takes):
            if getattr(self, key) != type(self).model_fields[key].default:  # a recording contains default values, too
                why = f"a sensor of kind {self.kind!r} has no {key}"
                raise toml_tables.Misfit(key, why, f"it has: {', '.join(sorted(takes))}")
        return self


_OF_KIND = {  # keys that a sensor may have, besides name and mounting
    "imu": (
        "orientation_noise", "rate_noise", "rate_bias", "acceleration_noise", "acceleration_bias", "port", "baud",
    ),
    "distance": ("noise", "range"),
    "bumper": (),
}  # fmt: skip
SEVEN_TURNS = 7 * math.tau  # rad; largest range in multi-turn mode; a larger angle was probably meant in degrees
ANGLES = "min_position", "max_position", "min_stop", "max_stop", "position"  # keys of a servo in rad


def meant_degrees(angle: float) -> str:
    """Return the hint for an angle that is too large, rad."""
    return f"angles are in radians: {angle:g} degrees are {math.radians(angle):.4g}"


class ServoConfig(toml_tables.TomlTable):
    """One joint and its drive. A sliding joint has m, m/s and N instead of rad, rad/s and N·m."""

    name: str = Field(min_length=1)  # its name in programs; `group::member` couples servos, as in Webots
    joint: str = Field(min_length=1)  # joint of the URDF
    # `dynamixel`, or `ideal`: a velocity-driven joint motor with a force limit, in simulation only
    drive: Literal["dynamixel", "ideal"] = "dynamixel"
    bus: str = "main"  # name of its line
    id: int | None = Field(default=None, ge=0, le=253)  # its number on that line
    # firmware profile by name, or a .toml beside the rig; default: that of the model, else ax-12a
    profile: str = "ax-12a"
    zero: int = 512  # Present Position at 0 rad, counts; default: the middle of the profile's range
    direction: Literal[1, -1] = 1  # 1, or -1 if joint and servo turn in opposite directions
    model: str = ""  # servo model of the simulation by name, or a .toml beside the rig; default: the profile's
    params: dict[str, dict[str, Any]] = {}  # single constants of the model: `{ motor = { armature = 0.004 } }`
    registers: dict[str, int] = {}  # register values to set at opening, if they differ
    min_position: float = 0.0  # lower soft limit, rad; both limits 0 = off
    max_position: float = 0.0  # upper soft limit, rad
    min_stop: float = 0.0  # lower hard stop of the joint, rad; both stops 0 = the URDF's
    max_stop: float = 0.0  # upper hard stop of the joint, rad
    # rad/s; default: the data sheet's no-load speed, for an ideal drive 10
    max_velocity: float | None = Field(default=None, gt=0)
    # N·m; default: the data sheet's stall torque, for an ideal drive 10; 0 = a passive ideal joint
    max_torque: float | None = Field(default=None, ge=0)
    acceleration: float = -1.0  # rad/s²; -1 = unlimited
    control_pid: tuple[float, float, float] = (10.0, 0.0, 0.0)  # gains of the controller "pid"
    # `firmware`: the servo's own loop; `pid`: Webots' velocity loop on the host
    controller: Literal["firmware", "pid"] = "firmware"
    multiplier: float = 1.0  # Webots' coupling factor
    consumption_factor: float = Field(default=10.0, ge=0)  # W per N·m, of ideal drives
    spring_constant: float = Field(default=0.0, ge=0)  # of the joint, N·m/rad
    damping_constant: float = Field(default=0.0, ge=0)  # of the joint, N·m·s/rad
    static_friction: float = Field(default=0.0, ge=0)  # of the joint, N·m
    # voltage of the servo's own regulator, V (simulation); absent = its bus's supply
    supply_voltage: float | None = Field(default=None, gt=0, le=24)
    position: float = 0.0  # at the start of a simulation, rad; clipped to the limits
    resolution: float = Field(default=0.0, ge=0)  # of the position sensor, rad; 0 = none
    noise: float = Field(default=0.0, ge=0)  # of the position sensor, rad

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
        if self.min_position == self.max_position != 0:
            why = f"both limits are at {self.max_position:g} rad"
            raise toml_tables.Misfit("max_position", why, "leave the joint room to move, or leave both out")
        bottom, top = self.soft_limits
        object.__setattr__(self, "position", min(max(self.position, bottom), top))  # as in Webots
        if self.min_stop != 0 and self.min_stop == self.max_stop:
            raise toml_tables.Misfit("max_stop", f"both stops are at {self.max_stop:g}", "leave the joint room to move")
        if self.min_stop < self.max_stop:
            if bottom > self.max_stop or top < self.min_stop:
                why = f"the limits {bottom:g}..{top:g} lie outside the stops {self.min_stop:g}..{self.max_stop:g}"
                raise toml_tables.Misfit("min_position", why, "let them overlap")
            if not self.min_stop <= self.position <= self.max_stop:
                why = f"{self.position:g} is outside the stops {self.min_stop:g}..{self.max_stop:g}"
                raise toml_tables.Misfit("position", why, "start between them")
        if self.drive == "ideal":
            return self
        for key in ANGLES:
            if abs(angle := getattr(self, key)) > SEVEN_TURNS:
                why = f"{angle:g} rad is {abs(angle) / math.tau:.0f} turns, more than a Dynamixel counts"
                raise toml_tables.Misfit(key, why, meant_degrees(angle))
        if self.max_torque == 0:
            raise toml_tables.Misfit("max_torque", "0 is for ideal joints", "leave it out")
        if self.id is None:
            raise toml_tables.Misfit("id", f"servo {self.name!r} needs an id", 'add it, or drive = "ideal"')
        return self

    def stops(self, low: float, high: float) -> tuple[float, float]:
        """Return the hard stops of the joint, rad: the servo's, else those of the URDF, `low` and `high`."""
        return (self.min_stop, self.max_stop) if self.min_stop < self.max_stop else (low, high)

    @property
    def soft_limits(self) -> tuple[float, float]:
        """Lowest and highest position, rad; ±inf when both are 0 (off)."""
        if self.min_position == self.max_position == 0:
            return -math.inf, math.inf
        return self.min_position, self.max_position
