"""`axbridge ports`: list the serial ports of this computer."""

from __future__ import annotations

from serial.tools import list_ports

from axbridge.bus.port_name import connected
from axbridge.cli.app import DONE, HARDWARE
from axbridge.cli.options import Result, lined_up, verb


@verb("")
def ports() -> Result:
    """List the serial ports of this computer; --port takes their names. The exit code is 3 without a USB adapter."""
    likely = connected()
    rows = [
        (port.device, "built-in, not a USB adapter" if port.vid is None else port.description, port.device in likely)
        for port in sorted(list_ports.comports(), key=lambda port: (port.device not in likely, port.device))
    ]
    nothing = ["no serial adapter is plugged in", "plug one in, or start a virtual bus with `axbridge serve RIG`"]
    lines = lined_up([(port, what, "servos" if usual else "") for port, what, usual in rows]) if rows else nothing
    facts = [dict(zip(("port", "what", "usual"), row, strict=True)) for row in rows]
    return Result({"ports": facts}, lines, DONE if likely else HARDWARE)
