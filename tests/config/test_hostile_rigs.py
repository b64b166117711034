"""Rigs that nobody should write are refused in two lines, soon, and before anything is built of them."""

import sys
import time

import pytest

from axbridge.config.rig import Rig
from axbridge.config.rig_check import check_rig
from axbridge.errors import RigError

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
LINK = """<link name="l{0}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>"""
JOINT = """<joint name="j{0}" type="continuous"><parent link="l{1}"/><child link="l{0}"/></joint>"""


@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.slow
def test_a_rig_of_three_thousand_links_is_checked_at_once(tmp_path, chain):
    count = 3000
    links = "".join(LINK.format(k) for k in range(1, count))
    joints = "".join(JOINT.format(k, k - 1 if chain else 0) for k in range(1, count))
    (tmp_path / "big.urdf").write_text(URDF.format(links=links, joints=joints))
    servo = '[[servo]]\nname = "a"\njoint = "j7"\nid = 1\n'
    (tmp_path / "big.toml").write_text(f'name = "big"\n[world]\nurdf = "big.urdf"\n{servo}')
    start = time.process_time()
    checked = check_rig(Rig.load(tmp_path / "big.toml"))
    assert time.process_time() - start < 10  # 60 s when every link looked at every joint; a chain ended in a traceback
    assert len(checked.tree) == count
    assert checked.tree[7].lstrip(" └─├│").startswith("j7: turns about x")


def test_thousands_of_links_without_a_parent_are_not_all_listed(tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF.format(links="".join(LINK.format(k) for k in range(1, 3000)), joints=""))
    (tmp_path / "arm.toml").write_text('name = "a"\n[world]\nurdf = "arm.urdf"\n[[servo]]\nname="a"\njoint="j"\nid=1\n')
    with pytest.raises(RigError, match=r"3000 links have no parent: l0, l1, .* and 2990 more\njoin them"):
        check_rig(Rig.load(tmp_path / "arm.toml"))
