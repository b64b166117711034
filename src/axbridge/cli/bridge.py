"""`axbridge bridge`: a program on one side, real servos on the other, and rules between them."""

from __future__ import annotations

import json as json_text
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from axbridge.bridge.bridge import Bridge, only_bus
from axbridge.bridge.relay import Packets, Relay
from axbridge.bridge.rules import Notice
from axbridge.bus.port import Port
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus
from axbridge.cli.app import DONE, app
from axbridge.cli.options import JsonOption, PortOption, RigArgument, shared
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.robot.backend import ports_of
from axbridge.robot.mixed import open_mixed
from axbridge.virtual.channel import Channel, DirectReader, PtyChannel, TcpChannel, is_loopback, parse_address
from axbridge.virtual.wake_latency import wake_on_time

_TICK = 0.02  # s


@app.command()
def bridge(
    rig: RigArgument,
    port: PortOption = None,
    link: Annotated[Path | None, shared("--link", "The program opens it.")] = None,
    tcp: Annotated[str, shared("--tcp", "The host is this machine.")] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Pass every byte unchanged, and apply no rule.")] = False,
    allow_service: Annotated[
        bool, typer.Option("--allow-service", help="Let EEPROM writes, ids, rates and factory resets pass.")
    ] = False,
    virtual: Annotated[
        list[str] | None, typer.Option("--virtual", help="Simulate these: 'left_*', 7-12; repeat.", metavar="NAMES|IDS")
    ] = None,
    json: JsonOption = False,
) -> int:
    """Stand between any program and the robot: limit what it writes, and leave the motors safe when it is gone.

    It prints `ready: PORT` when the program may open that port, then a line for each rule that acts; with --json each
    is a JSON document.
    """
    if tcp and not is_loopback(parse_address(tcp)[0]):
        raise UsageError(f"--tcp {tcp}: other machines could move the robot", "take 127.0.0.1")
    stop: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: stop.append(received))
    loaded = Rig.load(rig)
    only_bus(loaded)

    def notify(notice: Notice) -> None:
        if json:
            print(json_text.dumps({"time": time.time(), **notice._asdict()}), flush=True)
        else:
            print(f"{time.strftime('%H:%M:%S')} {notice.servo or '-'}  {notice.text}", flush=True)

    def opened() -> Channel:
        channel: Channel = (
            TcpChannel(*parse_address(tcp)) if tcp else PtyChannel(loaded.buses[0].baud, link, DirectReader)
        )
        text = json_text.dumps({"ready": channel.address}) if json else f"ready: {channel.address}"
        print(text, flush=True)
        return channel

    wake_on_time()
    if watch:
        with ExitStack() as open_:
            packets = None
            if virtual:
                backend = open_mixed(loaded, port, virtual)
                open_.callback(backend.close)
                (bus,) = backend.buses.values()
                assert isinstance(bus, SerialBus)  # of a real line
                line = bus.port
                versions = {PROTOCOLS[loaded.profile_of(servo).protocol].version for servo in loaded.dynamixels}
                packets = Packets(versions, lambda _, __, frame: frame)
            else:
                line = Port(ports_of(loaded, port)[0], loaded.buses[0].baud)
                open_.callback(line.close)
            channel = opened()
            open_.callback(channel.close)
            relay = Relay(channel, line, packets, say=lambda text: notify(Notice("", "port", text)))
            while not stop:
                relay.step(_TICK)
        return DONE
    between = Bridge(loaded, port, notify, allow_service=allow_service, virtual=virtual or ())
    try:
        channel = opened()
        try:
            between.run(channel, lambda: bool(stop))
        finally:
            channel.close()
    finally:
        between.close()
    return DONE
