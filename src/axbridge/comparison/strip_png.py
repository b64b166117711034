"""A film strip: a robot drawn at moments of a motion, one row for each motion."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from axbridge.comparison.plots import COLOURS
from axbridge.comparison.robot_png import draw_robot, extent
from axbridge.config.urdf import Shape
from axbridge.rotations import LinkPose

_WIDTH, _HEIGHT = 1.15, 2.2  # inches of one picture in a page
_SHARE = 0.92  # of a picture's height for the robot; the time stands above it
_WORDS: dict[str, Any] = {"fontsize": 9, "color": COLOURS["ink"]}
_SHADES = 48  # colours of a picture in a page


class Film(NamedTuple):
    """One motion.

    Attributes:
        label: What it is; may be empty.
        moments: Time, s, and where the frame of each link is, by its name.
    """

    label: str
    moments: Sequence[tuple[float, Mapping[str, LinkPose]]]


def draw_strip(figure: Any, shapes: Sequence[Shape], films: Sequence[Film], *, top: float = 1.0) -> None:
    """Draw films one below the other into a figure, all in one scale, with the time above each picture.

    Args:
        figure: Matplotlib's.
        shapes: What the links look like.
        films: With as many moments each.
        top: Share of the figure's height that they take.
    """
    window = extent(shapes, [poses for film in films for _, poses in film.moments], floor=True)
    count, height = max(len(film.moments) for film in films), top / len(films)
    for row, film in enumerate(films):
        for column, (time, poses) in enumerate(film.moments):
            below = top - (row + 1) * height
            axes = figure.add_axes((column / count, below, 1 / count, height * _SHARE))
            draw_robot(axes, shapes, poses, window, floor=True)
            figure.text((column + 0.5) / count, below + height * _SHARE, f"{time:.1f} s", ha="center", **_WORDS)
            if column == 0 and film.label:
                figure.text(0.004, below + 0.01, film.label, **_WORDS)


def strip_uri(shapes: Sequence[Shape], films: Sequence[Film]) -> str:
    """A strip as the address of a picture that a page carries in itself."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = max(len(film.moments) for film in films)
    figure = Figure(figsize=(_WIDTH * count, _HEIGHT * len(films)), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    draw_strip(figure, shapes, films)
    return "data:image/png;base64," + base64.b64encode(png_of(figure)).decode()


def png_of(figure: Any) -> bytes:
    """A figure as a PNG of few colours: a quarter of the size, and nobody sees it."""
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    with Image.open(drawn) as picture:
        picture.convert("RGB").quantize(_SHADES).save(small, "PNG", optimize=True)
    return small.getvalue()
