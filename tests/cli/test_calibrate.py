"""`axbridge calibrate` on a served bus with scripted motions: it finds ids, directions, zeros and limits."""

import math
import signal
import time
from itertools import pairwise

import pytest

import axbridge
from axbridge.cli.app import DONE
from axbridge.cli.by_hand import ManualProcedure
from axbridge.config.registers import Instruction
from axbridge.config.rig import Rig
from axbridge.config.rig_edit import copy_rig
from axbridge.robot.watch import ServoLost
from tests.support.hand import Typist, led
from tests.support.pty_line import PtyLine
from tests.support.robot_files import write_built, write_feetech_comb
from tests.support.waiting import until

pytestmark = pytest.mark.slow

COUNT = math.radians(300 / 1023)


@pytest.fixture
def mine(tmp_path):
    """Copy a rig, as a user does."""
    return copy_rig(Rig.load("pan_tilt"), tmp_path / "mine")[0]


def wizard_of(rig, port, *options):
    return Typist("calibrate", "--rig", rig, "--port", port, *options)


def lead(wizard, tell, row, ends=(-1.0, 0.8)):
    for words, angles in (("  1 turn it", [0.6]), ("  2 bring it to 0", [0.0]), ("  3 lead it", ends)):
        wizard.until(words)
        for angle in angles:
            tell(f"{row} {angle}")
            tell("seen")
        wizard.press(" ")


def blinked(tell, row):
    """Return the LEDs of all servos until the one of `row` has been on and off again."""
    seen = [tell("register led")]
    until(lambda: seen.append(tell("register led")) or sum(a[row] != b[row] for a, b in pairwise(seen)) >= 3)
    return seen


def test_a_changed_id_zero_and_direction_are_found_and_the_comments_stay(tmp_path, mine):
    mine.write_text(mine.read_text().replace("id = 2", "id = 2  # the lower one\nzero = 512"))
    real = write_built(tmp_path / "built", mine, {"tilt": {"id": 9, "zero": 390, "direction": -1}})
    before = mine.read_text()
    with led(real) as (port, tell), wizard_of(mine, port) as wizard:
        wizard.until("servos 1, 9")
        lead(wizard, tell, 0)
        wizard.until("joint 2 of 2: tilt, servo 2 by the rig: which does not answer")
        wizard.until("  1 turn it", press="w")
        wizard.until("it is not known which servo that is: nothing was moved")
        lead(wizard, tell, 1)
        wizard.until("write it?")
        assert mine.read_text() == before
        wizard.press(" y")  # extra keys are ignored
        code, said, err = wizard.end()
        assert tell("register torque_enable") == [0, 0]
    assert code == DONE, err
    assert "seen from above" in said
    changes = "-id = 2  # the lower one", "+id = 9  # the lower one", "-zero = 512", "+zero = 390", "+direction = -1"
    for line in changes:
        assert f"\n{line}\n" in said
    pan, tilt = Rig.load(mine).servos
    assert (pan.id, pan.zero, pan.direction) == (1, 512, 1)
    assert (tilt.id, tilt.zero, tilt.direction) == (9, 390, -1)
    for servo in (pan, tilt):
        assert servo.min_position == pytest.approx(-1.0, abs=2 * COUNT)
        assert servo.max_position == pytest.approx(0.8, abs=2 * COUNT)
        assert servo.min_position > -1.0 - COUNT  # inwards
    assert [line for line in mine.read_text().splitlines() if line.startswith("[") or "#" in line] == [
        line.replace("id = 2", "id = 9") for line in before.splitlines() if line.startswith("[") or "#" in line
    ]


