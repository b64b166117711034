"""Parameters of the servo model as data: motor, friction, controller, sensor.

What a model file leaves out comes from the servo's firmware profile, and a rig may override it. Sources: Lima et al.
2009, equations (1)-(6); SimTwo.
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
    # share of the motor torque that arrives at the output shaft, 0..1
    efficiency: float = Field(default=1.0, gt=0, le=1)
    # share by which the torque towards positive angles exceeds that, and towards negative ones falls short of it:
    # brushes turned off their neutral place push harder one way
    asymmetry: float = Field(default=0.0, ge=-0.5, le=0.5)
    armature: float = Field(default=0.0, ge=0)  # rotor inertia reflected to the output, kg·m²
    # play between gear and output shaft, rad: the joint is free within it, and the rotor turns on its own
    backlash: float = Field(default=0.0, ge=0, le=0.2)
    resistance_per_duty: float = Field(default=0.0, ge=0)  # added to Ra in proportion to |duty|, ohm
    # share of Ra added for each kelvin that the servo reports above `ambient_temperature`. More than the 0.0039 of
    # its wire, because the winding warms more than the sensor beside it
    resistance_per_kelvin: float = Field(default=0.0, ge=0)
    # share of full duty that the bridge swallows: less does not reach the motor; full duty stays full
    dead_duty: float = Field(default=0.0, ge=0, le=0.5)
    max_current: float = Field(default=0.0, ge=0)  # drive limit, A; 0 = none
    current_step: float = Field(default=0.0, ge=0)  # largest change of current in one millisecond, A; 0 = none
    # what `max_current` limits: the `motor`'s current, or the `supply`'s, which flows during the on-time of the PWM
    # alone (so the motor's may be 1/duty times that)
    current_limit: Literal["motor", "supply"] = "motor"
    thermal_resistance: float = Field(default=4.0, ge=0)  # winding to air, K/W
    thermal_time: float = Field(default=120.0, gt=0)  # time constant of the winding's temperature, s
    ambient_temperature: float = 25.0  # what a servo starts with, and to which `resistance` belongs, degC

    @model_validator(mode="after")
    def _check_play(self) -> MotorParams:
        if self.backlash and not self.armature:
            why = "backlash lets the rotor turn on its own, so it needs an inertia"
            raise toml_tables.Misfit("armature", why, "give an armature, kg·m²: 0.001 to 0.01 for an AX-12")
        return self

    @property
    def output_constant(self) -> float:
        """Ks·N, V·s/rad at the output shaft (N·m/A before gear loss)."""
        return self.torque_constant * self.gear_ratio


class FrictionParams(toml_tables.TomlTable):
    """Friction at the output shaft; the budget models M1-M6 after Rhoban BAM (arXiv 2410.08650)."""

    # M1 Coulomb + viscous; M2 + Stribeck; M3 + load; M4 both; M5 directional load; M6 + quadratic
    law: Literal["M1", "M2", "M3", "M4", "M5", "M6"] = "M1"
    coulomb: float = Field(ge=0)  # Fc, N·m
    viscous: float = Field(ge=0)  # Bv, N·m·s/rad
    stribeck: float = Field(default=0.0, ge=0)  # added at rest, N·m
    stribeck_speed: float = Field(default=0.2, gt=0)  # speed at which that has faded to 1/e, rad/s
    stribeck_exponent: float = Field(default=1.0, gt=0)  # shape of the fading
    load: float = Field(default=0.0, ge=0)  # N·m of friction per N·m through the gear
    load_stribeck: float = Field(default=0.0, ge=0)  # added at rest to `load`
    # M5: N·m per N·m of external torque alone; `load` is then of the motor's alone
    load_external: float = Field(default=0.0, ge=0)
    load_external_stribeck: float = Field(default=0.0, ge=0)  # M5: added at rest to `load_external`
    quadratic: float = Field(default=0.0, ge=0)  # M6: N·m·s²/rad²
    # dry friction of the output shaft, on the joint's side of `backlash`, N·m; with any law
    output: float = Field(default=0.0, ge=0)


class ControllerParams(toml_tables.TomlTable):
    """The servo's own position loop."""

    # `state_feedback` (Lima et al. 2009, equation 6), `compliance` (AX margin, slope, punch), `pid` (MX)
    law: Literal["state_feedback", "compliance", "pid"]
    k_theta: float = Field(default=0.0, ge=0)  # Kθ, V/rad, output side (state_feedback)
    k_omega: float = 0.0  # Kω, V·s/rad, output side (state_feedback)
    # the loop runs this often; 0 = every internal step of the simulation (at most 1 ms)
    period_ms: float = Field(default=0.0, ge=0)
    # weight of the new sample in the low-passed speed used by the law, 0..1 (1 = unfiltered)
    speed_filter: float = Field(default=1.0, gt=0, le=1)
    p_duty: float = Field(default=0.0, ge=0)  # duty per count of position error and unit of the P gain register (pid)
    i_duty: float = Field(default=0.0, ge=0)  # duty per count·s and unit of the I gain register (pid)
    d_duty: float = Field(default=0.0, ge=0)  # duty per count/s and unit of the D gain register (pid)
    # identified compliance slope, rad, in place of the registers'; 0 = as the registers say (compliance)
    slope: float = Field(default=0.0, ge=0)
    # identified punch, duty 0..1, in place of the register's; -1 = as the register says (compliance)
    punch: float = Field(default=-1.0, ge=-1, le=1)


