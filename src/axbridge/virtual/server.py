"""Serve the lines of a world to clients in real time: each reply leaves when it would on a real line."""

from __future__ import annotations

import gc
import math
import os
import select
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import accumulate

from axbridge.bus.port_name import busy_file
from axbridge.errors import plural
from axbridge.virtual.channel import Channel
from axbridge.virtual.control import match_plug
from axbridge.virtual.line import Line
from axbridge.virtual.wake_latency import Awake, wake_on_time
from axbridge.virtual.world import World

_SPIN = 60e-6  # s before a reply is due: from then on the loop polls the clock instead of sleeping
_SUSPENDED = 1.0  # s: a pause of the whole process longer than this is left out of simulated time
_LATE = 100  # µs after which a reply counts as late
_SILENT = 0.05  # s: packets that arrive, and replies that leave, later than this are dropped
# s of bytes that wait for the wire: beyond this a client blocks, as with a real adapter; with timing ``none``,
# the most by which simulated time is ahead of the motors
_AHEAD = 0.03
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
_QUIET = 0.2  # s without a packet after which idle cores may sleep again


class Console:
    """Reads commands from standard input while serving: `run_command` executes a line, `say` prints its result."""

    def __init__(self, descriptor: int, run_command: Callable[[str], str], say: Callable[[str], None]) -> None:
        self.descriptor = descriptor  # -1 after the end of the input
        self._run_command, self._say = run_command, say
        self._partial_line = b""

    def read(self) -> None:
        """Read the available input; execute complete lines."""
        try:
            data = os.read(self.descriptor, 4096)
        except OSError:  # the process lost its terminal
            data = b""
        if not data:
            self.descriptor = -1
            return
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            if text := line.decode(errors="replace").strip():
                self._say(self._run_command(text))


class Lateness:
    """A histogram, in microseconds, of how late replies left after their due times."""

    def __init__(self) -> None:
        self._bins = [0] * 2000  # the last bin counts all longer times
        self.worst = 0.0  # s
        self.unanswered = 0  # packets dropped because the machine was too busy

    def drop(self) -> None:
        """Count an unanswered packet, and write the count to a file that clients' tools read."""
        self.unanswered += 1
        with suppress(OSError):
            file = os.open(busy_file(os.getpid()), _WRITE, 0o644)
            os.write(file, f"{self.unanswered} {time.monotonic()}".encode())
            os.close(file)

    def close(self) -> None:
        """Remove the file of `drop`."""
        with suppress(OSError):
            busy_file(os.getpid()).unlink(missing_ok=True)

    def add(self, late: float) -> None:
        """Count one reply that left `late` seconds after its due time."""
        self.worst = max(self.worst, late)
        self._bins[min(max(int(late * 1e6), 0), len(self._bins) - 1)] += 1

    def _quantile(self, share: float) -> int:
        """Return the lateness that this share of the replies does not exceed, µs; 0 without replies."""
        counts = list(accumulate(self._bins))
        return bisect_left(counts, share * counts[-1]) + 1 if counts[-1] else 0

    def summary(self, packets: int) -> str:
        """Return one line for the user."""
        return (
            f"served {plural(packets, 'packet')}, {sum(self._bins[_LATE + 1 :])} late by more than {_LATE} µs, worst "
            f"{self.worst * 1e6:.0f} µs (median {self._quantile(0.5)} µs, 99 % within {self._quantile(0.99)} µs)"
        )


