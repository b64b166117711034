"""Robots are opened, used and closed over and over: nothing stays behind (`benchmarks/plant_soak.py` does it for longer)."""

import gc

import pytest

from tests.support.plant_soak import held, resident, session

pytestmark = pytest.mark.slow


@pytest.mark.ci
@pytest.mark.bullet
def test_robots_that_are_used_and_closed_leave_nothing_behind():
    contacts = sum(session(2.5, seed) for seed in range(2))  # imports, compiled kernels, caches
    assert contacts > 20
    memory, objects, before = resident(), len(gc.get_objects()), held()  # in this order: `resident` collects first
    for seed in range(8):
        session(0.3, seed)
    assert resident() - memory < 4.0  # MB; a Bioloid's world is 36
    assert len(gc.get_objects()) - objects < 300  # a robot has thousands
    assert held() == before