class SensorParams(toml_tables.TomlTable):
    """What is between the shaft and the registers."""

    latency_ms: float = Field(default=0.0, ge=0)  # a command acts this long after its packet ended, ms
    position_noise: float = Field(default=0.0, ge=0)  # standard deviation of the position reading, rad
    angle_offset: float = 0.0  # reading minus true angle, rad
    # time constant by which the position that the firmware's own loop sees follows the reading, ms: all that makes
    # the loop late - filter, period, computing - in one
    lag_ms: float = Field(default=0.0, ge=0)
    quantised: bool = False  # whether the firmware's own loop sees the position in whole counts


class PredictionParams(toml_tables.TomlTable):
    """How far off a model may be that was identified from recordings; nothing is simulated by it."""

    # root mean square error of the position in recordings that the fit never saw, rad
    held_out_error: float | None = Field(default=None, gt=0)
    # share by which its intervals (95 %) let the duty be off with which it holds a load
    load_share: float | None = Field(default=None, ge=0)
    # how far apart the best starts of the search end in what they predict, root mean square over the recordings, rad
    chance: float | None = Field(default=None, ge=0)


class ServoModel(toml_tables.TomlTable):
    """All parameters of one simulated servo."""

    name: str = Field(min_length=1)  # the model's name
    description: str = ""
    provenance: str = ""  # where the numbers come from, in a sentence
    # firmware profile of the servo that it is a model of: rigs that name no profile have it, and servos of other
    # families cannot have this model; "" = unknown
    profile: str = ""
    motor: MotorParams
    friction: FrictionParams
    controller: ControllerParams
    sensor: SensorParams = SensorParams()
    prediction: PredictionParams = PredictionParams()  # what it is worth, where it was measured
    path: Path = Path()

    @classmethod
    def load(
        cls, path_or_name: str | Path, profile: FirmwareProfile, overrides: dict[str, Any] | None = None
    ) -> ServoModel:
        """Load a model for a servo of `profile`.

        Args:
            path_or_name: ``lima2009``, ``ax12``, … or the path of a TOML file.
            profile: Supplies the motor and friction constants that the model does not set.
            overrides: Tables laid over the file's, as a rig gives them: ``{"motor": {"armature": 0.004}}``.

        Raises:
            ProfileError: no such model, or a mistake in it; names file, key and the fix.
        """
        path = toml_tables.find_toml(path_or_name, FOLDER, ProfileError)
        table = toml_tables.load_table(path, FOLDER, ProfileError)
        table = toml_tables.merged({"motor": profile.motor, "friction": profile.friction}, table)
        table = {**toml_tables.merged(table, overrides or {}), "path": path}
        return toml_tables.validate(cls, table, path, ProfileError)


def profile_of_model(path_or_name: str | Path) -> str | None:
    """The profile that a model's file, or one of its bases, names; None where none does.

    Raises:
        ProfileError: no such model, or no readable TOML.
    """
    path = toml_tables.find_toml(path_or_name, FOLDER, ProfileError)
    profile = toml_tables.load_table(path, FOLDER, ProfileError).get("profile")
    return profile if isinstance(profile, str) else None


def to_toml(model: ServoModel, notes: Mapping[str, str] = MappingProxyType({})) -> str:
    """A model as a file, for ``model = "…"`` in a rig; a note by ``table.key`` stands behind its value."""
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
