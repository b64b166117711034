"""Virtual servos without physics on a pseudo-terminal, in a process of its own: what the bus benchmarks talk to.

`python benchmarks/bus_line.py COUNT wire|none [FAULTS [SEED [PROFILE …]]]` serves ids 1..COUNT until it is asked to end
and prints the port. The servos have these profiles in turn, or `ax-12a`. With `wire-steady` the servos' 1 kHz
interrupt, which holds up every seventh reply or so, is left out.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from axbridge.config.rig import Rig
from axbridge.virtual.channel import PtyChannel
from axbridge.virtual.server import serve
from axbridge.virtual.world import World
from tests.support.virtual_rig import FakeBank


class StillBank(FakeBank):
    """Servos whose shafts do not move."""

    def sampled(self, rows: Sequence[int], times: Sequence[float]) -> np.ndarray:  # noqa: ARG002
        """States: always the same."""
        return self.state[list(rows)]

    def advance(self, until: float) -> None:
        """Let time pass."""
        self.time = max(self.time, until)


def main(count: int, timing: str, faults: str, seed: int, folder: str, profiles: Sequence[str]) -> None:
    """Serve."""
    registers = {"return_delay_time": 0}
    profile = Path(folder) / "steady.toml"
    profile.write_text('base = "ax-12a"\n[timing]\nisr_length_us = 0.0\n')
    kinds = [str(profile)] if timing == "wire-steady" else list(profiles) or ["ax-12a"]
    rig = Rig.model_validate(
        {
            "name": "bench",
            "servo": [
                {
                    "name": f"s{id_}",
                    "joint": f"j{id_}",
                    "id": id_,
                    "registers": registers,
                    "profile": kinds[id_ % len(kinds)],
                }
                for id_ in range(1, count + 1)
            ],
        }
    )
    world = World(rig, seed=seed, timing="none" if timing == "none" else "wire", bank=StillBank(count))
    world.sleep_until(0.05)  # loads the kernels before a client waits
    world.inject(faults)
    channel = PtyChannel(1_000_000)
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
    lateness = serve(world, {"main": channel}, lambda: bool(stop), lambda: print(channel.address, flush=True))
    print(lateness.summary(world.lines["main"].packets), file=sys.stderr)
    channel.close()


@contextlib.contextmanager
def line(count: int, timing: str, faults: str = "", profiles: Sequence[str] = (), seed: int = 0) -> Iterator[str]:
    """Yield the port of a line with `count` servos of these profiles in turn, served by another process."""
    command = [sys.executable, __file__, str(count), timing, faults, str(seed), *profiles]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        said = sys.argv[3] if len(sys.argv) > 3 else ""
        seed = int(sys.argv[4]) if len(sys.argv) > 4 else 0
        main(int(sys.argv[1]), sys.argv[2], said, seed, made, sys.argv[5:])
