"""Parameters of the servo model as data: motor, friction, controller, sensor.

Values that a model file leaves out come from the servo's firmware profile; a rig may override both. Sources: Lima et
al. 2009, equations (1)-(6); SimTwo.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, model_validator

from axbridge.config import toml_tables
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import ProfileError
from axbridge.file_reading import FORMAT

FOLDER = "firmware_profiles/models"


class MotorParams(toml_tables.TomlTable):
    """DC motor and gear."""

    resistance: float = Field(gt=0)  # Ra, ohm
    inductance: float = Field(ge=0)  # La, H
    torque_constant: float = Field(gt=0)  # Ks, N·m/A = V·s/rad, motor side
    gear_ratio: float = Field(gt=0)  # N, motor turns per output turn
    # share of the motor torque that reaches the output shaft, 0..1
    efficiency: float = Field(default=1.0, gt=0, le=1)
    # share by which the torque is larger towards positive angles and smaller towards negative ones; brushes off their
    # neutral position cause it
    asymmetry: float = Field(default=0.0, ge=-0.5, le=0.5)
    armature: float = Field(default=0.0, ge=0)  # rotor inertia reflected to the output, kg·m²
    # play between gear and output shaft, rad: within it, joint and rotor move independently
    backlash: float = Field(default=0.0, ge=0, le=0.2)
    resistance_per_duty: float = Field(default=0.0, ge=0)  # added to Ra in proportion to |duty|, ohm
    # share of Ra added per kelvin of Present Temperature above `ambient_temperature`; larger than copper's 0.0039,
    # because the winding warms more than the sensor beside it
    resistance_per_kelvin: float = Field(default=0.0, ge=0)
    # share of full duty lost in the H-bridge: smaller duties have no effect; full duty stays full
    dead_duty: float = Field(default=0.0, ge=0, le=0.5)
    max_current: float = Field(default=0.0, ge=0)  # drive limit, A; 0 = none
    current_step: float = Field(default=0.0, ge=0)  # largest change of current in one millisecond, A; 0 = none
    # current that `max_current` limits: of the `motor`, or of the `supply`, which flows only during the PWM's on-time
    # (the motor's may then be 1/duty times as large)
    current_limit: Literal["motor", "supply"] = "motor"
    thermal_resistance: float = Field(default=4.0, ge=0)  # winding to air, K/W
    thermal_time: float = Field(default=120.0, gt=0)  # time constant of the winding's temperature, s
    ambient_temperature: float = 25.0  # temperature at the start, and of `resistance`, degC

    @model_validator(mode="after")
    def _check_play(self) -> MotorParams:
        if self.backlash and not self.armature:
            why = "backlash lets the rotor turn on its own, so it needs an inertia"
            raise toml_tables.Misfit("armature", why, "give an armature, kg·m²: 0.001 to 0.01 for an AX-12")
        return self

    @property
    def output_constant(self) -> float:
        """Return Ks·N, V·s/rad at the output shaft (N·m/A before gear loss)."""
        return self.torque_constant * self.gear_ratio


class FrictionParams(toml_tables.TomlTable):
    """Friction at the output shaft; the budget models M1-M6 after Rhoban BAM (arXiv 2410.08650)."""

    # M1 Coulomb + viscous; M2 + Stribeck; M3 + load; M4 both; M5 directional load; M6 + quadratic
    law: Literal["M1", "M2", "M3", "M4", "M5", "M6"] = "M1"
    coulomb: float = Field(ge=0)  # Fc, N·m
    viscous: float = Field(ge=0)  # Bv, N·m·s/rad
    stribeck: float = Field(default=0.0, ge=0)  # added at rest, N·m
    stribeck_speed: float = Field(default=0.2, gt=0)  # speed at which `stribeck` has decayed to 1/e, rad/s
    stribeck_exponent: float = Field(default=1.0, gt=0)  # exponent of the decay
    load: float = Field(default=0.0, ge=0)  # N·m of friction per N·m through the gear
    load_stribeck: float = Field(default=0.0, ge=0)  # added at rest to `load`
    # M5: N·m per N·m of external torque; `load` then counts motor torque only
    load_external: float = Field(default=0.0, ge=0)
    load_external_stribeck: float = Field(default=0.0, ge=0)  # M5: added at rest to `load_external`
    quadratic: float = Field(default=0.0, ge=0)  # M6: N·m·s²/rad²
    # dry friction of the output shaft, on the joint's side of `backlash`, N·m; for every law
    output: float = Field(default=0.0, ge=0)


class ControllerParams(toml_tables.TomlTable):
    """The servo's own position loop."""

    # `state_feedback` (Lima et al. 2009, equation 6), `compliance` (AX margin, slope, punch), `pid` (MX)
    law: Literal["state_feedback", "compliance", "pid"]
    k_theta: float = Field(default=0.0, ge=0)  # Kθ, V/rad, output side (state_feedback)
    k_omega: float = 0.0  # Kω, V·s/rad, output side (state_feedback)
    # period of the loop; 0 = every internal step of the simulation (at most 1 ms)
    period_ms: float = Field(default=0.0, ge=0)
    # weight of the new sample in the low-passed speed used by the law, 0..1 (1 = unfiltered)
    speed_filter: float = Field(default=1.0, gt=0, le=1)
    p_duty: float = Field(default=0.0, ge=0)  # duty per count of position error and unit of the P gain register (pid)
    i_duty: float = Field(default=0.0, ge=0)  # duty per count·s and unit of the I gain register (pid)
    d_duty: float = Field(default=0.0, ge=0)  # duty per count/s and unit of the D gain register (pid)
    # identified compliance slope, rad, that replaces the registers'; 0 = the registers' (compliance)
    slope: float = Field(default=0.0, ge=0)
    # identified punch, duty 0..1, that replaces the register's; -1 = the register's (compliance)
    punch: float = Field(default=-1.0, ge=-1, le=1)


