"""What motors of X servos do in each operating mode, on the joints of a real engine."""

import json
from pathlib import Path

import numpy as np
import pytest

from axbridge.bus.protocols import v2
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.comparison.comparison import compare
from axbridge.comparison.simulate import simulate
from axbridge.config.instructions import Instruction
from axbridge.config.registers import XAddress
from axbridge.config.rig import Rig
from axbridge.recording.import_logs import import_log
from axbridge.robot.backends.sim import open_sim
from axbridge.servo.columns import Param, State, motor_of, pack
from axbridge.servo.motor import driving
from axbridge.virtual.world import World
from tests.support.virtual_rig import Wire

COUNT = 2 * np.pi / 4096
LOG = Path(__file__).parents[2] / "docs" / "real" / "xl330_pendulum" / "xl330_kp400_lift_and_drop.json"
REV_MIN = 0.229 * 2 * np.pi / 60


class Arm:
    """The Koch, register by register."""

    def __init__(self):
        self.world = World(Rig.load("koch"))
        self.wire = Wire(self.world, patience=0.004)

    def write(self, servo, **registers):
        for name, value in registers.items():
            at = self.world.servos[servo].profile.registers[name]
            data = (value & (1 << 8 * at.size) - 1).to_bytes(at.size, "little")
            block = {self.world.servos[servo].id: data}
            self.wire(v2.encode(BROADCAST, Instruction.SYNC_WRITE, v2.sync_write_params(at.address, block)))

    def read(self, servo, name):
        self.world.servos[servo]._refresh(self.world.now())
        return self.world.servos[servo].table[name]

    def state(self, servo):
        return self.world.bank.state[self.world.servos[servo].row]


@pytest.fixture
def arm():
    arm = Arm()
    yield arm
    arm.world.close()


def test_a_position_goal_is_reached_by_its_profile(arm):
    arm.write("wrist_roll", torque_enable=1, profile_velocity=50, profile_acceleration=20, goal_position=2500)
    arm.wire.wait(0.3)
    assert arm.read("wrist_roll", "moving_status") & 0x32 == 0x32  # trapezoidal, under way
    assert arm.read("wrist_roll", "velocity_trajectory") == 50
    assert arm.state("wrist_roll")[State.SPEED] == pytest.approx(50 * REV_MIN, rel=0.1)
    arm.wire.wait(1.0)
    assert arm.read("wrist_roll", "moving_status") & 0x02 == 0
    assert arm.read("wrist_roll", "position_trajectory") == 2500
    assert abs(arm.read("wrist_roll", "present_position") - 2500) < 40


def test_a_time_based_profile_ends_when_it_should(arm):
    arm.write("wrist_roll", drive_mode=4, torque_enable=1, profile_velocity=800, profile_acceleration=200)
    arm.write("wrist_roll", goal_position=2600)
    begun = arm.world.now()
    while arm.read("wrist_roll", "moving_status") & 0x02:
        arm.wire.wait(0.01)
    assert arm.world.now() - begun == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("goal", [60, -60])
def test_velocity_mode_holds_its_speed(arm, goal):
    arm.write("shoulder_pan", operating_mode=1, torque_enable=1, goal_velocity=goal)
    arm.wire.wait(1.4)
    assert arm.read("shoulder_pan", "present_velocity") == pytest.approx(goal, abs=6)


def test_pwm_mode_is_a_share_of_the_supply(arm):
    arm.write("shoulder_pan", operating_mode=16, torque_enable=1, goal_pwm=400)
    arm.wire.wait(0.2)
    assert arm.read("shoulder_pan", "present_pwm") == 400
    assert arm.state("shoulder_pan")[State.DUTY] == pytest.approx(400 / 885, rel=1e-3)


@pytest.mark.parametrize("current", [200, 800])
def test_current_mode_drives_the_supplys_current_against_a_stop(arm, current):
    arm.write("gripper", operating_mode=0, torque_enable=1, goal_current=current)
    arm.wire.wait(1.0)
    assert arm.read("gripper", "present_current") == pytest.approx(current, rel=0.05)


