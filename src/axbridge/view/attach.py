"""From a robot to its page."""

from __future__ import annotations

import sys
from collections.abc import Callable

from axbridge.robot.robot import Robot
from axbridge.view.commands import Commands
from axbridge.view.news import news
from axbridge.view.page import LivePage


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
        import webbrowser

        webbrowser.open(page.url)
    return page
