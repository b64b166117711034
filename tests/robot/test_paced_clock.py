"""Simulated time that keeps to the wall's falls behind where it cannot keep up, and comes back at once."""

import pytest

from axbridge.robot.backend import _PacedClock


class Wall:
    """Time that passes when somebody sleeps, or simulates."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    def sleep_until(self, due):
        self.time = max(self.time, due)


class World(Wall):
    """A simulation that takes `cost` s of the wall's time a simulated second."""

    def __init__(self, wall, cost):
        super().__init__()
        self.wall, self.cost = wall, cost

    def sleep_until(self, due):
        passed = max(0.0, due - self.time)
        self.time += passed
        self.wall.time += passed * self.cost


def made(cost):
    wall = Wall()
    world = World(wall, cost)
    return wall, world, _PacedClock(world, wall)


def steps(clock, count, period=0.02):
    start = clock.now()
    for step in range(1, count + 1):
        clock.now()
        clock.sleep_until(start + step * period)
        clock.now()


@pytest.mark.parametrize("cost", [1.5, 2.5, 20])
def test_a_slow_simulation_goes_on_at_its_own_pace_and_says_so(cost, caplog):
    wall, world, clock = made(cost)
    steps(clock, 200)
    first = wall.time
    steps(clock, 200)
    assert wall.time - first == pytest.approx(first, rel=0.05)  # no step is longer than the ones before
    assert world.time == pytest.approx(8.0, rel=0.5)
    assert clock.behind == pytest.approx(wall.time - world.time, abs=0.2)
    assert f"simulation runs at {1 / cost:.2g} × real time" in caplog.text


def test_a_fast_simulation_keeps_to_the_wall(caplog):
    wall, _world, clock = made(0.1)
    steps(clock, 100)
    wall.time += 0.07  # the controller thinks
    assert clock.now() == pytest.approx(wall.time, abs=0.01)
    assert clock.behind == 0
    assert not caplog.text


def test_what_a_frozen_process_missed_is_not_made_up_for(caplog):
    wall, world, clock = made(0.1)
    steps(clock, 10)
    before, asleep = world.time, wall.time
    wall.time += 5.0
    assert clock.now() - before == pytest.approx(0.1)
    assert wall.time - asleep < 5.05
    assert clock.behind == pytest.approx(4.9, abs=0.01)
    assert "held up for 5.0 s" in caplog.text
    assert "real time" not in caplog.text
