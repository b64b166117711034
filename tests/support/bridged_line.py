"""A bridge before servos, and a program behind it, as a bus on the bridge's port."""

import threading
from contextlib import ExitStack, closing, contextmanager

from axbridge.bridge.black_box import BlackBox
from axbridge.bridge.bridge import Bridge
from axbridge.bridge.gaps import Gaps
from axbridge.bridge.relay import Relay
from axbridge.bus.line_lock import BusLock
from axbridge.bus.port import Port
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.virtual.channel import DirectReader, PtyChannel
from tests.support.pty_line import PtyLine
from tests.support.virtual_rig import make_rig

IDS = (1, 2)


@contextmanager
def bridged(
    profile="ax-12a",
    *,
    virtual=(),
    bridge=None,
    servo=None,
    registers=None,
    path=None,
    watch=False,
    poll=None,
    **safety,
):
    """Yield servos, the program's port and notices of a bridge; its `line.box` records to `path`."""
    profiles, ids = dict.fromkeys(IDS, profile), (*IDS, *virtual)
    rig = make_rig(ids, dict.fromkeys(ids, profile), return_delay_time=0)
    volts = rig.specs[rig.servos[0].name].profile.electrics.nominal_voltage
    bus = [{"name": "main", "supply_voltage": volts}]
    rig = rig.overridden({"safety": safety, "bridge": bridge or {}, "bus": bus})
    if servo:
        rig = rig.with_servos(lambda _: servo)
    notices, over = [], threading.Event()
    with ExitStack() as held:
        line = held.enter_context(PtyLine(profiles))
        for id_ in IDS:
            line.set(id_, **registers or {})
        recorder = path and held.enter_context(Recorder(path, describe(rig, backend="real")))
        line.box = box = BlackBox(rig, recorder)
        held.callback(box.close)
        if watch:
            port = held.enter_context(closing(Port(line.port, 1_000_000)))
            turn = BusLock()
        else:
            here = Bridge(rig, line.port, notices.append, box=box, virtual=map(str, virtual))
            held.callback(here.close)
            turn = here.turn
        gaps = held.enter_context(closing(Gaps(line.port, box, turn, notices.append, poll=poll)))
        channel = held.enter_context(closing(PtyChannel(1_000_000, listen=DirectReader)))

        def relay():
            between = Relay(channel, port)
            box.watch(port, between)
            while not over.is_set():
                between.step(0.005)
                box.work(between.bytes_wait)
                gaps(between)

        run = relay if watch else lambda: here.run(channel, lambda: over.is_set() or box.failure, gaps)
        thread = threading.Thread(target=run)
        thread.start()
        held.callback(thread.join)
        held.callback(over.set)
        yield line, channel.address, notices


def client(port, line):
    """A bus on the port of a bridge, whose servos are those of a line."""
    bus = SerialBus(port)
    bus.latency = 0.1  # s: more than the bridge takes for its own questions on a busy machine
    for id_ in line.tables:
        bus.set_protocol(id_, PROTOCOLS[line[id_].profile.protocol])
    return bus


def write(bus, line, id_, name, value):
    """Write to a register by its name."""
    register = line[id_].profile.register(name)
    return bus.write(id_, register.address, register.encode(value))
