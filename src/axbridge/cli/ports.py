"""`axbridge ports`: the adapters that are plugged in, by their names on this system."""

from __future__ import annotations

from serial.tools.list_ports import comports

from axbridge.bus.adapter import connected
from axbridge.cli.app import DONE, HARDWARE, app, emit_json
from axbridge.cli.options import JsonOption, print_table


@app.command()
def ports(*, json: JsonOption = False) -> int:
    """List the serial ports of this computer; --port takes their names. The exit code is 3 without a USB adapter."""
    likely = connected()
    found = [
        {
            "port": one.device,
            "what": "built-in, not a USB adapter" if one.vid is None else one.description,
            "usual": one.device in likely,
        }
        for one in sorted(comports(), key=lambda one: (one.device not in likely, one.device))
    ]
    if json:
        emit_json("ports-1", {"ports": found})
    elif found:
        print_table([(str(one["port"]), str(one["what"]), "servos" if one["usual"] else "") for one in found])
    else:
        print("no serial adapter is plugged in\nplug one in, or start a virtual bus with `axbridge serve RIG`")
    return DONE if likely else HARDWARE
