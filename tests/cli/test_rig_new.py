"""`axbridge rig new` of a URDF: a servo on each joint that turns."""

import pytest

from axbridge.config.rig import Rig
from axbridge.config.rig_check import check_rig
from axbridge.config.toml_tables import shipped


@pytest.fixture
def urdf(tmp_path):
    text = (shipped("hil_rigs") / "koch" / "koch.urdf").read_text()
    (tmp_path / "arm.urdf").write_text(text)
    return "arm.urdf"


@pytest.mark.parametrize("profile", ["ax-12a", "xl330-m288", "sts3215", "mx-28"])
def test_each_joint_of_a_urdf_gets_a_servo_of_the_profile(profile, urdf, said):
    written = said("rig", "new", "mine", "--urdf", urdf, "--profile", profile)
    assert written == "wrote mine/mine.toml: 6 servos\nnext: `axbridge rig check mine`\n"  # a URDF has their names
    rig = Rig.load("mine")
    assert [servo.id for servo in rig.servos] == [1, 2, 3, 4, 5, 6]
    assert {servo.profile for servo in rig.servos} == {profile}
    assert [servo.joint for servo in rig.servos] == rig.tree().names
    check_rig(rig)


def test_an_existing_rig_is_replaced_only_with_force(urdf, said):
    command = ("rig", "new", "mine", "--urdf", urdf, "--profile", "ax-12a")
    said(*command)
    assert "replace it with --force" in said(*command, "--ids", "6,5,4,3,2,1", code=2)
    said(*command, "--ids", "6,5,4,3,2,1", "--force")
    assert [servo.id for servo in Rig.load("mine").servos] == [6, 5, 4, 3, 2, 1]
