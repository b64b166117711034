"""Open the live page of a robot, or of each robot that a block opens."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axbridge.errors import require
from axbridge.robot.open import attending
from axbridge.robot.robot import Robot
from axbridge.view.page import LivePage


def attach(
    robot: Robot,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    browser: bool = True,
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
) -> LivePage:
    """Show a robot live in a browser while its program steps it; see `Robot.view`. `say` prints the addresses."""
    page = LivePage(robot, port, host)
    say(f"page: {page.url}")
    say(f"stop: {page.stop_url}")
    if browser:
        webbrowser.open(page.url)
    return page


@contextmanager
def watched(*, wanted: bool) -> Iterator[None]:
    """If `wanted`, open a live page for every robot that is opened in this block."""
    if not wanted:
        yield
        return
    require("the page", "websockets")
    with attending(lambda robot, _: robot.view()):
        yield
