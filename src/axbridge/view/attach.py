"""From a robot to its page, and what that says in words: state, what is wrong, limits, events, the line."""

from __future__ import annotations

import json
import math
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from axbridge.robot.open import attending
from axbridge.robot.robot import Robot
from axbridge.view.commands import START, Commands
from axbridge.view.page import LivePage
from axbridge.view.web_server import need_websockets

_SLOW = 0.9  # of the steps that were asked for: fewer are too slow
_NAMED = 4  # servos; the dots of the table show who the others are
_SAID = 10.0  # s that an answer stays


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
        page.begin(commands.hear, lambda: _news(page, commands))
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


def _news(page: LivePage, commands: Commands) -> str:
    """All of it as JSON, for `web/page.js`."""
    robot, picture, now = page.robot, page.picture, monotonic()
    level, trouble = _trouble(page, now)
    said, number, time = page.said
    told: dict[str, Any] = {
        "state": _state(page),
        "level": level,
        "trouble": trouble,
        "stopped": robot.stopped,
        "said": {"text": said if now - time < _SAID else "", "number": number},
        "speed": page.actions.share,
        "torques": [_number(servo.goals.torque) for servo in robot.values()],
        "poses": [START, *commands.poses.poses],
        "doubt": commands.doubt,
        "recording": None if page.recording is None else str(page.recording),
        "events": page.events.latest(),
    }
    if picture is not None:
        rows = [["late steps", str(picture.late)], ["a bus cycle takes", f"{picture.cycle:.1f} ms"]]
        rows += [
            [name, f"{lost} lost, {damaged} damaged, {late} late"]
            for name, (lost, damaged, late) in picture.packets.items()
            if lost or damaged or late
        ]
        told |= {"lost": picture.lost, "causes": picture.causes, "line": rows}
    told["rate"] = "" if picture is None else f"{picture.rate:.0f} steps/s"
    return json.dumps(told, separators=(",", ":"))


def _state(page: LivePage) -> str:
    robot, picture = page.robot, page.picture
    if picture is None:
        return "waiting for the first step"
    driven = sum(picture.on.values())
    words = page.off or ("all motors are limp" if not driven else f"{driven} of {len(robot)} motors are on")
    words += f" · plays {page.playing}" if page.playing else ""
    return words + (" · records" if page.recording else "")


def _trouble(page: LivePage, now: float) -> tuple[str, str]:
    """How bad it is, `bad` or `warn`, and what is wrong now; empty where nothing is."""
    picture = page.picture
    wrong = [page.off] if page.robot.stopped else []
    if picture is None:
        return "bad", "; ".join(wrong)
    if "" in picture.lost:
        wrong.append("port lost: looking for it")
    else:
        alike: dict[str, list[str]] = {}
        for name, why in picture.lost.items():
            alike.setdefault(why, []).append(name)
        for why, names in alike.items():
            wrong.append(f"{', '.join(names) if len(names) <= _NAMED else f'{len(names)} servos'} {why}")
    stale = now - picture.seen
    late = [f"no step for {stale:.0f} s: what you ask for waits"] if stale > 1.0 else []
    if not late and picture.rate < _SLOW * picture.wanted:
        late = [f"{picture.rate:.0f} of {picture.wanted:.0f} steps/s: steps are late"]
    return "bad" if wrong else "warn", "; ".join((*wrong, *picture.causes, *late))


def _number(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
