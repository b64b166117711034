"""A servo whose count jumps, by a turn or by its Homing Offset, does not move for that."""

import math
from itertools import product

import pytest

import axbridge
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from tests.robot.test_unasked_motion import lead, power_cycle, recover, shaft, stop_and_resume, torque_on
from tests.support.waiting import run

EVENTS = torque_on, stop_and_resume, recover, power_cycle
pytestmark = pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
MOST = math.radians(5)
COUNT = math.tau / 4096
FAMILIES = {"xl430-w250": "xl430", "xl330-m288": "xl330", "mx-28-2.0": "mx28", "sts3215": "sts3215"}
OFFSETS = 0, 500, -500, 1000, -1000, 1500, -1500
X = [family for family in FAMILIES if family != "sts3215"]


def rig_of(family, offset=0, zero=2048, registers=None, **more):
    """One servo whose shaft is at its zero in the middle of the encoder's turn, whatever its offset."""
    registers = {"homing_offset": offset, **(registers or {})}
    if family == "xl330-m288":
        registers["position_p_gain"] = 900  # its loop has no integral, and the pendulum draws it down
    if abs(offset) > 1024 and family in X:
        registers = {**registers, "operating_mode": 4}
    servo = {"name": "horn", "joint": "horn", "id": 1, "profile": family, "model": FAMILIES[family], "zero": zero}
    volts = FirmwareProfile.load(family).electrics.nominal_voltage
    servo |= {"registers": registers, "damping_constant": 0.1, **more}  # so that a limp pendulum sinks slowly
    return Rig.model_validate({"name": "bench", "bus": [{"supply_voltage": volts}], "servo": [servo]})


def seams(family, offset):
    """Where the count ends and begins, as angles of the joint."""
    ends = (0, 4096) if family == "sts3215" else (offset, offset + 4096)
    return [(count - 2048) * COUNT for count in ends]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "offset", "event"), [*product(FAMILIES, OFFSETS, EVENTS)])
def test_a_joint_stays_where_its_count_jumps(family, offset, event):
    if event is recover and family in ("sts3215", "mx-28-2.0"):
        pytest.skip("an overload of a limp shaft is no shut-down there")
    moved = {}
    with axbridge.open(rig_of(family, offset)) as robot:
        servo = robot["horn"]
        places = [0.3, *(seam + side * math.radians(2) for seam in seams(family, offset) for side in (-1, 1))]
        for place in places:
            servo.torque_off()
            lead(robot, 0.0)
            servo.set_position(0.2)
            run(robot, 0.3)
            event(robot, servo, place)
            begun = shaft(robot)
            ways = run(robot, 0.4, lambda begun=begun: abs(shaft(robot) - begun))
            if robot.withheld:
                servo.recover()
                ways += run(robot, 0.4, lambda begun=begun: abs(shaft(robot) - begun))
            assert servo.torque_enabled
            assert math.remainder(servo.position - shaft(robot), math.tau) == pytest.approx(0.0, abs=0.01)
            moved[place] = max(ways)
    assert max(moved.values()) < MOST, {f"{place:.2f}": f"{math.degrees(way):.1f}°" for place, way in moved.items()}
