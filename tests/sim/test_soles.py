"""How far a point is inside the soles that stand."""

import numpy as np
import pytest

from axbridge.sim.body.kinematics import inside

SQUARE = np.array([(0, 0), (0.1, 0), (0.1, 0.06), (0, 0.06)])


@pytest.mark.parametrize(("point", "margin"), [((0.05, 0.03), 0.03), ((0.01, 0.03), 0.01), ((0.05, 0.08), -0.02)])
def test_the_margin_is_the_way_to_the_nearest_edge(point, margin):
    assert inside(point, SQUARE) == pytest.approx(margin, abs=1e-6)


def test_a_sole_on_its_edge_leaves_no_margin():
    assert inside((0.05, 0.0), SQUARE * (1, 0)) == pytest.approx(0.0, abs=1e-6)
