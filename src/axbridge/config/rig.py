"""A rig as data: which servo is which joint, on which bus, in which world.

`Rig.load("bench_arm")` reads ``hil_rigs/bench_arm/bench_arm.toml`` (or ``hil_rigs/bench_arm.toml``, or a path);
`Rig.load("pendulum:mass=0.2,length=0.15")` sets parameters of it. Angles are rad, lengths m, torques N·m, times in the
unit the key says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from axbridge.config import toml_tables
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.urdf_parameters import Parameter, filled, split_options
from axbridge.errors import ProfileError, RigError
from axbridge.reading import reading
from axbridge.units import baud_register

if TYPE_CHECKING:
    from axbridge.config.urdf import Shape, Tree  # numpy takes a while

__all__ = [
    "BusConfig",
    "Rig",
    "RobotConfig",
    "SafetyConfig",
    "SensorConfig",
    "ServoConfig",
    "ViewConfig",
    "WebotsConfig",
    "WorldConfig",
]

FOLDER = "hil_rigs"
SensorKind = Literal["imu", "gps", "force-3d", "force", "bumper", "distance"]
_SHORTEST, _LONGEST = 0.01, 60_000.0  # ms, of a step: 100 kHz to a minute
_ROUNDING = 1e-4  # share by which a physics step differs from a whole rate where it was rounded


class BusConfig(toml_tables.TomlTable):
    """One half-duplex line.

    Attributes:
        name: Name the servos refer to.
        port: Device path, pyserial URL (``socket://``, ``rfc2217://``), or ``auto``.
        baud: Bits per second.
        supply_voltage: Voltage of the supply, V (simulation; on copper the servos measure it).
        supply_resistance: Internal resistance of the supply, ohm (simulation).
        bus_timing: ``wire``: a transaction takes its time in the simulation, too; ``none``: it takes none.
    """

    name: str = "main"
    port: str = "auto"
    baud: int = Field(default=1_000_000, gt=0, le=4_500_000)
    supply_voltage: float = Field(default=11.1, gt=0, le=24)
    supply_resistance: float = Field(default=0.0, ge=0)
    bus_timing: Literal["wire", "none"] = "wire"


class WorldConfig(toml_tables.TomlTable):
    """The simulated world.

    Attributes:
        urdf: Robot description beside the rig file.
        engine: ``bullet``, ``mujoco``, or ``auto``: Bullet where it is installed, else MuJoCo.
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
    """

    on_exit: Literal["limp", "hold", "park"] = "limp"
    park: dict[str, float] = {}
    stale_command_ms: float | None = Field(default=None, gt=0, le=_LONGEST)
    soft_start_ms: float = Field(default=500.0, ge=0, le=_LONGEST)
    max_temperature: float | None = Field(default=None, gt=0)
    voltage: tuple[float, float] | None = None

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

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if value.count("::") > 1:
            raise ValueError(
                f"{value!r} has more than one `::`: base::member couples servos; write it once, or not at all"
            )
        return value

    @field_validator("acceleration")
    @classmethod
    def _check_acceleration(cls, value: float) -> float:
        if value < 0 and value != -1:
            raise ValueError(f"acceleration {value} must be positive, or -1 for unlimited")
        return value

    @field_validator("control_pid")
    @classmethod
    def _check_gains(cls, value: tuple[float, float, float]) -> tuple[float, float, float]:
        if value[0] <= 0 or min(value) < 0:
            raise ValueError(f"P must be positive, I and D not negative: {list(value)}")
        return value

    @model_validator(mode="after")
    def _check_limits(self) -> ServoConfig:
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


class Rig(toml_tables.TomlTable):
    """A robot, its buses and its world.

    Attributes:
        name: Of the rig.
        description: What it is, in a sentence.
        buses: Lines that the servos hang on.
        world: The simulated world; a rig without one drives real servos only.
        parameters: Numbers that the URDF names.
        robot: Control period and battery.
        safety: What happens to the motors when the program ends.
        webots: What Webots controllers see.
        view: The live page.
        servos: In the order of the file.
        sensors: What it senses with beside them.
        path: File it came from; its URDF, profile and model files are looked for beside it, then beside its bases.
        bases: Files it was laid over by ``base``, nearest first; empty for most.
    """

    name: str = Field(min_length=1)
    description: str = ""
    buses: tuple[BusConfig, ...] = Field(default=(BusConfig(),), alias="bus", min_length=1)
    world: WorldConfig | None = None
    parameters: dict[str, Parameter] = {}
    robot: RobotConfig = RobotConfig()
    safety: SafetyConfig = SafetyConfig()
    webots: WebotsConfig = WebotsConfig()
    view: ViewConfig = ViewConfig()
    servos: tuple[ServoConfig, ...] = Field(alias="servo", min_length=1)
    sensors: tuple[SensorConfig, ...] = Field(default=(), alias="sensor")
    path: Path = Path()
    bases: tuple[Path, ...] = Field(default=(), exclude=True)  # where things are on this machine is no fact of a robot
    _urdf: str | None = None  # of the world, instead of the file's

    def __repr__(self) -> str:
        return f"<Rig {self.name!r}: {len(self.servos)} servos, from {self.path}>"

    __str__ = __repr__

    @classmethod
    def load(cls, path_or_name: str | Path) -> Rig:
        """Load a rig by name (``bench_arm``) or path, parameters behind a colon: ``pendulum:mass=0.2,length=0.15``.

        Raises:
            RigError: no such rig, or a mistake in it or its parameters; names file, key and the fix.
        """
        name, options = split_options(path_or_name)
        path = toml_tables.find_toml(name, FOLDER, RigError)
        chain = toml_tables.load_chain(path, FOLDER, RigError)
        table: dict[str, Any] = {}
        for place in reversed(range(len(chain))):  # each base by itself, so that a mistake is named with its own file
            file, over = chain[place]
            table = _laid_over(table, over)
            bases = tuple(base for base, _ in chain[place + 1 :])
            named = file if place else path
            rig = toml_tables.validate(cls, {**table, "path": named, "bases": bases}, named, RigError)
        return rig.overridden({"parameters": options}) if options else rig

    def overridden(self, tables_over: Mapping[str, Any]) -> Rig:
        """This rig with top-level tables laid over, as written in a file: ``{"world": {"time_step_ms": 1.0}}``.

        Raises:
            RigError: the result is no valid rig, or a parameter is set that this one does not have.
        """
        values = dict(tables_over.get("parameters", {}))
        for name, value in values.items():
            if name not in self.parameters:
                known = ", ".join(f"{key} ({one.unit})" if one.unit else key for key, one in self.parameters.items())
                why = f"rig {self.name!r} has no such parameter"
                raise RigError(self.path, f"parameters.{name}", why, f"it has: {known or 'none'}")
            values[name] = value if isinstance(value, Mapping) else {"value": value}
        changes = {**tables_over, "parameters": values} if values else tables_over
        table = toml_tables.merged(self.model_dump(by_alias=True, exclude_unset=True), changes)
        table["bases"] = self.bases
        found = toml_tables.validate(Rig, table, self.path, RigError)
        return found if self._urdf is None else found.with_urdf(self._urdf)

    def with_engine(self, name: str | None) -> Rig:
        """This rig in a world of that engine: ``bullet``, ``mujoco`` or ``auto``; None leaves it as it is.

        Raises:
            RigError: there is no such engine, or the rig has no world.
        """
        if name is None:
            return self
        self._simulated()
        return self.overridden({"world": {"engine": name}})

    def with_model(self, name: str | None) -> Rig:
        """This rig with that servo model, pure, in every Dynamixel whose firmware has its position law.

        Args:
            name: Of a model, or a parameter file; None leaves the rig as it is.

        Raises:
            RigError, ProfileError: there is no such model, it has a mistake, or it fits no servo of the rig.
        """
        if name is None:
            return self
        path = Path(name)
        change = {"model": str(path.resolve()) if path.is_file() else name, "params": {}}
        fits = {
            servo.name for servo in self.dynamixels if self._has_law(servo, self.model_of(servo, name).controller.law)
        }
        if not fits:
            why = f"the servo model {name!r} fits no servo of this rig"
            raise RigError(self.path, "servo.model", why, "choose one with the position law of their firmware")
        return self.with_servos(lambda servo: change if servo.name in fits else {})

    @property
    def dynamixels(self) -> tuple[ServoConfig, ...]:
        """The servos that are no ideal joints."""
        return tuple(servo for servo in self.servos if servo.drive == "dynamixel")

    @property
    def start(self) -> dict[str, float]:
        """Position of each joint at the start of a simulation, rad or m."""
        return {servo.joint: servo.position for servo in self.servos}

    def with_servos(self, change: Callable[[ServoConfig], Mapping[str, Any]]) -> Rig:
        """This rig with other values in its servos: those that `change` gives for each, which are not checked."""
        return self.model_copy(update={"servos": tuple(one.model_copy(update=change(one)) for one in self.servos)})

    def with_buses(self, **values: Any) -> Rig:
        """This rig with these values in all of its buses; they are not checked."""
        return self.model_copy(update={"buses": tuple(bus.model_copy(update=values) for bus in self.buses)})

    def _has_law(self, servo: ServoConfig, law: str) -> bool:
        """Whether a servo's firmware has what a position law needs."""
        return law != "compliance" or "cw_compliance_slope" in self.profile_of(servo).registers

    @model_validator(mode="after")
    def _check_names(self) -> Rig:
        _unique("bus", "name", ((bus.name, index) for index, bus in enumerate(self.buses)))
        _unique("bus", "port", ((bus.port, index) for index, bus in enumerate(self.buses) if bus.port != "auto"))
        numbered = [(servo, index) for index, servo in enumerate(self.servos)]
        _unique("servo", "name", ((servo.name, index) for servo, index in numbered))
        _unique("servo", "joint", ((servo.joint, index) for servo, index in numbered))
        _unique("sensor", "name", ((sensor.name, index) for index, sensor in enumerate(self.sensors)))
        known = ", ".join(servo.name for servo in self.servos)
        for stranger in sorted(set(self.safety.park) - {servo.name for servo in self.servos}):
            raise toml_tables.Misfit(
                f"safety.park.{stranger}", f"no servo of that name; the rig has {known}", "correct it"
            )
        for index, sensor in enumerate(self.sensors):
            if sensor.name in {servo.name for servo in self.servos}:
                why = f"{sensor.name!r} is a servo of this rig"
                raise toml_tables.Misfit(f"sensor.{index}.name", why, "give the sensor a name of its own")
        names = [bus.name for bus in self.buses]
        on_bus = [(servo, index) for servo, index in numbered if servo.drive == "dynamixel"]
        for servo, index in on_bus:
            if servo.bus not in names:
                why = f"servo {servo.name!r} is on bus {servo.bus!r}, but the rig has {', '.join(names)}"
                raise toml_tables.Misfit(f"servo.{index}.bus", why, "correct it, or add a [[bus]] of that name")
        for bus in names:
            _unique(
                "servo", "id", ((servo.id, index) for servo, index in on_bus if servo.bus == bus), f" on bus {bus!r}"
            )
        return self

    @property
    def comes_along(self) -> bool:
        """Whether it comes with axbridge: it is no file of the user's own, to be written to."""
        return toml_tables.shipped(FOLDER).resolve() in self.path.resolve().parents

    @property
    def physics_step_ms(self) -> float:
        """Physics step of the world: as it says, but the basic time step for ideal joints alone, as in Webots.

        Raises:
            RigError: the rig has no world.
        """
        world = self._simulated()
        alone = all(servo.drive == "ideal" for servo in self.servos)
        if alone and "time_step_ms" not in world.model_fields_set:
            return self.robot.basic_time_step_ms
        return world.time_step_ms

    def _simulated(self) -> WorldConfig:
        if self.world is None:
            raise RigError(self.path, "world", "this rig has no simulated world", 'add [world] urdf = "…"')
        return self.world

    @property
    def control_step_ms(self) -> float:
        """How often controllers of ideal joints run: every basic step, but not more often than the physics."""
        return max(self.robot.basic_time_step_ms, self.physics_step_ms) if self.world else self.robot.basic_time_step_ms

    def urdf_path(self) -> Path:
        """The URDF of the world; the recording that keeps it (`with_urdf`).

        Raises:
            RigError: the rig has no world, or the file is not there.
        """
        name = self._simulated().urdf
        path = self.path if self._urdf is not None else self._beside(name)
        if path is None:
            why = f"no such file: {(self.bases or (self.path,))[-1].parent / name}"
            raise RigError(self.path, "world.urdf", why, "put the URDF beside the rig file")
        return path

    def _beside(self, name: str) -> Path | None:
        """A file that the rig names: beside the rig, else beside the nearest base that has it."""
        places = (file.parent / name for file in (self.path, *self.bases))
        with reading(partial(RigError, self.path, ""), "give the name of a file beside the rig"):
            return next((place for place in places if place.is_file()), None)

    def urdf_text(self) -> str:
        """The URDF of the world with the rig's parameters in it.

        Raises:
            RigError: as `urdf_path`; the file names what is no parameter of the rig, or leaves one of them out.
        """
        return self._urdf or filled(self.urdf_path(), self.parameters, self.path)

    def with_urdf(self, text: str) -> Rig:
        """This rig with that URDF, as a recording keeps it: parameters are filled in, and there need be no file."""
        found = self.model_copy()
        found._urdf = text  # noqa: SLF001 - its own
        return found

    def tree(self, *, fixed_base: bool | None = None) -> Tree:
        """The links and joints of the world.

        Args:
            fixed_base: Whether the base link is bolted down; by default as the world says.

        Raises:
            RigError: as `urdf_text`; the URDF is wrong, see `read_tree`.
        """
        from axbridge.config.urdf import read_tree

        world = self._simulated()
        kinematic = [servo.joint for servo in self.servos if servo.drive == "ideal"]
        fixed = world.fixed_base if fixed_base is None else fixed_base
        return read_tree(self.urdf_path(), fixed_base=fixed, kinematic=kinematic, text=self.urdf_text())

    def shapes(self, element: Literal["collision", "visual"]) -> tuple[Shape, ...]:
        """What the links touch things with, or what they look like.

        Raises:
            RigError: as `urdf_text`; a shape is wrong, see `read_shapes`.
        """
        from axbridge.config.urdf import read_shapes

        return read_shapes(self.urdf_path(), element, self.urdf_text())

    def profile_of(self, servo: ServoConfig) -> FirmwareProfile:
        """The firmware profile of a servo, from beside the rig or by name.

        Raises:
            RigError: no such profile; the servo's zero or its bus's baud rate is none of that model.
            ProfileError: a mistake in the profile.
        """
        beside = self._beside(servo.profile) if servo.profile.endswith(".toml") else None
        with self._naming(servo, "profile"):
            profile = FirmwareProfile.load(beside or servo.profile)
        self._check_fit(servo, profile)
        return profile

    def _check_fit(self, servo: ServoConfig, profile: FirmwareProfile) -> None:
        top = profile.units.counts
        if not 0 <= servo.zero <= top:
            why = f"{servo.zero} is no position of an {profile.name}"
            hint = f"give the register count at 0 rad, 0..{top}; {(top + 1) // 2} is the middle"
            raise RigError(self.path, f"servo.{servo.name}.zero", why, hint)
        modes = profile.operating_modes
        if modes and (mode := servo.registers.get("operating_mode", modes[-1])) not in modes:
            hint = f"choose from {', '.join(map(str, modes))}"
            why = f"{mode} is no mode of an {profile.name}"
            raise RigError(self.path, f"servo.{servo.name}.registers.operating_mode", why, hint)
        for bus in self.buses:
            if bus.name == servo.bus and baud_register(bus.baud, profile.units_name) is None:
                why = f"an {profile.name} cannot talk at {bus.baud} baud"
                hint = "choose 2000000/(n+1): 1000000, 500000, 250000, 200000, 115200, 57600, …"
                raise RigError(self.path, f"bus.{bus.name}.baud", why, hint)

    def model_of(self, servo: ServoConfig, name: str | None = None) -> ServoModel:
        """The servo model of a servo: the rig's, or `name` instead (then without the rig's overrides)."""
        overrides = servo.params if name is None else {}
        profile = self.profile_of(servo)
        with self._naming(servo, "model") if name is None else nullcontext():
            chosen = name or servo.model
            return ServoModel.load(self._beside(chosen) or chosen, profile, overrides)

    def supply_of(self, servo: ServoConfig) -> float:
        """What feeds a servo at no load, V."""
        if servo.supply_voltage is not None:
            return servo.supply_voltage
        return next(bus for bus in self.buses if bus.name == servo.bus).supply_voltage

    @contextmanager
    def _naming(self, servo: ServoConfig, key: str) -> Iterator[None]:
        """A name that leads nowhere and a wrong constant are the rig's mistakes; one in a file is that file's."""
        try:
            yield
        except ProfileError as failure:
            table, _, constant = failure.key.partition(".")
            why = failure.message
            if key == "model" and table in servo.params and constant in {"", *servo.params[table]}:
                key = f"params.{failure.key}"
                why = why.removeprefix(f"{failure.path}: {failure.key}: ")
            elif str(failure.path) != getattr(servo, key):
                raise
            raise RigError(self.path, f"servo.{servo.name}.{key}", why, failure.hint) from None


def _laid_over(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A rig's tables on those of its base: buses, servos and sensors are merged by name, new ones come last."""
    lists = {}
    for key, default in (("bus", BusConfig().name), ("servo", None), ("sensor", None)):
        below, above = (_named_tables(tables.get(key), default) for tables in (base, over))
        if below is not None and above is not None:
            lists[key] = _merged_by_name(below, above)
    return toml_tables.merged(base, {**over, **lists})


def _named_tables(tables: Any, default: str | None) -> list[tuple[Any, Mapping[str, Any]]] | None:
    """Tables of a list with the name of each; None for what is no list of tables: its check says so."""
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        return None
    return [(table.get("name", default), table) for table in tables]


def _merged_by_name(
    base: Sequence[tuple[Any, Mapping[str, Any]]], over: Sequence[tuple[Any, Mapping[str, Any]]]
) -> list[Mapping[str, Any]]:
    result = [table for _, table in base]
    places = {name: index for index, (name, _) in enumerate(base) if name is not None}
    for name, table in over:
        place = places.pop(name, None)  # a second table of one name is a mistake that its check finds
        if place is None:
            result.append(table)
            continue
        below = dict(result[place])
        if table.get("model", below.get("model")) != below.get("model"):
            below.pop("params", None)  # constants of the other model
        result[place] = toml_tables.merged(below, table)
    return result


def _unique(table: str, key: str, values: Iterable[tuple[object, int]], where: str = "") -> None:
    seen: set[object] = set()
    for value, index in values:
        if value in seen:
            why = f"{value!r} appears twice{where}; every {table} needs its own"
            raise toml_tables.Misfit(f"{table}.{index}.{key}", why, f"give one of the two another {key}")
        seen.add(value)
