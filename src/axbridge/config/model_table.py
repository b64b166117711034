"""ROBOTIS' `.model` control tables (dynamixel_hardware_interface, param/dxl_model) as profiles.

Such a table has addresses, sizes, names and some units. Access, ranges and factory values come from registers of the
same name and size in the nearest known profile; for other registers they are unknown.
"""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from axbridge.config.profile import FOLDER, FirmwareProfile, Register
from axbridge.config.registers import FAMILIES
from axbridge.config.toml_tables import parse_toml, shipped_names, validate, written
from axbridge.errors import ProfileError
from axbridge.file_reading import reading, refuse_other_kind, regular, snake_case

_NUMBERS = "dynamixel.model"  # the list of model numbers, beside the tables
_HINT = "give a table of a servo with Torque Enable at 64, of ROBOTIS' dynamixel_hardware_interface"


class FromModel(NamedTuple):
    """A profile made from a control table."""

    text: str  # TOML
    nearest: str  # profile that supplied the other values
    unknown: tuple[str, ...]  # registers of which only address and size are known
    left_out: tuple[str, ...]  # registers left out because they share bytes with another


def profile_of_model(path: Path, name: str) -> FromModel:
    """Make a profile from a `.model` file.

    Raises:
        ProfileError: the file is no control table of a Protocol 2.0 servo.
    """
    with reading(partial(ProfileError, path, ""), _HINT):
        refuse_other_kind(path, partial(ProfileError, path, ""), but="a control table of ROBOTIS (.model)")
        head, _, table = regular(path).read_text(encoding="utf-8").partition("[control table]")
        heads = (line.split("\t") for line in head.splitlines())
        units = {snake_case(row[0]): f"{row[1]} {row[2]}" for row in heads if len(row) > 2}
        rows = [line.split("\t") for line in table.splitlines() if re.match(r"\d+\t\d+\t\S", line)]
        places = {snake_case(words): (int(address), int(size)) for address, size, words in (row[:3] for row in rows)}
    if places.get("torque_enable") != (int(FAMILIES[2].addresses.TORQUE_ENABLE), 1):
        why = "it has no Torque Enable at 64, as each servo of Protocol 2.0"
        raise ProfileError(path, "[control table]", why, _HINT)
    shipped = map(FirmwareProfile.load, shipped_names(FOLDER))
    number = _model_number(path)

    def likeness(profile: FirmwareProfile) -> tuple[bool, int]:
        alike = sum(places.get(key) == (r.address, r.size) for key, r in profile.registers.items())
        return profile.model_number == number, alike

    nearest = max((profile for profile in shipped if profile.protocol == 2), key=likeness)
    taken: set[int] = set()
    unknown, left_out, lines = [], [], []
    for key, (address, size) in places.items():
        place = set(range(address, address + size))
        if place & taken:
            left_out.append(key)
            continue
        taken |= place
        like = nearest.registers.get(key)
        if like is None or like.size != size:
            unknown.append(key)
            plain = {"address": address, "size": size, "max": 2 ** (8 * size) - 1, "unit": units.get(key, "")}
            like = Register.model_validate(plain)
        lines.append(f"{key} = {written(_entry(like, address, places))}")
    text = _text(path, name, nearest, number, lines, unknown)
    validate(FirmwareProfile, {**parse_toml(text, path, ProfileError), "path": path}, path, ProfileError)
    return FromModel(text, nearest.name, tuple(unknown), tuple(left_out))


def _entry(like: Register, address: int, table: dict[str, tuple[int, int]]) -> dict[str, Any]:
    values = like.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    copied = str(like.initial).removeprefix("@")
    if isinstance(like.initial, str) and copied not in table:
        values.pop("initial")
    area = "eeprom" if address < FAMILIES[2].addresses.TORQUE_ENABLE else "ram"
    return {**values, "address": address, "size": like.size, "area": area, "max": like.maximum}


def _text(
    path: Path, name: str, nearest: FirmwareProfile, number: int | None, lines: list[str], unknown: list[str]
) -> str:
    known = {instruction.name for instruction in FAMILIES[2].instructions}
    head = {
        "name": name, "description": f"made of {path.name}", "model": nearest.model, "protocol": 2,
        "model_number": nearest.model_number if number is None else number,
        "firmware_version": nearest.firmware_version, "units": nearest.units_name,
        "instructions": [name for name in nearest.instructions if name in known],
    }  # fmt: skip
    notes = [
        f"# Made of {path.name}. Access, ranges and factory values of registers are those of {nearest.name}.",
        *(["# The model number is not known: it is that of the same profile."] if number is None else []),
        f"# Unknown beyond address and size (read only, any value): {', '.join(unknown) or 'none'}.",
        f"# Everything below [registers] is that of {nearest.name}, too: correct it.",
    ]
    parts = [*notes, "", *(f"{key} = {written(value)}" for key, value in head.items()), "", "[registers]", *lines]
    for table in ("timing", "protection", "electrics", "motor", "friction"):
        values = getattr(nearest, table)
        values = values if isinstance(values, dict) else values.model_dump(mode="json", exclude_none=True)
        finite = [key for key, value in values.items() if not isinstance(value, float) or math.isfinite(value)]
        parts += ["", f"[{table}]", *(f"{key} = {written(values[key])}" for key in finite)]
    return "\n".join(parts) + "\n"


def _model_number(path: Path) -> int | None:
    """Return the model number of a table from the list beside it; `_fw52` in a file name is a firmware version."""
    numbers = path.with_name(_NUMBERS)
    wanted = {path.name, re.sub(r"_fw\d+(?=\.model$)", "", path.name)}
    lines = numbers.read_text(encoding="utf-8").splitlines() if numbers.is_file() else []
    rows = (line.split("\t") for line in lines)
    named = (int(row[0]) for row in rows if row[-1].strip() in wanted and row[0].isdigit())
    return next(named, None)