class SensorParams(toml_tables.TomlTable):
    """Errors and delays between the shaft and the registers."""

    latency_ms: float = Field(default=0.0, ge=0)  # time from the end of a packet until its command acts, ms
    position_noise: float = Field(default=0.0, ge=0)  # standard deviation of the position reading, rad
    angle_offset: float = 0.0  # reading minus true angle, rad
    # time constant of the low-pass between reading and the firmware's position loop, ms: one value for filter, period
    # and computing time
    lag_ms: float = Field(default=0.0, ge=0)
    quantised: bool = False  # whether the firmware's position loop uses whole counts


class PredictionParams(toml_tables.TomlTable):
    """Expected errors of a model that was identified from recordings; they do not affect the simulation."""

    # root mean square position error in recordings that were not used for the fit, rad
    held_out_error: float | None = Field(default=None, gt=0)
    # relative uncertainty (95 % intervals) of the duty that holds a load
    load_share: float | None = Field(default=None, ge=0)
    # root mean square difference between the predictions of the best starts of the search, rad
    chance: float | None = Field(default=None, ge=0)


class ServoModel(toml_tables.TomlTable):
    """All parameters of one simulated servo."""

    name: str = Field(min_length=1)  # the model's name
    description: str = ""
    provenance: str = ""  # where the numbers come from, in a sentence
    # firmware profile of the modelled servo: the default of rigs that name no profile; servos of other families cannot
    # have this model; "" = unknown
    profile: str = ""
    motor: MotorParams
    friction: FrictionParams
    controller: ControllerParams
    sensor: SensorParams = SensorParams()
    prediction: PredictionParams = PredictionParams()  # expected errors, if measured
    path: Path = Path()

    @classmethod
    def load(
        cls, path_or_name: str | Path, profile: FirmwareProfile, overrides: dict[str, Any] | None = None
    ) -> ServoModel:
        """Load a model for a servo of `profile`.

        Args:
            path_or_name: ``lima2009``, ``ax12``, … or the path of a TOML file.
            profile: Supplies the motor and friction constants that the model does not set.
            overrides: Tables that replace the file's values, as in a rig: ``{"motor": {"armature": 0.004}}``.

        Raises:
            ProfileError: no such model, or a mistake in it; names file, key and the fix.
        """
        path = toml_tables.find_toml(path_or_name, FOLDER, ProfileError)
        table = toml_tables.load_table(path, FOLDER, ProfileError)
        table = toml_tables.merged({"motor": profile.motor, "friction": profile.friction}, table)
        table = {**toml_tables.merged(table, overrides or {}), "path": path}
        return toml_tables.validate(cls, table, path, ProfileError)


def profile_of_model(path_or_name: str | Path) -> str | None:
    """Return the profile that a model's file or one of its bases names, else None.

    Raises:
        ProfileError: no such model, or no readable TOML.
    """
    path = toml_tables.find_toml(path_or_name, FOLDER, ProfileError)
    profile = toml_tables.load_table(path, FOLDER, ProfileError).get("profile")
    return profile if isinstance(profile, str) else None


def to_toml(model: ServoModel, notes: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a model as TOML text; `notes` has comments for values, by ``table.key``."""
    tables = model.model_dump(exclude={"path"})
    lines = [f"format = {FORMAT}"]
    lines += [f"{key} = {toml_tables.written(tables[key])}" for key in ("name", "description", "provenance", "profile")]
    for table in ("motor", "friction", "controller", "sensor", "prediction"):
        known = {key: value for key, value in tables[table].items() if value is not None}
        lines += ["", f"[{table}]"] if known else []
        for key, value in known.items():
            text, note = f"{key} = {toml_tables.written(value)}", notes.get(f"{table}.{key}")
            lines.append(text if note is None else f"{text:<42} # {note}")
    return "\n".join(lines) + "\n"
