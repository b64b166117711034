"""A rig as data: the servo of each joint, the buses and the world; its tables are in `rig_tables`.

Angles are rad, lengths m, torques N·m, times in the unit the key says.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from axbridge.config import toml_tables
from axbridge.config.model import ServoModel, profile_of_model
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import MOST_OFFSET, NOT_BESIDE_2
from axbridge.config.rig_tables import (
    BridgeConfig,
    BusConfig,
    Parameter,
    RobotConfig,
    SafetyConfig,
    SensorConfig,
    ServoConfig,
    ViewConfig,
    WebotsConfig,
    WorldConfig,
    meant_degrees,
)
from axbridge.errors import ProfileError, Remedy, RigError, UsageError, nearest, plural
from axbridge.file_reading import FORMAT, printable, reading, refuse_other_kind, regular
from axbridge.units import Calibration

if TYPE_CHECKING:
    from axbridge.config.urdf import Shape, Tree  # imports numpy, which is slow


FOLDER = "hil_rigs"
_NEAR_SEAM = math.radians(1)  # rounded limits may exceed the end of the turn by this angle
_OPTIONS = re.compile(r"(.+?):(\w+=[^,=:/\\]*(?:,\w+=[^,=:/\\]*)*)")  # does not match the drive letter of a path
_LONGEST = 60  # characters shown of a text in braces
_PLACE = re.compile(r"\$\{([^{}]*)\}")
_NOT_A_SETTING = {  # registers that a rig must not set: opening the rig would rename or move a servo
    "id": Remedy(
        "servo set-id", "ID", "NEW", says="`id = …` of the [[servo]] says which servo is meant; {} gives it another id"
    ),
    "baud_rate": Remedy(
        "servo set-baud", "ID", "RATE", says="`baud = …` of the [[bus]] says it; {} gives a servo another rate"
    ),
    **dict.fromkeys(("torque_enable", "goal_position", "goal_velocity", "moving_speed"), "leave it to programs"),
}


class Rig(toml_tables.TomlTable):
    """A robot, its buses and its world."""

    name: str = Field(min_length=1)  # the rig's name
    description: str = ""  # what it is, in a sentence
    # the servos' lines
    buses: tuple[BusConfig, ...] = Field(default=(BusConfig(),), alias="bus", min_length=1)
    world: WorldConfig | None = None  # the simulated world; a rig without one drives real servos only
    parameters: dict[str, Parameter] = {}  # numbers that the URDF names
    robot: RobotConfig = RobotConfig()  # control period and battery
    safety: SafetyConfig = SafetyConfig()  # state of the motors when the program ends
    bridge: BridgeConfig = BridgeConfig()  # rules of `axbridge bridge` for other programs
    webots: WebotsConfig = WebotsConfig()  # settings for Webots controllers
    view: ViewConfig = ViewConfig()  # the live page
    servos: tuple[ServoConfig, ...] = Field(alias="servo", min_length=1)  # in the order of the file
    sensors: tuple[SensorConfig, ...] = Field(default=(), alias="sensor")  # other sensors
    # the rig file; its URDF, profile and model files are searched beside it, then beside its bases
    path: Path = Path()
    # files named by `base`, nearest first; empty for most rigs
    bases: tuple[Path, ...] = Field(default=(), exclude=True)  # paths of this machine do not describe a robot
    _urdf: str | None = None  # text that replaces the URDF file
    __slots__ = ("_specs",)  # in no copy, pickle or comparison: a changed rig resolves its servos again

    def __repr__(self) -> str:
        return f"<Rig {self.name!r}: {plural(len(self.servos), 'servo')}, from {self.path}>"

    __str__ = __repr__

    @classmethod
    def load(cls, path_or_name: str | Path) -> Rig:
        """Load a rig by name (``bench_arm``) or path; parameters follow a colon: ``pendulum:mass=0.2,length=0.15``.

        Raises:
            RigError: no such rig, or a mistake in it or its parameters; names file, key and the fix.
        """
        name, options = split_options(path_or_name)
        path = toml_tables.find_toml(name, FOLDER, RigError)
        chain = toml_tables.load_chain(path, FOLDER, RigError)
        table: dict[str, Any] = {}
        for place in reversed(range(len(chain))):  # checks each base alone, so that an error names its own file
            file, over = chain[place]
            table = _laid_over(table, over)
            bases = tuple(base for base, _ in chain[place + 1 :])
            named = file if place else path
            rig = toml_tables.validate(cls, {**table, "path": named, "bases": bases}, named, RigError)
        return rig.overridden({"parameters": options}) if options else rig

    def overridden(self, tables_over: Mapping[str, Any]) -> Rig:
        """Return the rig with keys of top-level tables replaced: ``{"world": {"time_step_ms": 1.0}}``.

        Raises:
            RigError: the result is no valid rig, or the rig has no such parameter.
        """
        values = dict(tables_over.get("parameters", {}))
        for name, value in values.items():
            if name not in self.parameters:
                known = ", ".join(f"{key} ({p.unit})" if p.unit else key for key, p in self.parameters.items())
                why = f"rig {self.name!r} has no such parameter"
                raise RigError(self.path, f"parameters.{name}", why, f"it has: {known or 'none'}")
            values[name] = value if isinstance(value, Mapping) else {"value": value}
        changes = {**tables_over, "parameters": values} if values else tables_over
        table = toml_tables.merged(self.model_dump(by_alias=True, exclude_unset=True), changes)
        table["bases"] = self.bases
        changed = toml_tables.validate(Rig, table, self.path, RigError)
        return changed if self._urdf is None else changed.with_urdf(self._urdf)

    def with_engine(self, name: str | None) -> Rig:
        """Return the rig with that engine: ``bullet``, ``mujoco``, ``none`` or ``auto``; None: unchanged.

        Raises:
            RigError: there is no such engine, it cannot move the rig's ideal joints, or the rig has no world.
        """
        if name is None or (name == "none" and self.world is None):
            return self
        self._simulated()
        return self.overridden({"world": {"engine": name}})

    def with_model(self, name: str | None) -> Rig:
        """Return the rig with that servo model, without `params`, in every Dynamixel whose firmware has its law.

        Args:
            name: Name of a model, or a parameter file; None: unchanged.

        Raises:
            RigError, ProfileError: there is no such model, it has a mistake, or it fits no servo of the rig.
        """
        if name is None:
            return self
        path = Path(name)
        change = {"model": str(path.resolve()) if path.is_file() else name, "params": {}}
        specs = [self.specs[servo.name] for servo in self.dynamixels]
        fits = [spec.config for spec in specs if spec.misfit(spec.load_model(name)) is None]
        if not fits:
            why = f"the servo model {name!r} fits no servo of this rig"
            raise RigError(self.path, "servo.model", why, "choose one of their family, or another rig")
        return self.with_servos(lambda servo: change if servo in fits else {})

    @property
    def dynamixels(self) -> tuple[ServoConfig, ...]:
        """The servos that are not ideal joints."""
        return tuple(servo for servo in self.servos if servo.drive == "dynamixel")

    @property
    def specs(self) -> Mapping[str, ServoSpec]:
        """What the rig says of each servo, by name."""
        specs: Mapping[str, ServoSpec] | None = getattr(self, "_specs", None)
        if specs is None:
            specs = MappingProxyType({servo.name: ServoSpec(self, servo) for servo in self.servos})
            object.__setattr__(self, "_specs", specs)  # because the object is frozen
        return specs

    @property
    def start(self) -> dict[str, float]:
        """Position of each joint at the start of a simulation, rad or m."""
        return {servo.joint: servo.position for servo in self.servos}

    def with_servos(self, change: Callable[[ServoConfig], Mapping[str, Any]]) -> Rig:
        """Return the rig with the values that `change` returns for each servo; they are not checked."""
        return self.model_copy(update={"servos": tuple(s.model_copy(update=change(s)) for s in self.servos)})

    def with_buses(self, **values: Any) -> Rig:
        """Return the rig with these values in all buses; they are not checked."""
        return self.model_copy(update={"buses": tuple(bus.model_copy(update=values) for bus in self.buses)})

    @model_validator(mode="after")
    def _fill_in(self) -> Rig:
        """Set the default profile or model, and zero, of servos without them; the fields still count as unset."""
        named = cache(lambda model: profile_of_model(self.beside(model) or model))
        first, servos = self.servos[0], []
        loaded = cache(lambda name: ServoSpec(self, first.model_copy(update={"profile": name})).load_profile())
        for servo in self.servos:
            given, values = servo.model_fields_set, dict[str, str | int]()
            if servo.drive == "dynamixel" and not given >= {"profile", "model", "zero"}:
                with suppress(ProfileError, RigError):  # `ServoSpec` raises it later
                    if "model" in given and "profile" not in given:
                        values["profile"] = named(servo.model) or servo.profile
                    profile = loaded(values.get("profile", servo.profile))
                    values |= {} if "model" in given else {"model": profile.model}
                    values |= {} if "zero" in given else {"zero": profile.units.middle}
            servos.append(servo.model_copy(update=values) if values else servo)
            servos[-1].model_fields_set.difference_update(values)
        self.__dict__["servos"] = tuple(servos)  # because the object is frozen
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Rig:
        _unique("bus", "name", self.buses)
        _unique("bus", "port", self.buses, lambda bus: bus.port != "auto")
        _unique("servo", "name", self.servos)
        _unique("servo", "joint", self.servos)
        _unique("sensor", "name", self.sensors)
        for alias in (alias for alias, meant in self.webots.aliases.items() if alias == meant):
            raise toml_tables.Misfit(f"webots.aliases.{alias}", "is an alias of itself", "name a servo or its sensor")
        servos, buses = [servo.name for servo in self.servos], [bus.name for bus in self.buses]
        for stranger in sorted(set(self.safety.park) - set(servos)):
            why = f"no servo of that name; the rig has {', '.join(servos)}"
            raise toml_tables.Misfit(f"safety.park.{stranger}", why, "correct it")
        for servo in self.servos:
            angle = self.safety.park.get(servo.name)
            low, high = (end if math.isfinite(end) else math.copysign(math.tau, end) for end in servo.soft_limits)
            if angle is not None and not low <= angle <= high:
                why = f"{angle:g} rad is beyond the limits of {servo.name!r}, {low:g} to {high:g} rad"
                raise toml_tables.Misfit(f"safety.park.{servo.name}", why, meant_degrees(angle))
        for index, sensor in enumerate(self.sensors):
            if sensor.name in servos:
                why = f"{sensor.name!r} is a servo of this rig"
                raise toml_tables.Misfit(f"sensor.{index}.name", why, "give the sensor a name of its own")
        for index, servo in enumerate(self.servos):
            if servo.drive == "dynamixel" and servo.bus not in buses:
                why = f"servo {servo.name!r} is on bus {servo.bus!r}, but the rig has {', '.join(buses)}"
                raise toml_tables.Misfit(f"servo.{index}.bus", why, "correct it, or add a [[bus]] of that name")
        _unique("servo", "id", self.servos, lambda servo: servo.drive == "dynamixel")
        ideal = [servo.name for servo in self.servos if servo.drive == "ideal"]
        if ideal and self.world is not None and self.world.engine in {"bullet", "none"}:
            named = {"bullet": "PyBullet cannot", "none": "without an engine nothing can"}[self.world.engine]
            why = f"{named} move {ideal[0]!r}, an ideal joint"
            raise toml_tables.Misfit("world.engine", why, 'write engine = "mujoco", or leave it out')
        return self

    @property
    def comes_along(self) -> bool:
        """Whether axbridge ships the rig; then its file must not be written."""
        return toml_tables.shipped(FOLDER).resolve() in self.path.resolve().parents

    @property
    def physics_step_ms(self) -> float:
        """Physics step of the world, ms; if all joints are ideal and none is set, the basic time step, as in Webots.

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
        """Period of the controllers of ideal joints, ms: the basic time step, but at least the physics step."""
        return max(self.robot.basic_time_step_ms, self.physics_step_ms) if self.world else self.robot.basic_time_step_ms

    def urdf_path(self) -> Path:
        """Return the path of the world's URDF, or of the recording that contains it (`with_urdf`).

        Raises:
            RigError: the rig has no world, or the file does not exist.
        """
        name = self._simulated().urdf
        path = self.path if self._urdf is not None else self.beside(name)
        if path is None:
            why = f"no such file: {(self.bases or (self.path,))[-1].parent / name}"
            raise RigError(self.path, "world.urdf", why, "put the URDF beside the rig file")
        return path

    def beside(self, name: str) -> Path | None:
        """Return a file that the rig names: beside the rig, else beside the nearest base; None: there is none."""
        places = (file.parent / name for file in (self.path, *self.bases))
        with reading(partial(RigError, self.path, ""), "give the name of a file beside the rig"):
            return next((place for place in places if place.is_file()), None)

    def urdf_text(self) -> str:
        """Return the text of the world's URDF with the rig's parameters filled in.

        Raises:
            RigError: as `urdf_path`; the file names an unknown parameter, or does not use one of the rig's.
        """
        return self._urdf or filled(self.urdf_path(), self.parameters, self.path)

    def with_urdf(self, text: str) -> Rig:
        """Return the rig with this URDF text, as in a recording: parameters are filled in, and no file is needed."""
        copy = self.model_copy()
        copy._urdf = text  # noqa: SLF001 - its own
        return copy

    def tree(self, *, fixed_base: bool | None = None) -> Tree:
        """Return the links and joints of the world.

        Args:
            fixed_base: Whether the base link is fixed; default: the world's setting.

        Raises:
            RigError: as `urdf_text`; the URDF is wrong, see `read_tree`.
        """
        from axbridge.config.urdf import read_tree

        world = self._simulated()
        kinematic = [servo.joint for servo in self.servos if servo.drive == "ideal"]
        fixed = world.fixed_base if fixed_base is None else fixed_base
        return read_tree(self.urdf_path(), fixed_base=fixed, kinematic=kinematic, text=self.urdf_text())

    def shapes(self, element: Literal["collision", "visual"]) -> tuple[Shape, ...]:
        """Return the collision or visual shapes of the links.

        Raises:
            RigError: as `urdf_text`; a shape is wrong, see `read_shapes`.
        """
        from axbridge.config.urdf import read_shapes

        return read_shapes(self.urdf_path(), element, self.urdf_text())


