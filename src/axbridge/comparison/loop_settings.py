"""What the registers made of a servo's loop when a recording was made."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.recording.recording import Recording, Track
from axbridge.units import RPM
from axbridge.virtual.servo import loop_row


def written_in(recording: Recording, name: str) -> dict[str, int]:
    """Registers of a servo that differ from the rig's: those of an imported log, and what an experiment wrote first."""
    known = recording.metadata.get("registers") or {}
    alone: dict[str, int] = (
        next(iter(known.values()), {}) if len(recording) == 1 else {}
    )  # imported logs have names of their own
    written: dict[str, int] = dict(known.get(name, alone))
    for event in recording.events:
        if event.name == "register" and event.data.get("servo") == name:
            written[str(event.data["name"])] = int(event.data["value"])
    return written


def settings_of(rig: Rig, servo: ServoConfig, written: Mapping[str, int]) -> list[float]:
    """One row of `Command`: the rig's registers after power-on, and what was `written` since."""
    return loop_row(rig.profile_of(servo), servo.zero, {**servo.registers, **written})


def speed_limits(rig: Rig, servo: ServoConfig, track: Track) -> FloatArray:
    """Limits of the approach as the register had them, rad/s, (n,); 0 = none.

    A limit that was lifted is recorded as the servo's full speed. The drive writes 0 for that: the goal acts at once,
    and does not come nearer at that speed.
    """
    limits = np.nan_to_num(track.speed_limit)
    if servo.max_velocity is not None:  # then the register has it
        return limits
    full = rig.profile_of(servo).electrics.no_load_speed * RPM
    return np.where(np.isclose(limits, full, rtol=1e-6), 0.0, limits)
