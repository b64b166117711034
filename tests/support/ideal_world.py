"""Small worlds with ideal joints, written for each test: one link on a fixed base, or several beside each other."""

from pathlib import Path

import axbridge
from axbridge import webots
from axbridge.webots.robot import Robot as WebotsRobot

H = 0.032  # basic time step and physics step, s
INERTIA = 0.1  # kg·m² about the axis; mass 1 kg at the axis

LINK = """
  <link name="{name}_link">
    <inertial><origin xyz="{com} 0 0"/><mass value="1"/>
      <inertia ixx="{inertia}" iyy="{inertia}" izz="{inertia}" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="{name}" type="{kind}">
    <parent link="base"/><child link="{name}_link"/><axis xyz="{axis}"/>{limit}
  </joint>"""
BASE = '<link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'


class Bench:
    """Writes rigs and opens them; each servo is a dict of rig keys, and of the link: kind, inertia, com, axis."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[axbridge.Robot | webots.Session] = []

    def rig(self, *servos: dict, gravity: float = 0.0, robot: str = "") -> Path:
        urdf, toml = [BASE], []
        for number, given in enumerate(servos):
            keys = {"name": f"j{number}", **given}
            link = {"kind": "continuous", "inertia": INERTIA, "com": 0.0, "axis": "0 1 0", "limit": ""}
            if keys.get("kind") == "prismatic":
                link["limit"] = '<limit lower="-9" upper="9" effort="99" velocity="99"/>'
            link |= {name: keys.pop(name) for name in link if name in keys}
            urdf.append(LINK.format(name=f"joint{number}", **link))
            lines = [f"{key} = {value!r}".replace("'", '"') for key, value in keys.items()]
            toml.append("\n".join(["[[servo]]", f'joint = "joint{number}"', 'drive = "ideal"', *lines, ""]))
        (self.folder / "world.urdf").write_text(f'<robot name="bench">{"".join(urdf)}\n</robot>')
        path = self.folder / "bench.toml"
        path.write_text(
            f'name = "bench"\n[world]\nurdf = "world.urdf"\ngravity = [0, 0, {-gravity}]\n'
            f"[robot]\nbasic_time_step_ms = {1000 * H}\n{robot}\n" + "".join(toml)
        )
        return path

    def open(self, *servos: dict, **options) -> axbridge.Robot:
        robot = axbridge.open(self.rig(*servos, **options), backend="sim")
        self.opened.append(robot)
        return robot

    def controlled(self, *servos: dict, **options) -> WebotsRobot:
        """The robot as a Webots controller has it."""
        self.opened.append(webots.install(self.rig(*servos, **options), "sim"))
        return WebotsRobot()


def positions(robot: axbridge.Robot, name: str, steps: int) -> list[float]:
    """Return the true positions after each of `steps` steps of 32 ms."""
    angles = []
    for _ in range(steps):
        assert robot.step(32) == 0
        angles.append(robot[name].position)
    return angles
