"""What is drawn: names that do not touch, lines that look the same with fewer points, colours that all people tell."""

import itertools

import numpy as np
import pytest

from axbridge.comparison.plots import COLOURS, Curve, Panel, fewer
from axbridge.comparison.png import mark_rows

# Linear RGB as people see it who lack one kind of cone (Machado, Oliveira, Fernandes 2009, severity 1).
SIGHT = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* of linear RGB."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    f = np.cbrt(xyz / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("panel", [("command", "reference", "other"), ("command", "fitted", "other", "third")])
def test_lines_of_one_panel_differ_for_every_eye(sight, panel):
    drawn = [lab(SIGHT[sight] @ linear(COLOURS[name])) for name in panel]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(drawn, 2)) > 15


@pytest.mark.parametrize("paper", ["#ffffff", "#14181d"])
def test_lines_show_on_white_and_on_black(paper):
    def brightness(colour):
        return linear(colour) @ [0.2126, 0.7152, 0.0722] + 0.05

    for name in ("reference", "other", "third", "error"):
        light, dark = sorted((brightness(COLOURS[name]), brightness(paper)), reverse=True)
        assert light / dark > 3, name  # WCAG 2.1 asks 3 of graphics


def test_names_that_would_touch_stand_in_two_rows_or_not_at_all():
    marks = ((0.0, "rest"), (1.0, "step to 20°"), (2.0, "step back"), (3.0, "step"), (8.0, "fall"), (9.5, "too long"))
    # 40 letters to 10 s: 5 letters reach 1.25 s, 12 reach 3 s
    assert mark_rows(marks, 0.0, 10.0, 40) == {0: 0, 1: 1, 2: 0, 4: 0}
    assert mark_rows(((0.0, ""), (5.0, "fall")), 0.0, 10.0, 40) == {1: 0}


def test_long_lines_keep_their_peaks_their_gaps_and_the_stretch_that_is_wanted_whole():
    x = np.arange(100_000.0)
    y, other = np.sin(x / 5000), np.cos(x / 5000)
    y[31_234], y[77_777], other[44_444] = 9.0, -9.0, 7.0
    y[50_000:50_003] = np.nan
    (panel,) = fewer([Panel((Curve(x, y, "goal", "command", held=True), Curve(x, other, "", "other")), "x", "y")], 1000,
                     [(20_000, 20_100)])  # fmt: skip
    goal, beside = panel.curves
    assert goal.x is beside.x
    assert len(goal.x) <= 1410
    assert (goal.x[0], goal.x[-1]) == (0, 99_999)
    assert np.all(np.diff(goal.x) > 0)
    assert {9.0, -9.0} <= set(goal.y)
    assert 7.0 in beside.y
    assert np.isnan(goal.y).any()
    assert set(range(20_000, 20_100)) <= set(goal.x)
    assert not goal.held  # between what is left, nothing holds
    short = [Panel((Curve(x[:900], y[:900], "goal", "command", held=True),), "x", "y")]
    assert fewer(short, 1000) == short
