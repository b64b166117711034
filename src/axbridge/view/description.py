"""The static description of a robot for its page: its servos, and its body as links and shapes."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from axbridge.comparison.page import ALONE, web
from axbridge.config.rig import Rig
from axbridge.config.urdf import SLIDES, Shape, read_mesh
from axbridge.errors import require

_VECTORS = "place", "turn", "axis", "centre"  # of a link
_PLAIN = (0.55, 0.58, 0.62)  # of shapes without a colour
_MOST = 20_000  # triangles of a mesh; a larger mesh is replaced by its convex hull
_OWN = Path(__file__).with_name("web")


def described(rig: Rig, names: list[str], ranges: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Return servos and body for `web/page.js` and `web/body.js`; `ranges` are the ends of sliders, rad or m."""
    joints = {servo.joint: servo.name for servo in rig.servos}
    tree = None if rig.world is None else rig.tree()
    hot = {servo.name: {"hot": rig.specs[servo.name].profile.hot_from(servo.registers)} for servo in rig.dynamixels}
    links: list[dict[str, Any]] = []
    slides: set[str] = set()
    for link, parent in enumerate(()) if tree is None else enumerate(tree.parent.tolist()):
        assert tree is not None
        dof, sliding = int(tree.dof[link]), bool(tree.kind[link] == SLIDES)
        servo = joints.get(tree.joints[dof].name, "") if dof >= 0 else ""
        slides |= {servo} if sliding else set()
        vectors = {name: _numbers(getattr(tree, name)[link]) for name in _VECTORS}
        mover = names.index(servo) if servo in names else -1
        mass = round(float(tree.mass[link]), 5)
        links.append({"parent": parent, "servo": mover, "slides": sliding, **vectors, "mass": mass})
    shapes = () if tree is None else rig.shapes("visual")
    return {
        "name": rig.name,
        "servos": [
            {"name": name, "sliding": name in slides, "ends": ranges[name], **hot.get(name, {})} for name in names
        ],
        "links": links,
        "shapes": [] if tree is None else [_shape(shape, tree.links.index(shape.link)) for shape in shapes],
        "free": bool(rig.world is not None and not rig.world.fixed_base),
        "ground": bool(rig.world is not None and rig.world.ground),
        "height": 0.0 if rig.world is None else rig.world.base_height,
    }


def _shape(shape: Shape, link: int) -> dict[str, Any]:
    document: dict[str, Any] = {
        "link": link, "kind": shape.kind, "size": shape.size, "place": _numbers(shape.place),
        "turn": _numbers(shape.turn), "colour": shape.colour or _PLAIN,
    }  # fmt: skip
    if shape.file is not None:
        mesh = read_mesh(shape.file)
        corners, triangles = mesh.corners * shape.size, mesh.triangles
        if len(triangles) > _MOST:
            require("drawing a mesh", "trimesh")
            import trimesh

            hull = trimesh.Trimesh(corners, triangles, process=False).convex_hull
            corners, triangles = hull.vertices, hull.faces
        document |= {"size": (1, 1, 1), "triangles": b64encode(corners[triangles].astype("<f4").tobytes()).decode()}
    return document


def _numbers(values: Any) -> list[float]:
    return [round(float(value), 6) for value in values.ravel()]


def page(title: str, description: Mapping[str, Any], *, live: bool) -> str:
    """Return the page as one self-contained file; only a `live` one may connect, to its own server."""
    document = json.dumps({**description, "live": live}, separators=(",", ":"), ensure_ascii=False)
    policy = ALONE + ("; connect-src 'self'" if live else "")
    scripts = (web("uPlot.min.js"), web("plots.js"), own("body.js"), stop_script(stops=live), own("page.js"))
    program = "".join(f"<script>{text}</script>" for text in scripts)
    return (
        own("page.html").replace("{title}", escape(title)).replace("{policy}", policy)
        .replace("{style}", web("colours.css") + web("uPlot.min.css") + own("page.css"))
        .replace("{robot}", document.replace("<", "\\u003c")).replace("{program}", program)
    )  # fmt: skip


def own(name: str) -> str:
    """Return one of this room's files for browsers."""
    return (_OWN / name).read_text(encoding="utf-8")


def stop_script(*, stops: bool) -> str:
    """Return the script that stops a robot by space and Esc; `stops` is false for a recording."""
    return f"({own('stop.js').rstrip()})({'true' if stops else 'false'});"