@dataclass(frozen=True, eq=False)
class ServoSpec:
    """What a rig says of one of its servos; each property is resolved when it is first read, and then kept."""

    rig: Rig = field(repr=False)
    config: ServoConfig

    @cached_property
    def profile(self) -> FirmwareProfile:
        """The firmware profile: a file beside the rig, or by name.

        Raises:
            RigError: no such profile, or the model cannot have the servo's zero or its bus's baud rate.
            ProfileError: a mistake in the profile.
        """
        rig, servo, profile = self.rig, self.config, self.load_profile()
        top, offset = profile.units.counts, 0
        if profile.counts_turns(servo.registers):
            offset = servo.registers.get("homing_offset", 0)
        if not min(offset, 0) <= servo.zero <= top + max(offset, 0):
            hint = f"give the register count at 0 rad, 0..{top}; {(top + 1) // 2} is the middle"
            raise self._error("zero", f"{servo.zero} is no position of an {profile.name}", hint)
        self._check_registers(profile)
        self._check_turn(profile)
        first = next((s for s in rig.servos if s.drive == servo.drive and s.bus == servo.bus), servo)
        other = profile if first.profile == servo.profile else ServoSpec(rig, first).load_profile()
        if other.maker != profile.maker:
            why = f"a {profile.maker} servo cannot be on the bus of {first.name!r}, which is a {other.maker}"
            hint = "give it a [[bus]] of its own, with another adapter: each would take the other's packets for its own"
            raise self._error("bus", why, hint)
        if servo.id == NOT_BESIDE_2 and profile.protocol == 1:
            beside = (ServoSpec(rig, s) for s in rig.dynamixels if s.bus == servo.bus)
            if second := next((spec.config.name for spec in beside if spec.load_profile().protocol == 2), None):
                why = f"{servo.id} cannot be the id of a servo of Protocol 1.0 on the bus of {second!r}"
                raise self._error("id", why, "choose another: packets of Protocol 2.0 begin like one to this id")
        for bus in rig.buses:
            if bus.name == servo.bus and profile.units.baud_register(bus.baud) is None:
                why = f"an {profile.name} cannot talk at {bus.baud} baud"
                raise RigError(rig.path, f"bus.{bus.name}.baud", why, f"choose from {profile.units.rates}")
        return profile

    @cached_property
    def model(self) -> ServoModel:
        """The servo model, with the rig's `params`.

        Raises:
            RigError, ProfileError: as `profile`; no such model, a mistake in it, or it does not fit the servo.
        """
        profile, chosen = self.profile, self.config.model
        alike = (profile, chosen, self.config.params)
        for other in self.rig.specs.values():  # each file is read once
            if "model" in vars(other) and (other.profile, other.config.model, other.config.params) == alike:
                return other.model
        with self._naming("model"):
            model = ServoModel.load(self.rig.beside(chosen) or chosen, profile, self.config.params)
        if why := self.misfit(model):
            own = f'write model = "{profile.model}", or take' if chosen != profile.model else "take"
            raise self._error("model", why, Remedy("list", "models", says=f"{own} another of that servo: {{}}"))
        return model

    @cached_property
    def stops(self) -> tuple[float, float]:
        """The hard stops of the joint, rad: the rig's, else the URDF's; ±inf = none.

        Raises:
            RigError: as `Rig.tree`; the joint is not in the URDF.
        """
        own = self.config.stops(-math.inf, math.inf)
        if self.rig.world is None or own != (-math.inf, math.inf):
            return own
        joints = {joint.name: joint for joint in self.rig.tree(fixed_base=True).joints}
        if (joint := joints.get(self.config.joint)) is None:
            why = f"joint {self.config.joint!r} is not in {self.rig.urdf_path().name}, or is fixed"
            raise self._error("joint", why, f"joints that move: {', '.join(joints) or 'none'}")
        return joint.low, joint.high

    @property
    def limits(self) -> tuple[float, float]:
        """The soft limits of the joint, rad, or its stops where the rig has no limits; ±inf = neither.

        Raises:
            RigError: as `stops`.
        """
        soft = self.config.soft_limits
        return soft if math.isfinite(soft[0]) else self.stops

    @property
    def calibration(self) -> Calibration:
        """The conversion between joint angles and counts."""
        return Calibration(self.profile.units, self.config.zero, self.config.direction)

    @property
    def supply(self) -> float:
        """The supply voltage without load, V."""
        if self.config.supply_voltage is not None:
            return self.config.supply_voltage
        return next(bus for bus in self.rig.buses if bus.name == self.config.bus).supply_voltage

    def load_profile(self) -> FirmwareProfile:
        """Return the profile; what the rig says of the servo is not checked."""
        name = self.config.profile
        with self._naming("profile"):
            return FirmwareProfile.load((self.rig.beside(name) if name.endswith(".toml") else None) or name)

    def load_model(self, name: str) -> ServoModel:
        """Return another model for the servo, by name or file, without the rig's `params`.

        Raises:
            RigError, ProfileError: as `profile`; there is no such model, or it has a mistake.
        """
        return ServoModel.load(self.rig.beside(name) or name, self.profile)

    def misfit(self, model: ServoModel) -> str | None:
        """Return why the servo cannot have a model, else None: registers of the law are missing, or another family."""
        law, profile = model.controller.law, self.profile
        if not profile.has_law(law):
            return f"{model.name!r} has the law {law}, for which a {profile.name} has no registers"
        own = FirmwareProfile.load(self.rig.beside(model.profile) or model.profile) if model.profile else profile
        if own.units_name != profile.units_name:
            return f"{model.name!r} is a model of the {own.name}, and this servo is a {profile.name}"
        return None

    def _error(self, key: str, why: str, hint: str | Remedy) -> RigError:
        return RigError(self.rig.path, f"servo.{self.config.name}.{key}", why, hint)

    def _check_registers(self, profile: FirmwareProfile) -> None:
        """Refuse unknown registers and values, and registers that would rename or move the servo at opening."""
        registers = self.config.registers
        for name, value in registers.items():
            register = profile.registers.get(name)
            if register is None:
                why = f"{profile.name} has no such register"
                hint = f"{nearest(name, profile.registers)}it has: {profile.listed}"
            elif name in _NOT_A_SETTING:
                why, hint = "this is no setting of a rig", _NOT_A_SETTING[name]
            elif name == "operating_mode" and value not in (modes := profile.operating_modes):
                why, hint = f"{value} is no mode of an {profile.name}", f"choose from {', '.join(map(str, modes))}"
            elif not register.minimum <= value <= register.maximum:
                why, hint = f"{value} is outside {register.minimum}..{register.maximum}", "take a value it would accept"
            else:
                continue
            raise self._error(f"registers.{name}", why, hint)
        names, counts = profile.names, profile.units.counts
        limits = [registers.get(name, profile.registers[name].initial) for name in (names.low, names.high)]
        if profile.behaviour.multi_turn and limits == [counts, counts]:
            why = f"{names.low} and {names.high} of {counts} select the multi-turn mode, which cannot be driven"
            hint = f"set {names.low} = 0, and positions go from 0 to {counts}"
            raise self._error(f"registers.{names.low}", why, hint)

    def _check_turn(self, profile: FirmwareProfile) -> None:
        """Refuse a Homing Offset that the servo ignores, and limits across the end of its turn.

        Beyond that end torque on changes the count by a turn, so the joint would turn round. Applies to Position
        Control Mode only; see `FirmwareProfile.turn`.
        """
        servo = self.config
        turn, offset = profile.turn(servo.registers), servo.registers.get("homing_offset", 0)
        if turn is None:
            return
        registers = toml_tables.written({**servo.registers, "operating_mode": 4})
        line = f"write registers = {registers}: in mode 4 it counts its turns"
        if abs(offset) > MOST_OFFSET:
            why = f"Position Control Mode (3) ignores a homing offset beyond ±{MOST_OFFSET}, and the other modes add it"
            says = f"{line}, or {{}}, leave it out, and calibrate again"
            again = Remedy("servo write", servo.id, "homing_offset", 0, says=says)
            raise self._error("registers.homing_offset", why, again)
        mounted = Calibration(profile.units, servo.zero, servo.direction)
        low, high = sorted(map(mounted.angle, profile.reach(servo.registers)))
        bottom, top = servo.soft_limits
        if math.isfinite(bottom) and (bottom < low - _NEAR_SEAM or top > high + _NEAR_SEAM):
            key, seam = ("min_position", low) if bottom < low - _NEAR_SEAM else ("max_position", high)
            why = f"{bottom:g} to {top:g} rad lead across the end of its turn at {seam:.3f} rad, where its count jumps"
            raise self._error(key, why, f"mount its horn so that they do not, or {line}")

    @contextmanager
    def _naming(self, key: str) -> Iterator[None]:
        """Raise a `RigError` for an unknown name or wrong constant of the rig; pass a mistake inside another file."""
        try:
            yield
        except ProfileError as failure:
            table, _, constant = failure.key.partition(".")
            why, params = failure.message, self.config.params
            if key == "model" and table in params and constant in {"", *params[table]}:
                key = f"params.{failure.key}"
                why = why.removeprefix(f"{failure.path}: {failure.key}: ")
            elif str(failure.path) != getattr(self.config, key):
                raise
            raise self._error(key, why, failure.hint) from None


