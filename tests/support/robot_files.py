"""Rigs written to a folder: many independent arms, light enough to run anywhere; a shipped rig, built otherwise."""

import json

from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.config.rig_edit import copy_rig, edited

_LINK = """
  <link name="arm{n}"><inertial><origin xyz="0 0 -0.05"/><mass value="0.05"/>
    <inertia ixx="5e-5" iyy="5e-5" izz="5e-6" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0 0 -0.05"/><geometry><box size="0.03 0.03 0.1"/></geometry></visual></link>
  <joint name="j{n}" type="revolute"><parent link="base"/><child link="arm{n}"/><origin xyz="0 {y} 0"/>
    <axis xyz="0 -1 0"/><limit lower="-2.6" upper="2.6" effort="10" velocity="100"/></joint>"""
_SERVO = """
[[servo]]
name = "s{n}"
joint = "j{n}"
id = {n}
registers = {{ return_delay_time = {delay} }}
{more}
"""
# A box with a free base and a wheel on it
BOX = """<robot name="box">
  <link name="base"><inertial><mass value="2"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/>
    </inertial><collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision></link>
  <link name="arm"><inertial><mass value="0.01"/><inertia ixx="1e-4" iyy="1e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/>
    </inertial></link>
  <joint name="shaft" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint>
</robot>"""


def write_comb(folder, count=18, delay=0, extra="", world=True, more=""):
    """Write ``comb.toml``, whose path is returned, and its URDF; without `world` pendulums. `more` is of each servo."""
    links = "".join(_LINK.format(n=n, y=0.1 * n) for n in range(1, count + 1))
    base = '<link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    (folder / "comb.urdf").write_text(f'<robot name="comb">{base}{links}</robot>', encoding="utf-8")
    servos = "".join(_SERVO.format(n=n, delay=delay, more=more) for n in range(1, count + 1))
    rig = folder / "comb.toml"
    engine = '[world]\nurdf = "comb.urdf"' if world else ""
    rig.write_text(f'name = "comb"\n{extra}\n{engine}\n{servos}', encoding="utf-8")
    return rig


def write_feetech_comb(folder, count=2, profile="sts3215", supply=7.4, more=""):
    """The same with servos by Feetech."""
    extra = f"bus = [{{ supply_voltage = {supply} }}]\n"
    return write_comb(folder, count, extra=extra, more=f'profile = "{profile}"\n{more}')


def write_horn(folder, profile, inertia=1e-5, more=""):
    """Write ``horn.toml``, one servo that turns a disc without end; return the path."""
    supply = FirmwareProfile.load(profile).electrics.nominal_voltage
    moments = " ".join(
        f'{name}="{inertia if name[1] == name[2] else 0}"' for name in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
    )
    (folder / "horn.urdf").write_text(
        f'<robot name="horn"><link name="base"/><link name="disc"><inertial><mass value="0.02"/><inertia {moments}/>'
        '</inertial></link><joint name="axle" type="continuous"><parent link="base"/><child link="disc"/>'
        '<axis xyz="0 0 1"/></joint></robot>',
        encoding="utf-8",
    )
    path = folder / "horn.toml"
    path.write_text(
        f'name = "horn"\n[[bus]]\nsupply_voltage = {supply}\n[world]\nurdf = "horn.urdf"\n'
        f'[[servo]]\nname = "horn"\njoint = "axle"\nid = 1\nprofile = "{profile}"\n{more}\n',
        encoding="utf-8",
    )
    return path


def write_built(folder, rig, changes):
    """Write a robot as it really is: the rig with other values in its servos, by name; return the path."""
    path = copy_rig(Rig.load(rig), folder)[0]
    path.write_text(edited(path.read_text(encoding="utf-8"), changes, path), encoding="utf-8")
    return path


def write_rig(rig, path):
    """Write a rig that was made of data, without a world, to a file; return the path."""
    table = rig.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"path"})
    path.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in table.items()), encoding="utf-8")
    return path


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
