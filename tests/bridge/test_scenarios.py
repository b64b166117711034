"""A robot, a bridge and a foreign program, each a process of its own, and what goes wrong with them."""

import pytest

from tests.support.bridge_scenarios import SCENARIOS, Stations


@pytest.fixture(scope="module")
def stations(tmp_path_factory):
    kept = Stations(tmp_path_factory.mktemp("stations"))
    yield kept
    kept.close()


@pytest.mark.parametrize(
    "scenario", [pytest.param(row, id=row.name, marks=[] if row.quick else [pytest.mark.ci]) for row in SCENARIOS]
)
def test_a_robot_behind_the_bridge_is_safe(stations, scenario):
    assert stations(scenario).play(scenario).wrong == []
