"""A robot's picture: every shape is where its link is."""

import math
from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge.comparison.plots_png import picture
from axbridge.comparison.robot_png import draw_robot, extent
from axbridge.config.rig import Rig
from axbridge.config.urdf import read_shapes

URDF = """<robot name="two"><link name="base">
  <visual><geometry><box size="0.1 0.1 0.1"/></geometry></visual></link>
  <link name="arm"><visual><origin xyz="0 0 0.2"/><geometry><cylinder radius="0.02" length="0.2"/></geometry></visual>
  <visual><origin xyz="0 0 0.4"/><geometry><sphere radius="0.05"/></geometry></visual></link>
  <joint name="j" type="continuous"><parent link="base"/><child link="arm"/></joint></robot>"""
UPRIGHT = (0.0, 0.0, 0.0, 1.0)
AWAY = (0.0, 0.0, 9.0)  # above the picture


def colours(base, arm=(0.0, 0.0, 0.0), turned=UPRIGHT):
    """What is drawn, as (height, width, 3) numbers 0..255."""
    shapes = read_shapes(Path("two.urdf"), "visual", URDF)
    poses = {"base": (base, UPRIGHT), "arm": (arm, turned)}
    figure = picture("", (4, 4))
    draw_robot(figure.add_axes((0, 0, 1, 1)), shapes, poses, (-0.5, 0.5, -0.5, 0.5))
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].astype(int)


def drawn(image):
    return image.min(axis=2) < 170


def test_a_link_is_drawn_where_it_is_and_as_large():
    low, high = (drawn(colours((0.0, 0.0, z), arm=AWAY)) for z in (0.0, 0.2))
    rise = np.argwhere(low)[:, 0].mean() - np.argwhere(high)[:, 0].mean()
    assert rise / 520 == pytest.approx(0.2 * math.cos(math.radians(18)), abs=0.01)
    assert low.sum() == pytest.approx(high.sum(), rel=0.02)


def test_the_window_holds_every_moment():
    shapes = read_shapes(Path("two.urdf"), "visual", URDF)
    up = {"base": ((0.0, 0.0, 0.0), UPRIGHT), "arm": ((0.0, 0.0, 0.0), UPRIGHT)}
    half = math.sqrt(0.5)
    down = {**up, "arm": ((0.0, 0.0, 0.0), (half, 0.0, 0.0, half))}  # lies along -y
    left, right, low, high = extent(shapes, [up])
    wider = extent(shapes, [up, down])
    assert wider[0] < left - 0.1 or wider[1] > right + 0.1
    assert wider[2] <= low
    assert wider[3] >= high - 1e-9


def test_the_window_of_a_picture_with_a_floor_has_room_for_all_of_it():
    rig = Rig.load("bioloid")
    shapes = read_shapes(rig.urdf_path(), "visual", rig.urdf_text())
    with axbridge.open(rig) as robot:
        poses = robot.simulation.engine.poses()
    figure = picture("", (2.6, 2.6))
    axes = figure.add_axes((0, 0, 1, 1))
    left, right, low, high = extent(shapes, [poses], floor=True)
    draw_robot(axes, shapes, poses, (left, right, low, high), floor=True)
    tiles = np.concatenate([line for part in axes.collections[:1] for line in part.get_segments()])
    assert left < tiles[:, 0].min()
    assert tiles[:, 0].max() < right
    assert low < tiles[:, 1].min()
    assert tiles[:, 1].max() < high