def test_stall_torque_goes_with_the_root_of_the_supplys_current(arm):
    currents = []
    arm.write("gripper", operating_mode=0, torque_enable=1)
    for current in (100, 400):
        arm.write("gripper", goal_current=current)
        arm.wire.wait(0.8)
        currents.append(arm.state("gripper")[State.CURRENT])
    assert currents[1] / currents[0] == pytest.approx(2.0, rel=0.2)  # but for the resistance that rises with duty


def test_a_gripper_in_current_based_position_mode_pushes_no_harder_than_its_goal_current(arm):
    arm.write("gripper", operating_mode=5, torque_enable=1, goal_current=150, goal_position=2048 - 1500)
    arm.wire.wait(1.5)
    assert arm.read("gripper", "present_current") == pytest.approx(-150, abs=8)
    assert arm.read("gripper", "hardware_error_status") == 0


def test_reverse_mode_turns_the_other_way(arm):
    arm.write("wrist_roll", drive_mode=1, torque_enable=1)
    start = arm.read("wrist_roll", "present_position")
    arm.write("wrist_roll", goal_position=start + 300)
    arm.wire.wait(1.0)
    assert arm.read("wrist_roll", "present_position") == pytest.approx(start + 300, abs=40)
    assert arm.state("wrist_roll")[State.ANGLE] == pytest.approx(-300 * COUNT, abs=40 * COUNT)


@pytest.mark.parametrize("speed", [-3.0, 0.0, 4.0])
@pytest.mark.parametrize("wanted", [-0.3, 0.05, 0.6])
@pytest.mark.parametrize("side", [0.0, 1.0])
def test_the_driving_voltage_drives_the_current(wanted, speed, side):
    rig = Rig.load("koch")
    row = pack(rig.model_of(rig.servos[5]), COUNT)
    row[Param.SUPPLY_SIDE] = side
    motor, supply = motor_of(row, row[Param.RESISTANCE]), 7.0
    volts, feedback = driving(motor, wanted, speed, supply)
    applied = volts - feedback * speed
    current = (applied - motor.constant * speed) / (
        motor.resistance + motor.resistance_per_duty * abs(applied) / supply
    )
    measured = current * abs(applied) / supply if side else current
    if side or applied * wanted > 0.0:  # else the resistance per duty is that of the other direction
        assert measured == pytest.approx(wanted, rel=1e-9 if side or speed == 0.0 else 0.2)


def test_through_its_registers_a_servo_follows_a_real_log_as_its_model_does_without():
    log = json.loads(LOG.read_text())
    rig = Rig.load("xl330_pendulum").with_model("xl330")
    registers = {**rig.servos[0].registers, "position_p_gain": log["kp"], "return_delay_time": 0}
    rig = rig.with_servos(lambda _: {"registers": registers}).with_buses(bus_timing="none", supply_voltage=log["vin"])
    sim, errors, driven = open_sim(rig), [], None
    bus, world = sim.buses["main"], sim.world
    bus.second = frozenset({1})
    world.place("pendulum", log["entries"][0]["position"])
    world.bank.state[0, State.TEMPERATURE] = np.mean([entry["temp"] for entry in log["entries"]])
    begin = world.now() - log["entries"][0]["timestamp"]
    for entry in log["entries"]:
        world.sleep_until(begin + entry["timestamp"])
        count = int.from_bytes(bus.read(1, XAddress.PRESENT_POSITION, 4).data, "little", signed=True)
        errors.append(abs((count - 2048) * COUNT - entry["position"]))
        if entry["torque_enable"] != driven:
            driven = entry["torque_enable"]
            bus.write(1, XAddress.TORQUE_ENABLE, bytes([driven]))
        if driven:
            goal = round(2048 + entry["goal_position"] / COUNT)
            bus.write(1, XAddress.GOAL_POSITION, goal.to_bytes(4, "little", signed=True))
    sim.close()
    real = import_log(LOG)
    plain = compare(real, simulate(real, rig)).pairs[0].plain.mae
    assert np.degrees(np.mean(errors)) == pytest.approx(plain, rel=0.06)
    assert plain < 2.5  # degrees
