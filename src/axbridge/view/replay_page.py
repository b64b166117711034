"""A recording, seen again inside a report: viser's own client with the whole motion in it, in a frame of the page.

Nothing is loaded from elsewhere. The client has play, pause, a slider and speeds.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.recording.provenance import rig_of
from axbridge.recording.recording import Recording, Track
from axbridge.view import web_server
from axbridge.view.replay import Replay

_RATE = 25.0  # pictures a second
_MOST = 2000  # of them: two trembling humanoids take 0.9 kB for each, and the client 0.8 MB


def has_body(recording: Recording) -> bool:
    """Whether a recording says which robot it is of, and that has a URDF."""
    try:
        return rig_of(recording).world is not None
    except RecordingError:
        return False


def replay_html(first: Recording, second: Recording | None, labels: tuple[str, str], rig: Rig | None = None) -> str:
    """The part of a page that shows a recording's motion, with that of a second one as a translucent ghost.

    Args:
        first: Is drawn solid.
        second: From the same start on; None = none.
        labels: What both are called.
        rig: The robot; None: as the recording itself says.

    Raises:
        UsageError: viser is not installed.
        RecordingError: nobody says which robot it is, or it has none of the robot's servos.
        RigError: the robot has no body.
    """
    web_server.need_viser()
    robot = rig_of(first) if rig is None else rig
    length = max(first.end - first.start, 0.01)
    pause = max(1 / _RATE, length / _MOST)
    times: FloatArray = np.arange(int(length / pause) + 1, dtype=np.float64) * pause
    server, _ = web_server.start(0, "127.0.0.1", "axbridge")  # viser makes no scene without one; nobody hears of it
    try:
        ghost = None if second is None else seen_at(_named(second, robot), times)
        replay = Replay(server, robot, seen_at(_named(first, robot), times), ghost)
        film = server.get_scene_serializer()
        for time in times.tolist():
            replay.time = time
            replay.show_body()
            film.insert_sleep(pause)
        page = film.as_html()
    finally:
        web_server.stop(server)
    who = f"Solid: {escape(labels[0])}" + (f"; translucent: {escape(labels[1])}" if second is not None else "")
    return (
        f'<h2>Replay</h2><div class="replay"><iframe title="replay" loading="lazy" srcdoc="{escape(page)}"></iframe>'
        f'<p class="lead">{who}. Drag to turn it, wheel to come nearer.</p></div>'
    )


def seen_at(recording: Recording, times: FloatArray) -> Recording:
    """The recording with the samples beside some times, and its first and last: pictures of these times need no others.

    Args:
        recording: It may be hours long.
        times: s from its start, (n,).
    """
    at = recording.start + times

    def beside(track: Track) -> Track:
        last = len(track) - 1
        if last < 0:
            return track
        after = np.searchsorted(track.time, at, side="right")
        rows = np.unique(np.clip(np.concatenate((after - 1, after, [0, last])), 0, last))
        return track.rows(rows)

    return recording.changed(tuple(recording), beside)


def _named(recording: Recording, rig: Rig) -> Recording:
    """With the rig's name of its servo, where both have one: logs of other programs call it as they like."""
    if len(recording) != 1 or len(rig.servos) != 1:
        return recording
    name = rig.servos[0].name
    return replace(recording, tracks={name: replace(next(iter(recording.values())), name=name)})
