"""What the live page costs the loop that it watches: 18 served servos at 50 Hz, with and without a page that is open.

    python benchmarks/view_cost.py [SECONDS]

The client reads what the page sends and draws nothing: a browser's own work belongs to the browser. CPU is that of the
process that steps the robot, in shares of one core.
"""

import resource
import sys
import threading
import time
from pathlib import Path

import viser
from websockets.sync.client import connect

import axbridge
from axbridge.serve.background import serving


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident() -> float:
    """MB in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def look(url: str, done: threading.Event, counted: list[int]) -> None:
    """A page that is open: it says where its camera is, as a browser does, and takes what comes."""
    from viser import _messages

    camera = _messages.ViewerCameraMessage(
        wxyz=(1, 0, 0, 0), position=(1, 1, 1), fov=1.0, near=0.1, far=10.0, look_at=(0, 0, 0), up_direction=(0, 0, 1),
        image_height=800, image_width=1000,
    )  # fmt: skip
    import msgspec

    with connect(
        url.replace("http", "ws"), subprotocols=[f"viser-v{viser.__version__}"], proxy=None, max_size=None
    ) as socket:
        socket.send(msgspec.msgpack.encode(camera.as_serializable_dict([])))
        while not done.is_set():
            try:
                counted[0] += len(socket.recv(timeout=0.2))
                counted[1] += 1
            except TimeoutError:
                continue


def measure(robot: axbridge.Robot, seconds: float) -> tuple[float, float, float, float]:
    """P99 and worst of lateness, ms; share of late steps; CPU share."""
    late, end, began, spent = [], robot.time + seconds, time.monotonic(), used()
    while robot.time < end:
        late.append(robot.step(20))
    late.sort()
    return (
        late[int(0.99 * len(late))],
        late[-1],
        sum(x > 1 for x in late) / len(late),
        (used() - spent) / (time.monotonic() - began),
    )


def main(seconds: float) -> None:
    with serving("bioloid") as port, axbridge.open("bioloid", backend="real", port=port) as robot:
        measure(robot, 2.0)
        print("page          late p99   worst   > 1 ms   CPU    memory")
        plain = measure(robot, seconds)
        print(
            f"none          {plain[0]:5.2f} ms {plain[1]:6.1f} ms {plain[2]:8.1%} {plain[3]:8.1%} {resident():8.1f} MB"
        )
        page = robot.view(port=0, open=False)
        alone = measure(robot, seconds)
        print(
            f"nobody looks  {alone[0]:5.2f} ms {alone[1]:6.1f} ms {alone[2]:8.1%} {alone[3]:8.1%} {resident():8.1f} MB"
        )
        done, counted = threading.Event(), [0, 0]
        client = threading.Thread(target=look, args=(page.url, done, counted))
        client.start()
        for _ in range(2):
            seen = measure(robot, seconds)
            print(
                f"one looks     {seen[0]:5.2f} ms {seen[1]:6.1f} ms {seen[2]:8.1%} {seen[3]:8.1%} {resident():8.1f} MB"
            )
        done.set()
        client.join()
        print(f"the page's share of a core: {seen[3] - plain[3]:.1%}; {counted[0] / 2 / seconds / 1e3:.0f} kB/s")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
