"""`axbridge scan`: list the servos on the line."""

from __future__ import annotations

import time
from typing import Annotated

from axbridge.bus.commission import restore_status_return_level
from axbridge.bus.handshake import profile_for
from axbridge.bus.port_name import SERVE_PATIENTLY, server_behind, too_busy, unanswered_by
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.scan import RATES, all_bauds, scan_bauds
from axbridge.bus.serial import SerialBus
from axbridge.cli.app import DONE, HARDWARE
from axbridge.cli.options import Result, ids_of, verb
from axbridge.cli.progress import progress
from axbridge.errors import Remedy, UsageError
from axbridge.units import nearest_baud


@verb("--port /dev/ttyUSB0 --baud all")
def scan(
    *,
    port: str | None = None,
    baud: Annotated[str, "`all`: every rate that a servo can be set to."] = "1000000",
    ids: Annotated[str, "To search for, as 1-20 or 1,2,5."] = "0-253",
) -> Result:
    """List the servos that answer, Dynamixel and Feetech, by baud rate. The exit code is 3 if none answers."""
    if baud != "all" and not baud.isdecimal():
        raise UsageError(f"--baud {baud} is no baud rate", "give a number such as 1000000, or `all`")
    bauds = all_bauds() if baud == "all" else [int(baud)]
    if baud != "all" and bauds[0] not in RATES:
        hint = f"the nearest is {nearest_baud(bauds[0], RATES)}; `--baud all` asks at each"
        raise UsageError(f"no servo can be set to {baud} baud", hint)
    wanted, began = ids_of(ids), time.monotonic()
    with SerialBus(port or "auto", bauds[0]) as bus, progress("opening the port") as show:
        by_rate = scan_bauds(bus, bauds, wanted, lambda rate: show(f"asking at {rate} baud"))
        name = bus.port_name
    lines = []
    for rate, servos in by_rate.items():
        for servo in servos:
            profile = profile_for(servo.model, servo.firmware)
            model = profile.name if profile else f"model {servo.model}"
            if servo.mute:
                model = "status return level 0: answers PING, but no read and no write"
            elif servo.model is None:
                model = "damaged answers: two servos with this id?"
            version = "" if servo.firmware is None else f", firmware {servo.firmware}"
            title = "" if servo.protocol == 1 else f", {PROTOCOLS[servo.protocol].title}"
            own = rate if profile is None else round(nearest_baud(rate, profile.units.bauds))
            lines.append(f"{own:>8} baud  id {servo.id:>3}  {model}{version}{title}")
            if servo.mute:
                lines.append(restore_status_return_level(servo.id, says="run {}", port=name, baud=rate))
    if not any(by_rate.values()):
        tried = "any baud rate" if baud == "all" else f"{baud} baud"
        more = Remedy("doctor", port=name) if baud == "all" else Remedy("scan", port=name, baud="all")
        lines = [f"{name}: no servo answered at {tried}", f"run `{more}`"]
    packets = unanswered_by(server_behind(name), began)
    if packets:
        lines += [f"{too_busy(packets)}: the list may lack servos", SERVE_PATIENTLY]
    document = {rate: [vars(servo) for servo in servos] for rate, servos in by_rate.items()}
    facts = {"port": name, "bauds": document, "unanswered_by_server": packets}
    return Result(facts, lines, DONE if any(by_rate.values()) else HARDWARE)