def test_homing_offset_and_drive_mode_of_protocol_2_servos_are_written_to_the_rig(tmp_path):
    mine = copy_rig(Rig.load("head_gripper"), tmp_path / "mine")[0]
    held = {"homing_offset": 200, "drive_mode": 1}
    real = write_built(tmp_path / "built", mine, {"gripper": {"id": 9, "zero": 1800, "registers": held}})
    with led(real) as (port, tell), wizard_of(mine, port, "--joints", "gripper,pan") as wizard:
        wizard.until("servos 1, 2, 9; all motors are off")
        lead(wizard, tell, 0)
        wizard.until("joint 2 of 2: gripper, servo 3 by the rig: which does not answer")
        lead(wizard, tell, 2)
        wizard.until("write it?", press="y")
        code, said, err = wizard.end()
        assert tell("register torque_enable") == [0, 0, 0]
    assert code == DONE, err
    assert "gripper has homing_offset 200, drive_mode 1: its zero and direction hold with that" in err
    assert "+registers = { homing_offset = 200, drive_mode = 1 }" in said
    servos = {servo.name: servo for servo in Rig.load(mine).servos}
    gripper = servos["gripper"]
    assert (gripper.id, gripper.zero, gripper.direction) == (9, 1800, 1)
    assert gripper.registers == held
    assert gripper.min_position == pytest.approx(-1.0, abs=0.01)
    assert gripper.max_position == pytest.approx(0.8, abs=0.01)
    assert servos["pan"].registers == {}


def test_swapped_ids_are_found_and_the_other_joint_is_calibrated_too(tmp_path, mine):
    real = write_built(tmp_path / "built", mine, {"pan": {"id": 2}, "tilt": {"id": 1}})
    with led(real) as (port, tell), wizard_of(mine, port, "--joints", "pan") as wizard:
        lead(wizard, tell, 0)
        wizard.until("the rig gives servo 2 to tilt: tilt is calibrated, too")
        wizard.until("joint 2 of 2: tilt, servo 1, the only one left (servo 2, by the rig, moves pan): its LED blinks")
        wizard.until("  1 turn it")
        assert {pan for pan, _ in blinked(tell, 1)} == {0}
        tell("0 0.0")
        tell("seen")
        wizard.press(" ")
        wizard.until("again: servo 2 has moved, and it moves pan")
        lead(wizard, tell, 1, ends=())  # without new limits
        wizard.until("write it?", press="y")
        code, _, err = wizard.end()
    assert code == DONE, err
    pan, tilt = Rig.load(mine).servos
    assert (pan.id, tilt.id) == (2, 1)
    assert (tilt.min_position, tilt.max_position) == (-1.2, 1.2)


def test_keys_go_back_skip_a_joint_and_end_without_writing(mine):
    before = mine.read_bytes()
    with led(mine) as (port, tell), wizard_of(mine, port) as wizard:
        wizard.until("  1 turn it", press=" ")
        wizard.until("again: no servo has moved")
        wizard.until("  1 turn it", press="s")
        wizard.until("joint 2 of 2")
        wizard.until("  1 turn it", press="b")
        wizard.until("joint 1 of 2")
        wizard.until("  1 turn it")
        tell("0 0.6")
        tell("seen")
        wizard.press(" ")
        wizard.until("servo 1 moved by +")
        wizard.until("  2 bring it", press="b")
        wizard.until("  1 turn it")  # the same joint, again
        wizard.press("q")
        code, _, err = wizard.end()
    assert code == 130
    assert err == f"stopped: motors are off; {mine} is as it was\n"
    assert mine.read_bytes() == before


