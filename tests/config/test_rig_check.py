"""`check_rig` says what a person who writes a rig has left out, and names the cause rather than what follows from it."""

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
