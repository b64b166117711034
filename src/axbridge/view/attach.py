"""From a robot to its page: server, scene, controls and curves put together."""

from __future__ import annotations

import sys
from collections.abc import Callable

from axbridge.robot.robot import Robot
from axbridge.view import web_server
from axbridge.view.controls import Controls
from axbridge.view.page import LivePage
from axbridge.view.plots import Plots
from axbridge.view.scene import RobotScene
from axbridge.view.snapshot import Picture


def _screen(page: LivePage) -> Callable[[Picture | None], None]:
    """What draws everything on the page of a robot."""
    robot, server = page.robot, page.server
    rig, ghost = robot.rig, robot.backend == "twin"
    tree, shapes = (None, ()) if rig.world is None else (rig.tree(), rig.shapes("visual"))
    scene = RobotScene(server, rig, tree, shapes, ghost=ghost)
    controls = Controls(page, scene, tree)
    plots = Plots(server, page.history, list(robot), ghost=ghost)
    server.gui.main_panel.dock_right()

    def show(picture: Picture | None) -> None:
        with server.atomic():
            if picture is not None:
                scene.show(picture)
            controls.refresh(picture)
        if picture is not None:
            plots.refresh()

    return show


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
        UsageError: viser is not installed, or the port is taken.
        RigError: the rig's URDF is wrong.
    """
    page = LivePage(robot, port, host)
    try:
        page.begin(_screen(page))
    except BaseException:
        web_server.stop(page.server)
        raise
    say(f"page: {page.url}")
    say(f"stop: {page.stop_url}")
    if browser:
        import webbrowser

        webbrowser.open(page.url)
    return page
