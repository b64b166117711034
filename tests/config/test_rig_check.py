"""`check_rig` says what a rig leaves out, names the cause of a mistake, and refuses nonsense in two lines, soon."""

import sys
import time

import pytest

from axbridge.config.rig import Rig
from axbridge.config.rig_check import check_rig
from axbridge.errors import RigError

LINK = '<link name="{}"/>'
HEAVY = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3"/></inertial></link>'
JOINT = '<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
SERVO = '[[servo]]\nname = "{0}"\njoint = "{0}"\n'


@pytest.fixture
def rig(tmp_path):
    def make(links, servos):
        (tmp_path / "w.urdf").write_text(f'<robot name="r">{links}</robot>')
        (tmp_path / "w.toml").write_text(f'name = "w"\n[world]\nurdf = "w.urdf"\n{servos}')
        return Rig.load(tmp_path / "w.toml")

    return make


CHAIN = JOINT.format("hip", "base", "thigh") + JOINT.format("knee", "thigh", "shank")


def test_a_wrong_name_of_an_ideal_joint_is_said_before_the_mass_that_its_link_seems_to_lack(rig):
    wrong = SERVO.format("knees") + 'drive = "ideal"\n'
    with pytest.raises(RigError, match="knees: no joint has this name\nits joints: hip, knee"):
        check_rig(rig(HEAVY.format("base") + HEAVY.format("thigh") + LINK.format("shank") + CHAIN, wrong))


def test_all_links_without_mass_are_named_at_once(rig):
    links = HEAVY.format("base") + LINK.format("thigh") + LINK.format("shank") + CHAIN
    with pytest.raises(RigError, match="thigh, shank: no mass or inertia"):
        check_rig(rig(links, SERVO.format("hip") + "id = 1\n" + SERVO.format("knee") + "id = 2\n"))


def test_it_is_said_that_a_robot_is_bolted_down_and_of_a_bus_only_where_one_is_used(rig):
    links = HEAVY.format("base") + HEAVY.format("thigh") + JOINT.format("hip", "base", "thigh")
    ideal = check_rig(rig(links, SERVO.format("hip") + 'drive = "ideal"\n')).assumed
    assert "base is bolted down: fixed_base = true, and no floor" in ideal
    assert not any("bus" in line for line in ideal)
    assert any(
        line.startswith("bus main: ") for line in check_rig(rig(links, SERVO.format("hip") + "id = 1\n")).assumed
    )


def test_a_model_whose_law_the_servo_has_no_registers_for_is_refused(tmp_path):
    (tmp_path / "x.toml").write_text(
        'base = "bare_horn"\n[[servo]]\nname = "horn"\nprofile = "xl330-m288"\nmodel = "ax12"\n'
    )
    with pytest.raises(
        RigError, match=r"servo\.horn\.model: 'ax12' has the law compliance, for which a xl330-m288 has"
    ):
        check_rig(Rig.load(tmp_path / "x.toml"))


def test_a_supply_and_a_zero_that_are_another_servos_are_said(tmp_path):
    (tmp_path / "x.toml").write_text(
        'base = "bare_horn"\n[[servo]]\nname = "horn"\nprofile = "xl330-m288"\nmodel = "xl330"\n'
    )
    assumed = check_rig(Rig.load(tmp_path / "x.toml")).assumed
    assert "horn: supply_voltage = 12, though a xl330-m288 takes 7 V at most" in assumed
    assert sum("zero" in line for line in assumed) == 1


ASKS = sys.version_info < (3, 14)  # from then on a name that is too long is a file that is not there


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a = " + "[" * 3000 + "]" * 3000, "is nested too deeply"),
        ("a = " + "{a=" * 3000 + "1" + "}" * 3000, "is nested too deeply"),
        (".".join(["a"] * 3000) + " = 1", "is nested too deeply"),
        ("a = " + "9" * 100_000, "has a number that is too large"),
        ('base = "a\\u0000b"', "base: makes no sense: "),
        (f'base = "{"a" * 5000}"', "base: File name too long" if ASKS else "base: no "),
        ("world.time_step_ms = 1e-9", "world.time_step_ms: input should be greater than or equal to 0.01"),
        ("robot.basic_time_step_ms = 1e300", "robot.basic_time_step_ms: input should be less than or equal to 60000"),
        ("safety.stale_command_ms = 1e300", "safety.stale_command_ms: input should be less than or equal to 60000"),
        (f"world.base_height = {'9' * 400}", "world.base_height: "),
        (f'world.urdf = "{"a" * 5000}"', "File name too long" if ASKS else "world.urdf: no such file"),
        ('world.urdf = "a\\u0000b"', "world.urdf: has control characters"),
        ('name = "red\\u001b[31m"', "name: has control characters"),
        ('servo = [{ name = "a\\u0007" }]', "name: has control characters"),
        ('parameters = { "a\\u009b" = 1.0 }', "parameters: has control characters"),
    ],
)  # fmt: skip
def test_a_rig_that_makes_no_sense_is_refused_in_two_lines(tmp_path, line, said):
    base = "" if line.startswith("base") else 'base = "bench_arm"\n'
    (tmp_path / "mine.toml").write_text(f"{base}{line}\n")
    with pytest.raises(RigError) as caught:
        check_rig(Rig.load(tmp_path / "mine.toml"))
    first, *hint = str(caught.value).splitlines()
    assert "mine.toml: " in first
    assert said in first
    assert len(hint) <= 1
    assert len(first) < 6000


URDF = """<robot name="r"><link name="l0"/>{links}{joints}</robot>"""
SOLID = """<link name="l{0}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>"""
HINGE = """<joint name="j{0}" type="continuous"><parent link="l{1}"/><child link="l{0}"/></joint>"""


@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.slow
def test_a_rig_of_three_thousand_links_is_checked_at_once(tmp_path, chain):
    count = 3000
    links = "".join(SOLID.format(k) for k in range(1, count))
    joints = "".join(HINGE.format(k, k - 1 if chain else 0) for k in range(1, count))
    (tmp_path / "big.urdf").write_text(URDF.format(links=links, joints=joints))
    servo = '[[servo]]\nname = "a"\njoint = "j7"\nid = 1\n'
    (tmp_path / "big.toml").write_text(f'name = "big"\n[world]\nurdf = "big.urdf"\n{servo}')
    start = time.process_time()
    checked = check_rig(Rig.load(tmp_path / "big.toml"))
    assert time.process_time() - start < 10  # 60 s when every link looked at every joint; a chain ended in a traceback
    assert len(checked.tree) == count
    assert checked.tree[7].lstrip(" └─├│").startswith("j7: turns about x")


def test_thousands_of_links_without_a_parent_are_not_all_listed(tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF.format(links="".join(SOLID.format(k) for k in range(1, 3000)), joints=""))
    (tmp_path / "arm.toml").write_text('name = "a"\n[world]\nurdf = "arm.urdf"\n[[servo]]\nname="a"\njoint="j"\nid=1\n')
    with pytest.raises(RigError, match=r"3000 links have no parent: l0, l1, .* and 2990 more\njoin them"):
        check_rig(Rig.load(tmp_path / "arm.toml"))
