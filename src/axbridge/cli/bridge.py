"""`axbridge bridge`: relay packets between a program and real servos, and apply safety rules to them."""

from __future__ import annotations

import gc
import json as json_text
import os
import signal
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Annotated

from axbridge.bridge.black_box import BlackBox, in_words
from axbridge.bridge.bridge import Bridge, only_bus
from axbridge.bridge.gaps import Gaps
from axbridge.bridge.relay import Packets, Relay
from axbridge.bridge.rules import Notice
from axbridge.bus.line_lock import BusLock
from axbridge.bus.port import Port
from axbridge.bus.port_name import is_served
from axbridge.bus.serial import SerialBus
from axbridge.cli.app import DONE, HARDWARE, unread
from axbridge.cli.options import WRITES, RigArgument, verb
from axbridge.config.rig import Rig
from axbridge.errors import UsageError, plural, warn
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.robot.backend import ports_of
from axbridge.robot.mixed import open_mixed
from axbridge.robot.safety.net import NETS
from axbridge.virtual.channel import Channel, DirectReader, PtyChannel, TcpChannel, is_loopback, parse_address
from axbridge.virtual.wake_latency import wake_on_time

_TICK = 0.02  # s
_SWITCH = 0.0005  # s that the thread of the recorder may hold a packet up


@verb("so101 --port /dev/ttyACM0 --link ./arm")
def bridge(
    rig: RigArgument,
    *,
    port: str | None = None,
    link: Annotated[Path | None, "The program opens it."] = None,
    tcp: Annotated[str, "The host is this machine."] = "",
    watch: Annotated[bool, "Pass every byte unchanged, and apply no rule."] = False,
    allow_service: Annotated[bool, "Let EEPROM writes, ids, rates and factory resets pass."] = False,
    record: Annotated[Path | None, "Packets and notices, too.", WRITES] = None,
    poll: Annotated[float, "Sample servos that the program does not read so often.", "HZ", {"min": 0.0}] = 0.0,
    virtual: Annotated[list[str] | None, "Simulate these: 'left_*', 7-12; repeat.", "NAMES|IDS"] = None,
    json: bool = False,
) -> int:
    """Stand between any program and the robot: limit what it writes, and leave the motors safe when it is gone.

    It prints `ready: PORT` when the program may open that port, then a line for each rule that acts; with --json each
    is a JSON document.
    """
    if tcp and not is_loopback(parse_address(tcp)[0]):
        raise UsageError(f"--tcp {tcp}: other machines could move the robot", "take 127.0.0.1")
    if tcp and link is not None:
        raise UsageError("a program opens either --link or --tcp", "give one of them")
    stop: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: stop.append(received))
    loaded = Rig.load(rig)
    only_bus(loaded)

    def notify(notice: Notice) -> None:
        plain = f"{time.strftime('%H:%M:%S')} {notice.servo or '-'}  {notice.text}"
        try:
            print(json_text.dumps({"time": time.time(), **notice._asdict()}) if json else plain, flush=True)
        except OSError as failure:  # stdout is closed, as after `| head`: the bridge must keep running
            unread()
            warn(f"notices are not printed any more: {failure.strerror}")

    def noted(notice: Notice) -> None:
        box.note(notice)
        notify(notice)

    ready = False  # whether a program may have used the bridge

    def opened() -> Channel:
        channel: Channel = (
            TcpChannel(*parse_address(tcp)) if tcp else PtyChannel(loaded.buses[0].baud, link, DirectReader)
        )
        text = json_text.dumps({"ready": channel.address}) if json else f"ready: {channel.address}"
        print(text, flush=True)
        nonlocal ready
        ready = True
        return channel

    def finish() -> None:
        box.close()
        if not ready:
            return
        summary = box.summary()
        for line in [json_text.dumps({"summary": summary})] if json else in_words(summary):
            print(line, flush=True)

    def settle(record: Path, old: Path) -> None:
        if not ready and record.is_file() and not (old.exists() and record.samefile(old)):
            record.unlink()  # a bridge that did not start leaves nothing in the way of the next one
        if old.exists() and record.exists():
            old.unlink()
        elif old.exists():
            old.rename(record)

    if poll and record is None:
        raise UsageError("--poll takes samples for a recording", "add --record FILE.mcap")
    wake_on_time()
    device = ports_of(loaded, port)[0]
    with ExitStack() as held:
        recorder = None
        if record is not None:
            old = record.with_name(f".{os.getpid()}.old")  # kept until the bridge has started
            with suppress(OSError):  # a file system without links
                if record.is_file():
                    os.link(record, old)
            held.callback(settle, record, old)
            facts = describe(loaded, experiment="bridge", backend="real")
            served = {"servos": "virtual"} if is_served(device) else {}
            recorder = held.enter_context(Recorder(record, facts | served))
        box = BlackBox(loaded, recorder)
        between = packets = None
        if not watch:
            between = Bridge(loaded, port, notify, allow_service=allow_service, box=box, virtual=virtual or ())
        elif virtual:
            backend = open_mixed(loaded, port, virtual)
            held.callback(backend.close)
            (bus,) = backend.buses.values()
            assert isinstance(bus, SerialBus)  # `open_mixed` gives every real line one
            line = bus.port
            packets = Packets(box.traffic.versions, lambda _, __, frame: frame)
        else:
            line = held.enter_context(closing(Port(device, loaded.buses[0].baud)))
            line.refuse_bridge()
        held.callback(finish)
        if between is not None:
            held.callback(between.close)
        turn = BusLock() if between is None else between.turn
        period = 1 / poll if poll else None
        gaps = held.enter_context(closing(Gaps(device, box, turn, noted, link=link, poll=period)))
        sys.setswitchinterval(_SWITCH)
        gc.collect()
        gc.freeze()  # a garbage collection of all existing objects takes milliseconds
        channel = held.enter_context(closing(opened()))
        if between is not None:
            between.run(channel, lambda: bool(stop or box.failure), gaps)
        else:
            relay = Relay(channel, line, packets, say=lambda text: noted(Notice("", "port", text)))
            box.watch(line, relay)
            while not stop:
                relay.step(_TICK)
                box.work(relay.bytes_wait)
                gaps(relay)
    if record is not None and not json:
        print(f"wrote {record}: {plural(box.rows, 'row')}")
    return HARDWARE if NETS.unconfirmed else DONE