def serve(
    world: World,
    channels: Mapping[str, Channel],
    stopping: Callable[[], bool],
    ready: Callable[[], None],
    console: Console | None = None,
) -> Lateness:
    """Serve in real time until `stopping()`, checked every 20 ms; call `ready` when clients may connect.

    With timing ``none`` no packet stays unanswered on a busy computer. Its answer comes late, and simulated time waits
    for this process and for the motors.
    """
    wake_on_time()
    gc.collect()
    gc.freeze()  # exclude existing objects: a full collection takes tens of milliseconds
    lateness = Lateness()
    lines: Mapping[str, Line] = {}
    offset = time.monotonic() - world.now()
    world.sleep_until(time.monotonic() - offset)
    awake, packet_at = Awake(), 0.0
    ready()
    while not stopping():
        if lines is not world.lines:  # the first time, and after a reset of the world
            lines, pairs = world.lines, [(world.lines[name], channel) for name, channel in channels.items()]
            untimed = all(line.timing == "none" for line, _ in pairs)
        now = time.monotonic() - offset
        if now - world.now() > _SUSPENDED:
            offset += now - world.now()
            now = world.now()
            for line, _ in pairs:
                line.drop_replies()
        if untimed and now > (most := world.now() + max(_AHEAD - world.bank.behind, 0.0)):
            offset += now - most
            now = most
        world.sleep_until(now)
        due = math.inf
        for line, channel in pairs:
            match_plug(line, channel)
            due = min(due, _deliver(line, channel, now, offset, lateness))
        now = time.monotonic() - offset
        if due - now > _SPIN:
            if _listen(world, pairs, console, min(due - _SPIN, world.next_watch) - now, offset, lateness):
                awake.hold()
                packet_at = now
            elif now - packet_at > _QUIET:
                awake.release()
        else:
            while (now := time.monotonic() - offset) < due:
                pass
            for line, channel in pairs:
                _deliver(line, channel, now, offset, lateness)
    awake.release()
    lateness.close()
    return lateness


def _deliver(line: Line, channel: Channel, now: float, offset: float, lateness: Lateness) -> float:
    """Write the replies that are due; return when the line's next event is due."""
    for delivery in line.collect(now + channel.transit):
        late = time.monotonic() - offset + channel.transit - delivery.due
        if late > _SILENT and line.timing == "wire":
            lateness.drop()
            continue
        lateness.add(late)
        channel.write(delivery.data)
    return line.next_due - channel.transit


def _listen(
    world: World,
    pairs: list[tuple[Line, Channel]],
    console: Console | None,
    wait: float,
    offset: float,
    lateness: Lateness,
) -> bool:
    """Wait for bytes for at most `wait` seconds (if positive) and send them on their line; return whether any came."""
    free = [(line, channel) for line, channel in pairs if line.host_free < world.now() + _AHEAD]
    for line, channel in pairs:
        if (line, channel) not in free:
            channel.hold()
        if channel.left:
            channel.left = False
            line.clear()  # the next client must not get answers to packets of this one
    open_ = {number for _, channel in free for number in channel.descriptors()}
    waiting = [*open_, console.descriptor] if console is not None and console.descriptor >= 0 else list(open_)
    received_any = False
    if not waiting:  # Windows can only wait for sockets
        time.sleep(max(wait, 0.0))
        return False
    held = [channel for _, channel in free if channel.waits]
    ready = set(select.select(waiting, [], [], 0.0 if held else max(wait, 0.0))[0])
    if time.monotonic() - offset - world.now() > _SUSPENDED:
        return True  # simulated time must first leave out the pause; otherwise the line would stay busy until its end
    if ready - open_:
        assert console is not None  # no other descriptor was waited for
        console.read()
    for line, channel in free:
        if channel not in held and ready.isdisjoint(channel.descriptors()):
            continue
        for arrival in channel.receive():
            earliest_read = max(arrival.time, line.host_free + offset - _AHEAD)  # earlier, the line was not read
            if max(time.monotonic() - earliest_read, world.bank.behind) > _SILENT and line.timing == "wire":
                lateness.drop()  # dropped bytes also take their time on the wire: otherwise the backlog would never end
                line.host_free = max(line.host_free, arrival.time - offset) + line.seconds(len(arrival.data))
                continue
            line.baud = arrival.baud or line.baud
            line.send(arrival.data, arrival.time - offset)
        # Executing early (by the frame's own length) saves a wake-up; the answer still leaves when it is due.
        line.execute(line.host_free)
        received_any = True
    return received_any
