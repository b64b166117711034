"""A real inertial measurement unit on a serial line: the Razor AHRS firmware of SparkFun's 9DoF boards.

It sends a line of text 50 times a second: ``#YPRAG=yaw,pitch,roll,ax,ay,az,gx,gy,gz``, in degrees, 1/256 of standard
gravity and rad/s, in axes that look ahead, right and down. A thread of its own reads them, so that no step waits.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import serial

from axbridge.clock import Clock, WallClock
from axbridge.errors import PortError
from axbridge.robot.sensors import ImuSample
from axbridge.rotations import of_roll_pitch_yaw

_MARK = b"#YPRAG="
_UNIT = 9.80665 / 256  # m/s² of an acceleration of 1
_STALE = 0.1  # s: five lines have not come
_START = 5.0  # s: a board that is reset by opening its port takes so long to its first line
_ASK = b"#o0\r#ox\r#o1\r"  # be still; angles, accelerations and rates as text; go on
_AGAIN = 0.5  # s between two tries to open a port that was lost
_WAIT = 0.1  # s that a read waits for bytes, so that `close` is soon heard
_LONGEST = 200  # bytes of a line; what is longer is none


class SerialImu:
    """An IMU that is read all the time; see `axbridge.robot.sensors.Sensor`.

    A sample older than 0.1 s is none: `read` then gives None, and `trouble` says why. A port that was lost is opened
    again as soon as it is back.
    """

    def __init__(self, port: str, baud: int, clock: Clock | None = None) -> None:
        self._port, self._baud, self._clock = port, baud, clock or WallClock()
        self._latest: ImuSample | None = None
        self._lost = ""
        self._first, self._ending = threading.Event(), threading.Event()
        line = self._opened()
        self._thread = threading.Thread(target=self._run, args=(line,), name=f"imu on {port}", daemon=True)
        self._thread.start()
        if not self._first.wait(_START):
            self.close()
            hint = "check its baud rate, and that it runs the Razor AHRS firmware"
            raise PortError(port, f"no line of an IMU has come within {_START:g} s", hint)

    @property
    def trouble(self) -> str:
        """Why there is no sample."""
        return f"the IMU on {self._port} {self._lost or 'has fallen silent'}"

    def read(self, zero: float) -> ImuSample | None:
        """The latest sample; None when it is older than 0.1 s."""
        latest = self._latest  # one reference: the thread exchanges it as a whole
        if latest is None or self._clock.now() - latest.time > _STALE:
            return None
        return ImuSample(latest.time - zero, latest.orientation, latest.rates, latest.acceleration)

    def close(self) -> None:
        """End the thread, which closes the port."""
        self._ending.set()
        self._thread.join()

    def _opened(self) -> Any:
        try:
            line = serial.serial_for_url(self._port, self._baud, timeout=_WAIT)
            line.write(_ASK)
        except (serial.SerialException, OSError, ValueError) as failure:
            raise PortError(self._port, f"cannot be opened: {failure}", "check the sensor's port in the rig") from None
        return line

    def _run(self, line: Any) -> None:
        """The thread: take over line by line, until the end."""
        rest = b""
        while not self._ending.is_set():
            try:
                if line is None:
                    line = self._opened()
                    self._lost = ""
                *whole, rest = (rest + line.read(max(1, line.in_waiting))).split(b"\n")
            except (PortError, serial.SerialException, OSError, TypeError) as failure:  # pyserial's of a line cut off
                self._lost = f"is lost: {failure.message if isinstance(failure, PortError) else failure}"
                if line is not None:
                    line.close()
                line, rest = None, b""
                self._ending.wait(_AGAIN)
                continue
            rest = rest[-_LONGEST:]
            for text in whole:
                sample = parsed(text, self._clock.now())
                if sample is not None:
                    self._latest = sample
                    self._first.set()
        if line is not None:
            line.close()


def parsed(line: bytes, time: float) -> ImuSample | None:
    """One line as a sample; None for what is damaged or something else."""
    if not line.startswith(_MARK):
        return None
    try:
        figures = [float(word) for word in line.removeprefix(_MARK).split(b",")]
    except ValueError:
        return None
    if len(figures) != 9 or not all(map(math.isfinite, figures)):
        return None
    yaw, pitch, roll = map(math.radians, figures[:3])
    ax, ay, az, gx, gy, gz = figures[3:]
    # The firmware negates accelerations, and its y and z are ours turned about x by half a turn.
    push = -ax * _UNIT, ay * _UNIT, az * _UNIT
    return ImuSample(time, of_roll_pitch_yaw(roll, -pitch, -yaw), (gx, -gy, -gz), push)