def _laid_over(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a rig's tables into those of its base: buses, servos and sensors by name; new entries come last."""
    lists = {}
    for key, default in (("bus", BusConfig().name), ("servo", None), ("sensor", None)):
        both = base.get(key), over.get(key)
        if all(isinstance(value, list) and all(isinstance(table, Mapping) for table in value) for value in both):
            lists[key] = _merged_by_name(*both, default)  # else validation reports it
    return toml_tables.merged(base, {**over, **lists})


def _merged_by_name(base: Any, over: Any, default: str | None) -> list[Mapping[str, Any]]:
    result = list(base)
    places = {name: index for index, table in enumerate(base) if (name := table.get("name", default)) is not None}
    for table in over:
        place = places.pop(table.get("name", default), None)  # validation reports a second entry of this name
        if place is None:
            result.append(table)
            continue
        below = dict(result[place])
        if "model" not in table and table.get("profile", below.get("profile")) != below.get("profile"):
            below.pop("model", None)  # belongs to the base's profile; the new profile has its own
            below.pop("params", None)
        if table.get("model", below.get("model")) != below.get("model"):
            below.pop("params", None)  # constants of the base's model
        result[place] = toml_tables.merged(below, table)
    return result


def _unique(table: str, key: str, entries: Sequence[Any], counts: Callable[[Any], bool] = lambda _: True) -> None:
    """Refuse a value of `key` that two entries of a table share; `counts` selects the entries."""
    seen: set[object] = set()
    for index, entry in enumerate(entries):
        value = getattr(entry, key)
        where = f" on bus {entry.bus!r}" if key == "id" else ""
        if not counts(entry):
            continue
        if (where, value) in seen:
            why = f"{value!r} appears twice{where}; every {table} needs its own"
            raise toml_tables.Misfit(f"{table}.{index}.{key}", why, f"give one of the two another {key}")
        seen.add((where, value))


def split_options(rig: str | Path) -> tuple[str | Path, dict[str, float]]:
    """Split ``pendulum:mass=0.2,length=0.15`` into the rig's name or path and its parameters."""
    if not isinstance(rig, str | os.PathLike):
        raise UsageError(f"{rig!r} is no rig", 'give a name such as "bench_arm", the path of a file, or a Rig')
    match = _OPTIONS.fullmatch(str(rig))
    if match is None:
        return rig, {}
    values = {}
    for option in match[2].split(","):
        name, _, value = option.partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            raise RigError(match[1], f"parameters.{name}", f"{value!r} is no number", f"write {name}=0.1") from None
    return match[1], values


def filled(urdf: Path, parameters: Mapping[str, Parameter], rig: Path) -> str:
    """Return the text of a URDF with a rig's parameters filled in."""
    known = f"parameters of the rig: {', '.join(parameters) or 'none'}; add others to [parameters]; no arithmetic"
    with reading(partial(RigError, urdf, ""), known):
        refuse_other_kind(urdf, partial(RigError, urdf, ""), but="a URDF")
        text = regular(urdf).read_text(encoding="utf-8-sig")
    named = _PLACE.findall(text)
    for name in named:
        if name not in parameters:
            raise RigError(urdf, "", f"${{{printable(name)[:_LONGEST]}}} names no parameter", known)
    for name in parameters:
        if name not in named:
            why = f"{urdf.name} has no ${{{name}}}"
            raise RigError(rig, f"parameters.{name}", why, "use it there, or leave it out")
    return _PLACE.sub(lambda match: repr(parameters[match[1]].value), text)


def rig_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a rig file, with a description of each key.

    The keys ``base`` and ``format`` are added by hand, because they are no fields of `Rig`; ``base`` makes other keys
    optional.
    """
    schema = Rig.model_json_schema(by_alias=True)
    places = {"Rig": schema, **schema["$defs"]}
    for table in (table for table in toml_tables.TomlTable.__subclasses__() if table.__name__ in places):
        place = places[table.__name__]
        place["description"] = (inspect.getdoc(table) or "").splitlines()[0]
        for name, text in toml_tables.described(table).items():
            alias = table.model_fields[name].alias or name
            place["properties"][alias]["description"] = text
    for own in ("path", "bases"):
        schema["properties"].pop(own, None)
    schema["properties"]["base"] = {
        "type": "string",
        "description": "Rig that this one is laid over: a name, or the path of a .toml beside this file.",
    }
    schema["properties"]["format"] = {"const": FORMAT, "description": "Of the file; absent = 1."}
    numbers = schema["properties"]["parameters"]
    numbers["additionalProperties"] = {"anyOf": [{"type": "number"}, numbers["additionalProperties"]]}
    required, of_servo = schema.pop("required"), schema["$defs"]["ServoConfig"].pop("required")
    schema["$defs"]["ServoConfig"]["required"] = ["name"]
    schema["if"] = {"required": ["base"]}
    schema["else"] = {
        "required": required,
        "properties": {"servo": {"items": {"required": of_servo}}},
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "axbridge rig"}
