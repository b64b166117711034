"""`axbridge serve`: a rig's servos on a pseudo-terminal, for any Dynamixel software."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from axbridge.cli.app import DONE, app
from axbridge.cli.options import SeedOption


@app.command()
def serve(
    rig: Annotated[str, typer.Argument(help="Rig name (see hil_rigs) or path of a rig file.")],
    *,
    link: Annotated[Path | None, typer.Option("--link", help="Keep this symbolic link on the port.")] = None,
    timing: Annotated[str, typer.Option("--timing", help="wire, or none: answer at once.")] = "wire",
    seed: SeedOption = 0,
    model: Annotated[str, typer.Option("--model", help="Servo model that stands in for hardware.")] = "ax12",
) -> int:
    """Put a rig's servos on a pseudo-terminal, as if it were the bus."""
    from axbridge.errors import UsageError
    from axbridge.firmware.pty import PtyChannel
    from axbridge.firmware.server import Channel
    from axbridge.firmware.server import serve as serve_world
    from axbridge.firmware.world import World
    from axbridge.rig import Rig

    if timing not in {"wire", "none"}:
        raise UsageError(f"--timing {timing} is not known", "choose wire or none")
    world = World(Rig.load(rig), model=model, seed=seed, timing="none" if timing == "none" else "wire")
    stop: list[int] = []
    channels: dict[str, Channel] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, _frame: stop.append(received))
        several = len(world.lines) > 1
        for name, line in world.lines.items():
            path = link and (link.with_name(f"{link.name}-{name}") if several else link)
            channels[name] = PtyChannel(line.baud, path)
        for name, channel in channels.items():
            print(f"ready: {channel.address}" + (f" {name}" if several else ""), flush=True)
        lateness = serve_world(world, channels, lambda: bool(stop))
    finally:
        for channel in channels.values():
            channel.close()
        world.close()
    print(lateness.summary(sum(line.counters.packets for line in world.lines.values())), file=sys.stderr)
    return DONE
