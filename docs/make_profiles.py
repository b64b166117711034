"""Writes docs/registers/ from the shipped profiles and their schema; with --check says whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.config import toml_tables
from axbridge.config.model import (
    ControllerParams,
    FrictionParams,
    MotorParams,
    PredictionParams,
    SensorParams,
)
from axbridge.config.profile import Behaviour, Electrics, FirmwareProfile, Protection, Register, Timing
from axbridge.errors import ProfileError

FOLDER = Path(__file__).with_name("registers")
MADE = "*Made by `python docs/make_profiles.py`: do not edit. Other servos: [Servos that work](../servos.md).*\n"
FLAGS = {
    "goal_outside_limits": "a goal outside the angle limits: error bit, and nothing moves, or it goes to the limit",
    "auto_torque_on_goal": "writing a goal switches Torque Enable on",
    "auto_torque_in_wheel": "writing a speed in wheel mode does, too (it drives either way)",
    "goal_follows_present_on_torque_on": "the goal becomes the present position when torque goes on",
    "lock_scope": "what Lock closes: all but 24..35 (manual of 2006), or the EEPROM area",
    "reset_0x06": "factory reset",
    "broadcast_ping": "a PING to 254",
    "bad_checksum": "a packet for this servo with a wrong checksum",
    "short_instruction": "an instruction with too few parameters",
    "out_of_table": "a read beyond the last register (a write is refused, or silently ignored)",
    "read_only_write": "a write to a read-only register",
    "split_word_write": "a write to one byte of a 16-bit register",
    "shutdown_effect": "what an alarm of the Shutdown mask sets to 0; writing that register again recovers",
    "overload_latched": "an overload lasts until a power cycle",
    "wheel_mode": "Moving Speed in wheel mode is an open-loop duty, or a controlled speed",
    "multi_turn": "both angle limits at their highest value mean multi-turn mode",
    "speed_quirk": "known defects of Present Speed",
}
REPEATED = [  # of `[registers]`: what no register has by itself
    ["`count`", "none", "So many equal registers one behind the other, named `NAME_1`, `NAME_2` and so on."],
    ["`each`", "`0`", "By how much the factory value of each of them is above that of the one before."],
]


def main() -> int:
    """Write the pages, or say whether they are up to date."""
    pages = render()
    if "--check" in sys.argv:
        return 0 if {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == pages else 1
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    for name, page in pages.items():
        (FOLDER / name).write_text(page, encoding="utf-8")
    return 0


def render() -> dict[str, str]:
    """A page for each profile, and one each with the keys of a profile and of a servo model."""
    profiles = [FirmwareProfile.load(name) for name in toml_tables.shipped_names("firmware_profiles")]
    pages = {f"{profile.name}.md": _page(profile) for profile in profiles}
    pages["keys.md"] = f"# Keys of a profile\n\n{MADE}\n{_schema()}"
    pages["parameters.md"] = f"# Parameters of a servo model\n\n{MADE}\n{_parameters()}"
    return {name: page.rstrip() + "\n" for name, page in pages.items()}


def _page(profile: FirmwareProfile) -> str:
    """A page of a servo that is built on another one has only what differs from that."""
    parts = [f"# {profile.name}\n", MADE, f"{profile.description}.\n", _overview(profile)]
    origin = _origin(profile.name)
    registers, firmware = _registers(profile), _firmware(profile)
    if origin != profile.name:
        other = FirmwareProfile.load(origin)
        registers, firmware = (
            [row for row in mine if row not in its]
            for mine, its in ((registers, _registers(other)), (firmware, _firmware(other)))
        )
        parts.append(f"All else is as on the page of [`{origin}`]({origin}.md).\n")
    if registers:
        head = ["address", "bytes", "register", "access", "area", "factory", "range", "one count"]
        parts += ["## Control table\n", _table(head, registers)]
    if firmware:
        parts += ["## Firmware\n", _table(["key", "value", "what it decides"], firmware)]
    return "\n".join(parts)


def _origin(name: str) -> str:
    """The profile at the end of its bases."""
    path = toml_tables.shipped("firmware_profiles") / f"{name}.toml"
    base = toml_tables.read_toml(path, ProfileError).get("base")
    return name if base is None else _origin(str(base))


def _firmware(profile: FirmwareProfile) -> list[list[Any]]:
    if profile.protocol != 1:
        return []
    return [[f"`{flag}`", f"`{value}`", FLAGS[flag]] for flag, value in profile.behaviour]


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(str(cell) for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def _overview(profile: FirmwareProfile) -> str:
    rows: list[list[Any]] = [
        ["protocol", PROTOCOLS[profile.protocol].title],
        ["model number", profile.model_number],
        ["firmware", profile.firmware_version],
        ["stall torque, N·m", f"{profile.electrics.stall_torque:g}"],
        ["no-load speed, rpm", f"{profile.electrics.no_load_speed:g}"],
        ["gear", f"{profile.motor.get('gear_ratio', 0):g}"],
    ]
    return _table(["figure", "value"], rows)


def _registers(profile: FirmwareProfile) -> list[list[Any]]:
    rows: list[list[Any]] = []
    before = ""
    for name, r in sorted(profile.registers.items(), key=lambda item: item[1].address):
        limits = f"{r.minimum}..{r.maximum}"
        row = [r.address, r.size, name, r.access, r.area.value, _initial(profile, name), limits, r.unit]
        if _number(name) > 1 and before == f"{name.rpartition('_')[0]}_{_number(name) - 1}":
            first = rows[-1]
            first[0], first[2] = (
                f"{str(first[0]).partition('..')[0]}..{r.address}",
                f"{first[2].partition(' ')[0]} to {name}",
            )
            if row[5] != first[5]:
                first[5] = f"{str(first[5]).partition('..')[0]}..{row[5]}"
        else:
            rows.append(row)
        before = name
    return rows


def _number(name: str) -> int:
    """What a register of many equal ones ends in, 0 for the others."""
    last = name.rpartition("_")[2]
    return int(last) if last.isdecimal() else 0


def _initial(profile: FirmwareProfile, name: str) -> Any:
    fixed = {"model_number": profile.model_number, "firmware_version": profile.firmware_version}
    return fixed.get(name, profile.registers[name].initial)


def _schema() -> str:
    base = ["`base`", "none", "Name or path of a profile; the file then says only what differs."]
    tables = {"registers", "behaviour", "timing", "protection", "electrics", "motor", "friction", "path"}
    own = [base, *_fields(FirmwareProfile, without=tables)]
    parts = ["At the top of the file:\n", _table(["key", "default", "meaning"], own)]
    parts.append("`[behaviour]`, the flags of a firmware of Protocol 1.0:\n")
    rows = []
    for flag, field in Behaviour.model_fields.items():
        choices = get_args(field.annotation) or (True, False)
        rows.append([f"`{flag}`", ", ".join(f"`{choice}`" for choice in choices), f"`{field.default}`", FLAGS[flag]])
    parts.append(_table(["key", "choices", "default", "what it decides"], rows))
    for schema, key in (
        (Register, "[registers], one table for each register"),
        (Timing, "[timing]"),
        (Protection, "[protection]"),
        (Electrics, "[electrics]"),
    ):
        parts.append(f"`{key}`:\n")
        parts.append(_table(["key", "default", "meaning"], _fields(schema) + (REPEATED if schema is Register else [])))
    parts.append("`[motor]` and `[friction]` hold the constants that a servo model does not set itself.\n")
    return "\n".join(parts)


def _parameters() -> str:
    """The tables of a file with a servo's parameters."""
    tables = (
        ("`[motor]`", MotorParams),
        ("`[friction]`, at the output", FrictionParams),
        ("`[controller]`", ControllerParams),
        ("`[sensor]`", SensorParams),
        ("`[prediction]`, which `axbridge identify` writes", PredictionParams),
    )
    example = "[Formats](../formats.md#parameters-of-servos) has an example."
    parts = [f"{example} What motor and friction need is the profile's, if left out.\n"]
    for title, schema in tables:
        parts += [f"{title}:\n", _table(["key", "default", "meaning"], _fields(schema))]
    return "\n".join(parts)


def _fields(schema: type[toml_tables.TomlTable], without: Collection[str] = ()) -> list[list[Any]]:
    """Key, default and what is said of each field."""
    said = toml_tables.described(schema)
    return [
        [
            f"`{field.alias or key}`",
            "needed" if field.is_required() else "none" if field.default is None else f"`{_plain(field.default)}`",
            said.get(key, "").replace("|", r"\|") + (_choices(field.annotation) if schema is FirmwareProfile else ""),
        ]
        for key, field in schema.model_fields.items()
        if key not in without
    ]


def _choices(annotation: Any) -> str:
    """What a key may be, where that is one of a few words or numbers."""
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    return f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""


def _plain(value: Any) -> Any:
    return getattr(value, "value", value)


if __name__ == "__main__":
    raise SystemExit(main())
