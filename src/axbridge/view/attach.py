"""From a robot to its page."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axbridge.robot.open import attending
from axbridge.robot.robot import Robot
from axbridge.view.commands import Commands
from axbridge.view.news import news
from axbridge.view.page import LivePage
from axbridge.view.web_server import need_websockets


def attach(
    robot: Robot,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    browser: bool = True,
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
) -> LivePage:
    """Show a robot live in a browser, beside the program that steps it.

    Args:
        robot: Is observed; the page is closed with it.
        port: Of the page; None: the first free one from 8080 on.
        host: Address that it is served on. Another than this machine's own takes a token.
        browser: Open the page.
        say: Gets the line with the page's address.

    Raises:
        UsageError: websockets is not installed, or the port is taken.
        RigError: the rig's URDF is wrong.
    """
    page = LivePage(robot, port, host)
    try:
        commands = Commands(page)
        page.begin(commands.hear, lambda: news(page, commands))
    except BaseException:
        page.close()
        raise
    say(f"page: {page.url}")
    say(f"stop: {page.stop_url}")
    if browser:
        webbrowser.open(page.url)
    return page


@contextmanager
def watched(*, wanted: bool) -> Iterator[None]:
    """Give every robot that is opened in this block its live page, where that is wanted."""
    if not wanted:
        yield
        return
    need_websockets()
    with attending(lambda robot, _: robot.view()):
        yield