def test_the_led_of_the_requested_servo_blinks_and_w_moves_it(mine):
    with led(mine) as (port, tell), wizard_of(mine, port) as wizard:
        wizard.until("joint 1 of 2: pan, servo 1 by the rig: its LED blinks")
        wizard.until("  1 turn it")
        assert {tilt for _, tilt in blinked(tell, 0)} == {0}
        wizard.press("w")
        wizard.until("servo 1 moved by 5° at 20% of its torque, and is limp again")
        assert tell("register torque_enable") == [0, 0]
        assert tell("register torque_limit") == [1023, 1023]
        wizard.until("  1 turn it")  # nothing is decided by it
        tell("stall 0")
        wizard.press("w")
        wizard.until("something holds it")
        wizard.until("  1 turn it", press="s")
        wizard.until("joint 2 of 2")
        wizard.until("  1 turn it")
        assert {pan for pan, _ in blinked(tell, 1)} == {0}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_servo_moves_leaves_it_limp(mine, number):
    with led(mine) as (port, tell), wizard_of(mine, port) as wizard:
        wizard.until("  1 turn it")
        wiggle(wizard, tell, 0)
        wizard.process.send_signal(number)
        ended, _, err = wizard.end()
        assert (ended, err) == (128 + number, f"stopped: motors are off; {mine} is as it was\n")
        for register, values in {"torque_enable": [0, 0], "torque_limit": [1023, 1023], "led": [0, 0]}.items():
            assert tell(f"register {register}") == values


def test_servos_that_stop_answering_before_ctrl_c_are_not_reported_as_off(mine):
    with led(mine) as (port, tell), wizard_of(mine, port) as wizard:
        wizard.until("  1 turn it")
        wiggle(wizard, tell, 0)
        tell("stop")
        wizard.process.send_signal(signal.SIGINT)
        ended, _, err = wizard.end()
        assert ended == 130
        assert f"may still be powered: cut the servo supply; {mine} is as it was\n" in err
        assert "motors are off" not in err


@pytest.mark.parametrize("wiggled", ["limp", "begun", "moved"])
def test_a_servo_without_replies_for_a_moment_only_repeats_its_joint(mine, wiggled):
    with led(mine) as (port, tell), wizard_of(mine, port) as wizard:
        lead(wizard, tell, 0)
        wizard.until("joint 2 of 2: tilt")
        wizard.until("  1 turn it")
        if wiggled == "begun":  # registers are written, torque is not on yet
            wizard.press("w")
            until(lambda: tell("register torque_limit")[1] == 205)
        elif wiggled == "moved":
            wiggle(wizard, tell, 1)
        tell("pause 2")
        wizard.until("missing: waiting until all answer")
        wizard.until("all answer again: tilt once more; earlier results are kept")
        assert tell("register torque_enable") == [0, 0]
        lead(wizard, tell, 1)
        wizard.until("write it?", press="y")
        code, said, err = wizard.end()
        assert tell("register torque_limit") == [1023, 1023]
    assert code == DONE, said + err
    for servo in Rig.load(mine).servos:
        assert servo.max_position == pytest.approx(0.8, abs=2 * COUNT)


def test_a_servo_that_is_lost_again_while_all_are_made_limp_is_waited_for_again(mine):
    calls = []

    def mishap(packet):
        if packet.code == Instruction.WRITE and not calls:
            calls.append(time.monotonic())
        return "drop" if calls and time.monotonic() < calls[0] + 0.3 else "ok"

    def step(_name, _count):
        if not calls:
            raise ServoLost("pan: missing")
        return "done"

    with PtyLine((1, 2)) as line, axbridge.open(mine, backend="real", port=line.port) as robot:
        guide = ManualProcedure(Rig.load(mine), robot, lambda: "", lambda _: None)
        line.mishap = mishap
        assert guide.each(["pan"], step) == {}
    assert calls


def wiggle(wizard, tell, row):
    wizard.press("w")
    until(lambda: tell("register torque_limit")[row] == 205 and tell("register torque_enable")[row])


def test_a_servo_without_led_and_a_jump_of_its_count_are_reported(tmp_path):
    mine = write_feetech_comb(tmp_path, 2)
    before = Rig.load(mine).servos[0]
    with led(mine) as (port, tell), wizard_of(mine, port, "--joints", "s1") as wizard:
        wizard.until("joint 1 of 1: s1, servo 1 by the rig: it has no LED\n")
        lead(wizard, tell, 0, ends=(1.5, 3.0, 3.4))
        wizard.until("these values already: nothing is written")
        code, _, err = wizard.end()
    assert code == DONE, err
    assert "s1 jumped by more than half a turn" in err
    assert Rig.load(mine).servos[0] == before
