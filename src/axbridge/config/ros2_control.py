"""Read ids, port, baud rate and registers of servos from the `<ros2_control>` element of a URDF, in three dialects.

- dynamixel_hardware and similar: ``<joint name="j"><param name="id">2</param></joint>``; the servo's angle is
  ``gear_ratio`` times (the joint's angle plus ``offset``), rad.
- feetech_ros2_driver: the same, but ``offset`` is the count at 0 rad, and ``p_cofficient`` (sic) is the P gain.
- dynamixel_hardware_interface of ROBOTIS: ``<gpio name="dxl1"><param name="ID">11</param></gpio>``; further parameters
  are registers, and a matrix maps servos to joints, with their directions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from axbridge.config.urdf import root_of
from axbridge.errors import RigError
from axbridge.file_reading import reading, snake_case

_MATRIX = "transmission_to_joint_matrix"
_VELOCITY = 1  # Operating Mode of X and STS servos
_EXPAND = "expand it first: xacro FILE > robot.urdf"
_PLACE = {"offset": "0", "gear_ratio": "1"}  # mounting of a joint on its servo, with defaults


class Ros2Servo(NamedTuple):
    """A servo of a joint."""

    id: int
    zero: int | None  # count at 0 rad, if the file has it
    registers: dict[str, int]  # by their names in a profile
    offset: float = 0.0  # rad from the middle of the servo's range to the joint's zero
    direction: int = 1  # -1: joint and servo turn in opposite directions


class Ros2Control(NamedTuple):
    """The servos of a robot and their line."""

    servos: dict[str, Ros2Servo]  # by joint
    port: str | None
    baud: int | None


def read_ros2_control(path: Path) -> Ros2Control | None:
    """Read the servos that a URDF has for ros2_control; return None if it has none.

    Raises:
        RigError: it is a xacro file or no XML, or its servo parameters are inconsistent.
    """
    with reading(partial(RigError, path, ""), "give a valid URDF file"):
        root = root_of(path)
    if any("xacro" in element.tag for element in root.iter() if isinstance(element.tag, str)):
        raise RigError(path, "", "it is a xacro file, with macros in it", _EXPAND)
    servos: dict[str, Ros2Servo] = {}
    settings: dict[str, str] = {}
    for control in root.iterfind("ros2_control"):
        hardware = _params(control.find("hardware"))
        settings |= hardware
        joints = control.findall("joint")
        for joint in joints:
            given = _params(joint)
            if "id" in given:
                feetech = "feetech" in control.findtext("hardware/plugin", "").lower()
                servos[joint.get("name", "")] = _servo(path, "id", given, _mode(joint), counts=feetech)
        tables = map(_params, control.findall("gpio"))
        gpios = [gpio for gpio in tables if "ID" in gpio and gpio.get("type", "dxl") == "dxl"]
        for name, gpio in _moved(path, joints, gpios, hardware).items():
            servos[name] = _servo(path, "ID", gpio, {})
    if not servos:
        return None
    baud = settings.get("baud_rate")
    port = settings.get("usb_port") or settings.get("port_name")
    return Ros2Control(servos, port, int(baud) if baud else None)


def _params(element: ET.Element | None) -> dict[str, str]:
    params = () if element is None else element.findall("param")
    return {param.get("name", ""): (param.text or "").strip() for param in params}


def _mode(joint: ET.Element) -> dict[str, int]:
    """Return the Operating Mode for a joint's command interfaces; empty for the default, position control."""
    commands = {interface.get("name") for interface in joint.findall("command_interface")}
    return {"operating_mode": _VELOCITY} if commands == {"velocity"} else {}


def _servo(
    path: Path, key: str, given: Mapping[str, str], registers: dict[str, int], *, counts: bool = False
) -> Ros2Servo:
    if not given[key].isdecimal():
        hint = _EXPAND if "${" in given[key] else "write a number"
        raise RigError(path, "ros2_control", f"{key} = {given[key]!r} is no id", hint)
    others = {
        re.sub("_coe?fficient$", "_gain", snake_case(name)): int(float(value))
        for name, value in given.items()
        if name not in {key, "type", *_PLACE} and re.fullmatch(r"-?\d+(\.0*)?", value)
    }
    offset, gear = (_number(path, name, given.get(name, default)) for name, default in _PLACE.items())
    if abs(gear) != 1:
        why = f"gear_ratio = {gear:g}: a rig cannot have a gear between servo and joint"
        raise RigError(path, "ros2_control", why, "leave this servo out, or describe the joint as the servo turns")
    zero = int(offset) if counts and "offset" in given else None
    return Ros2Servo(int(given[key]), zero, {**registers, **others}, 0.0 if counts else gear * offset, int(gear))


def _number(path: Path, name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        hint = _EXPAND if "${" in text else "correct it"
        raise RigError(path, "ros2_control", f"{name} = {text!r} is no number", hint)
    return number


def _moved(
    path: Path, joints: list[ET.Element], gpios: list[dict[str, str]], hardware: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return the servo of each joint by the matrix; without one, in their order."""
    if not gpios:
        return {}
    numbers = list(map(float, re.findall(r"-?\d+(?:\.\d+)?", hardware.get(_MATRIX, ""))))
    matrix = np.array(numbers) if numbers else np.eye(len(gpios)).ravel()
    if matrix.size != len(joints) * len(gpios):
        why = f"{_MATRIX} has {matrix.size} numbers for {len(joints)} joints and {len(gpios)} servos"
        raise RigError(path, "ros2_control", why, "correct the file")
    moved = {}
    for joint, row in zip(joints, matrix.reshape(len(joints), len(gpios)), strict=True):
        if row.any():
            servo = int(np.abs(row).argmax())
            moved[joint.get("name", "")] = gpios[servo] | {"gear_ratio": str(row[servo])}
    return moved
