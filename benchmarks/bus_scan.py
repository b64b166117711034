"""Time to scan ids 0..253 at one baud rate for 18 servos, next to dynamixel-sdk's ping; prints JSON."""

from __future__ import annotations

import json
import time

import dynamixel_sdk
from bus_line import line

from axbridge.bus.scan import scan
from axbridge.bus.serial import SerialBus


def main() -> None:
    """Measure and print."""
    report = {}
    for timing in ("wire", "none"):
        with line(18, timing) as port:
            with SerialBus(port) as bus:
                began = time.perf_counter()
                found = scan(bus)
                report[f"axbridge, {timing}"] = {"s": time.perf_counter() - began, "found": len(found)}
            if timing == "wire":
                handler, packets = dynamixel_sdk.PortHandler(port), dynamixel_sdk.PacketHandler(1.0)
                handler.setBaudRate(1_000_000)
                began = time.perf_counter()
                count = sum(packets.ping(handler, id_)[1] == 0 for id_ in range(253))
                report["dynamixel-sdk, wire"] = {"s": time.perf_counter() - began, "found": count}
                handler.closePort()
    print(json.dumps(report, indent=2))


main()
