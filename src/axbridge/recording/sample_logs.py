"""Recordings of real servos that come with axbridge, for trials without a robot.

>>> from axbridge import samples
>>> samples.names()
['xl330']
>>> recording = samples.load("xl330")

On the command line: ``axbridge import sample:xl330 pendulum.mcap``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from axbridge.config.toml_tables import shipped
from axbridge.errors import UsageError, nearest
from axbridge.recording.import_logs import import_log
from axbridge.recording.recording import Recording


class Sample(NamedTuple):
    """A log that comes with axbridge."""

    file: str  # its path in the folder of samples
    servo: str  # name for its servo
    about: str  # content, author and licence


SAMPLES = {
    "xl330": Sample(
        "xl330_pendulum/xl330_kp400_lift_and_drop.json",
        "pendulum",
        "a Dynamixel XL330 lifts a 0.49 kg pendulum and lets it drop; by Rhoban (github.com/Rhoban/bam), Apache-2.0",
    ),
}


def names() -> list[str]:
    """Return the names of the samples."""
    return sorted(SAMPLES)


def find(name: str) -> Sample:
    """Return the sample called `name`; raise UsageError if there is none."""
    if name not in SAMPLES:
        raise UsageError(f"there is no sample {name!r}", f"{nearest(name, SAMPLES)}samples: {', '.join(names())}")
    return SAMPLES[name]


def path(name: str) -> Path:
    """Return the path of a sample's unchanged log; raise UsageError if there is none."""
    return shipped("docs/real") / find(name).file


def load(name: str) -> Recording:
    """Return a sample as a recording; raise UsageError if there is none."""
    return import_log(path(name), servo=find(name).servo)
