"""Write hil_rigs/bioloid, bioloid_head and leg: URDF and rig of a Bioloid Type A, from a table of figures.

Figures: masses, principal inertia and offsets from the CAD of public Bioloid descriptions; 19 AX-12, about 2 kg with
battery and 0.38 m tall from Lima et al. 2009. x forward, y left, z up; m, kg, kg·m². At 0 rad the robot stands with
its feet straight below its hips and hanging arms. The knee's axis is 14.5 mm behind the line from hip to ankle then,
so that it can bend so far: a leg is longest with its knee at 22 degrees. Swing joints are positive forward (hip,
shoulder) and where they bend (knee, and the ankle's toes up), so a sole is level where hip + ankle = knee; twist and
lateral joints turn about +z, +x.

Which way each servo turns, and its counts at 0 rad: from `typea.urdf` of github.com/robkwan/bioloid_ros2, whose zero is
512 of each servo. There the arms are stretched out sideways and the legs turned out by 45 degrees. Limits: the servo
cannot leave 0 to 1023; within that, they hold the poses of ROBOTIS' own motion pages for this robot (its elbow bends
105 degrees, its knee 148), and where these ask for less, the limits of that URDF.
tests/config/test_bioloid_counts.py compares both with published poses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

RIGS = Path(__file__).resolve().parents[1] / "hil_rigs"
HIP, KNEE = 0.632, 1.277  # rad: swing joints of the standing pose; the ankle makes the sole level
FRICTION = 0.4  # sole and shell on the floor


@dataclass(frozen=True)
class Link:
    """A link as a box: mass, principal inertia about its centre, size and centre in its frame."""

    mass: float
    inertia: tuple[float, float, float]
    size: tuple[float, float, float]
    centre: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Part:
    """A joint and the link it moves, on one side of the robot (or in the middle)."""

    name: str
    parent: str
    axis: tuple[float, float, float]
    offset: tuple[float, float, float]  # of the joint in the parent's frame, left side
    limits: tuple[float, float]  # rad, left side
    link: Link
    ids: tuple[int, int]  # right, left
    directions: tuple[int, int] = (1, 1)  # of the servos, against the joint's axis; right, left
    zeros: tuple[int, int] = (512, 512)  # counts at 0 rad; right, left
    stand: float = 0.0  # rad, standing pose
    swing: bool = False  # a mirrored pose has the same sign on both sides


FORWARD, UP, SIDE, AHEAD = (0, -1, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)
_SCALE = 0.861 / 0.411  # battery in the torso
TORSO = Link(0.861, (7.9e-4 * _SCALE, 7.0e-4 * _SCALE, 5.7e-4 * _SCALE), (0.070, 0.075, 0.090), (0, 0, -0.012))
HEAD = Link(0.050, (4e-5, 4e-5, 2e-5), (0.040, 0.040, 0.040), (0, 0, 0.020))
ARM = [
    Part("shoulder_swing", "torso", FORWARD, (0, 0.032, 0), (-1.04, 3.4),
         Link(0.010, (2e-6, 3e-6, 4e-6), (0.020, 0.030, 0.030), (0, 0.025, 0)), (1, 2), (1, -1), (205, 819),
         swing=True),
    Part("shoulder_lateral", "shoulder_swing", AHEAD, (0.0, 0.044, -0.014), (-0.45, 3.0),
         Link(0.070, (5.7e-5, 5.0e-5, 2.0e-5), (0.032, 0.032, 0.060), (0, 0, -0.035)), (3, 4), (-1, -1), (205, 819)),
    Part("elbow", "shoulder_lateral", AHEAD, (0, 0, -0.0675), (-1.84, 1.84),
         Link(0.068, (4.9e-5, 4.5e-5, 1.7e-5), (0.032, 0.032, 0.100), (0, 0, -0.053)), (5, 6), (-1, -1)),
]  # fmt: skip
LEG = [
    Part("hip_twist", "torso", UP, (0, 0.0385, -0.0655), (-0.8, 1.6),
         Link(0.016, (1.1e-5, 3e-6, 1.0e-5), (0.030, 0.040, 0.020), (0, 0, -0.012)), (7, 8), (-1, -1), (358, 666)),
    Part("hip_lateral", "hip_twist", AHEAD, (0, 0, -0.050), (-0.8, 1.4),
         Link(0.120, (7.8e-5, 6.8e-5, 4.2e-5), (0.050, 0.045, 0.040)), (9, 10), (1, 1)),
    Part("hip_swing", "hip_lateral", FORWARD, (0, 0, 0), (-2.0, 2.4),
         Link(0.030, (2.9e-5, 2.6e-5, 9e-6), (0.030, 0.045, 0.060), (-0.007, 0, -0.040)), (11, 12), (-1, 1),
         stand=HIP, swing=True),
    Part("knee", "hip_swing", SIDE, (-0.0145, 0, -0.075), (-0.1, 2.6),
         Link(0.080, (8.2e-5, 7.9e-5, 2.6e-5), (0.040, 0.045, 0.065), (0.007, 0, -0.032)), (13, 14), (-1, 1),
         stand=KNEE, swing=True),
    Part("ankle_swing", "knee", FORWARD, (0.0145, 0, -0.0725), (-0.5, 2.0),
         Link(0.120, (6.8e-5, 4.2e-5, 7.9e-5), (0.050, 0.045, 0.038)), (15, 16), (1, -1),
         stand=KNEE - HIP, swing=True),
    Part("ankle_lateral", "ankle_swing", AHEAD, (0, 0, 0), (-1.15, 0.8),
         Link(0.030, (8e-6, 2.4e-5, 2.7e-5), (0.101, 0.061, 0.009), (0, 0.009, -0.0275)), (17, 18), (-1, -1)),
]  # fmt: skip
SOLE = 0.032  # ankle to sole
SIDES = (("right_", -1.0), ("left_", 1.0))


@dataclass(frozen=True)
class Look:
    """A part of what is seen of a link: a box, or a disc (radius twice, thickness) about an axis; it weighs nothing."""

    size: tuple[float, float, float]
    at: tuple[float, float, float]
    material: str
    axis: str = ""  # of a disc


# An AX-12 is 32 x 50 x 38 mm, its horn 11.5 mm from one end. Colours: red, green, blue.
MATERIALS = {
    "servo": (0.19, 0.20, 0.23),
    "horn": (0.80, 0.81, 0.83),
    "bracket": (0.55, 0.58, 0.63),
    "shell": (0.93, 0.94, 0.95),
    "accent": (0.10, 0.36, 0.72),
    "sole": (0.30, 0.32, 0.35),
}
_HORN = (0.011, 0.011, 0.003)
_CROSSED = [  # two servos at one place: one turns about x, the other about y
    Look((0.034, 0.032, 0.050), (-0.0175, 0, 0), "servo"), Look((0.032, 0.038, 0.050), (0.0165, 0, 0), "servo"),
    Look((0.0345, 0.0325, 0.004), (-0.0175, 0, 0.008), "bracket"),
    Look((0.0325, 0.0385, 0.004), (0.0165, 0, 0.008), "bracket"),
    Look(_HORN, (0, 0.0205, 0), "horn", "y"), Look(_HORN, (0, -0.0205, 0), "horn", "y"),
    Look(_HORN, (-0.036, 0, 0), "horn", "x"), Look(_HORN, (0.034, 0, 0), "horn", "x"),
]  # fmt: skip
_ARM_SERVO = [
    Look((0.038, 0.032, 0.050), (0, 0, -0.0135), "servo"), Look((0.0385, 0.0325, 0.004), (0, 0, -0.022), "bracket"),
    Look(_HORN, (0.0205, 0, 0), "horn", "x"), Look(_HORN, (-0.0205, 0, 0), "horn", "x"),
]  # fmt: skip
LOOKS: dict[str, list[Look]] = {
    "torso": [
        Look((0.046, 0.070, 0.078), (-0.008, 0, -0.006), "servo"),
        Look((0.004, 0.058, 0.050), (0.017, 0, 0.004), "shell"),
        Look((0.002, 0.034, 0.014), (0.0195, 0, 0.014), "accent"),
        Look((0.002, 0.034, 0.004), (0.0195, 0, -0.002), "servo"),
        Look((0.020, 0.050, 0.060), (-0.036, 0, -0.010), "shell"),
        *(Look((0.032, 0.014, 0.050), (0, side * 0.026, 0), "servo") for side in (1, -1)),
        *(Look((0.050, 0.032, 0.030), (0, side * 0.0385, -0.048), "servo") for side in (1, -1)),
        *(Look(_HORN, (0, side * 0.0345, 0), "horn", "y") for side in (1, -1)),
        *(Look(_HORN, (0, side * 0.0385, -0.0645), "horn", "z") for side in (1, -1)),
    ],
    "head": [
        Look((0.034, 0.040, 0.030), (0, 0, 0.021), "shell"), Look((0.004, 0.032, 0.010), (0.018, 0, 0.024), "accent"),
        Look((0.024, 0.024, 0.010), (0, 0, 0.003), "servo"),
        *(Look((0.008, 0.008, 0.004), (0, side * 0.022, 0.022), "accent", "y") for side in (1, -1)),
    ],
    "shoulder_swing": [
        Look(_HORN, (0, 0.004, 0), "horn", "y"), Look((0.044, 0.003, 0.026), (0, 0.010, -0.004), "bracket"),
        *(Look((0.003, 0.040, 0.024), (side * 0.0235, 0.029, -0.010), "bracket") for side in (1, -1)),
    ],
    "shoulder_lateral": [
        *_ARM_SERVO, Look((0.050, 0.024, 0.003), (0, 0, -0.0405), "bracket"),
        *(Look((0.003, 0.024, 0.038), (side * 0.0235, 0, -0.0585), "bracket") for side in (1, -1)),
    ],
    "elbow": [
        *_ARM_SERVO, Look((0.030, 0.026, 0.006), (0, 0, -0.042), "bracket"),
        *(Look((0.006, 0.022, 0.052), (side * 0.011, 0, -0.070), "shell") for side in (1, -1)),
        *(Look((0.007, 0.018, 0.010), (side * 0.011, 0, -0.098), "accent") for side in (1, -1)),
    ],
    "hip_twist": [
        Look(_HORN, (0, 0, -0.002), "horn", "z"), Look((0.076, 0.026, 0.003), (0, 0, -0.006), "bracket"),
        Look((0.003, 0.024, 0.054), (-0.0385, 0, -0.033), "bracket"),
        Look((0.003, 0.024, 0.054), (0.0365, 0, -0.033), "bracket"),
    ],
    "hip_lateral": _CROSSED,
    "hip_swing": [
        *(Look((0.024, 0.003, 0.098), (-0.007, side * 0.0235, -0.0375), "bracket") for side in (1, -1)),
        Look((0.024, 0.047, 0.003), (-0.009, 0, -0.038), "bracket"),
        Look((0.004, 0.034, 0.024), (0.007, 0, -0.036), "shell"),
    ],
    "knee": [
        Look((0.032, 0.038, 0.050), (0, 0, -0.0135), "servo"), Look((0.0325, 0.0385, 0.004), (0, 0, -0.022), "bracket"),
        *(Look(_HORN, (0, side * 0.0205, 0), "horn", "y") for side in (1, -1)),
        *(Look((0.024, 0.003, 0.056), (0.0105, side * 0.0235, -0.056), "bracket") for side in (1, -1)),
        Look((0.004, 0.030, 0.034), (0.018, 0, -0.018), "shell"),
    ],
    "ankle_swing": _CROSSED,
    "ankle_lateral": [
        Look((0.101, 0.061, 0.005), (0, 0.009, -0.0295), "sole"),
        Look((0.090, 0.052, 0.004), (0, 0.009, -0.025), "bracket"),
        Look((0.003, 0.024, 0.036), (-0.0385, 0, -0.010), "bracket"),
        Look((0.003, 0.024, 0.036), (0.0365, 0, -0.010), "bracket"),
    ],
}  # fmt: skip
_TURNS = {"x": "0 1.570796 0", "y": "1.570796 0 0", "z": "0 0 0"}


def standing_height() -> float:
    """Height of the torso's origin above the soles in the standing pose, m."""
    thigh = 0.075 * math.cos(HIP) + 0.0145 * math.sin(HIP)
    shank = 0.0725 * math.cos(KNEE - HIP) + 0.0145 * math.sin(KNEE - HIP)
    return 0.0655 + 0.050 + thigh + shank + SOLE


def materials_xml() -> str:
    """URDF of the colours."""
    return "".join(
        f'  <material name="{name}"><color rgba="{red:g} {green:g} {blue:g} 1"/></material>\n'
        for name, (red, green, blue) in MATERIALS.items()
    )


def look_xml(look: Look, mirror: float) -> str:
    """URDF of a part of what is seen."""
    x, y, z = look.at[0], mirror * look.at[1], look.at[2]
    if look.axis:
        turn, shape = f' rpy="{_TURNS[look.axis]}"', f'<cylinder radius="{look.size[0]:g}" length="{look.size[2]:g}"/>'
    else:
        turn, shape = "", f'<box size="{look.size[0]:g} {look.size[1]:g} {look.size[2]:g}"/>'
    return (
        f'    <visual><origin xyz="{x:g} {y:g} {z:g}"{turn}/><geometry>{shape}</geometry>'
        f'<material name="{look.material}"/></visual>\n'
    )


def link_xml(name: str, link: Link, kind: str, mirror: float = 1.0) -> str:
    """URDF of a link; `kind` says what it looks like."""
    x, y, z = link.centre[0], mirror * link.centre[1], link.centre[2]
    ixx, iyy, izz = link.inertia
    box = f'<geometry><box size="{link.size[0]:g} {link.size[1]:g} {link.size[2]:g}"/></geometry>'
    origin = f'<origin xyz="{x:g} {y:g} {z:g}"/>'
    looks = "".join(look_xml(look, mirror) for look in LOOKS[kind])
    return f"""  <link name="{name}">
    <contact><lateral_friction value="{FRICTION}"/></contact>
    <inertial>{origin}<mass value="{link.mass:g}"/>
      <inertia ixx="{ixx:.4g}" iyy="{iyy:.4g}" izz="{izz:.4g}" ixy="0" ixz="0" iyz="0"/></inertial>
{looks}    <collision>{origin}{box}</collision>
  </link>
"""


def joint_xml(name: str, parent: str, child: str, part: Part, mirror: float) -> str:
    """URDF of a joint."""
    x, y, z = part.offset[0], mirror * part.offset[1], part.offset[2]
    low, high = part.limits if part.swing or mirror > 0 else (-part.limits[1], -part.limits[0])
    return f"""  <joint name="{name}" type="revolute">
    <parent link="{parent}"/><child link="{child}"/>
    <origin xyz="{x:g} {y:g} {z:g}"/><axis xyz="{part.axis[0]} {part.axis[1]} {part.axis[2]}"/>
    <limit lower="{low:g}" upper="{high:g}" effort="10" velocity="100"/>
  </joint>
"""


def limb_xml(parts: list[Part], side: str, mirror: float, base: str) -> str:
    """URDF of an arm or leg."""
    text = ""
    for part in parts:
        child = f"{side}{part.name}_link"
        parent = base if part.parent == "torso" else f"{side}{part.parent}_link"
        text += joint_xml(f"{side}{part.name}", parent, child, part, mirror) + link_xml(
            child, part.link, part.name, mirror
        )
    return text


def body_xml(*, head: bool) -> str:
    """URDF of the robot."""
    text = '<?xml version="1.0"?>\n<!-- Written by tools/make_bioloid.py -->\n<robot name="bioloid">\n'
    text += materials_xml() + link_xml("torso", TORSO, "torso")
    for side, mirror in SIDES:
        text += limb_xml(ARM, side, mirror, "torso") + limb_xml(LEG, side, mirror, "torso")
    neck = Part("head", "torso", UP, (0, 0, 0.045), (-1.5, 1.5), HEAD, (19, 19))
    if head:
        text += joint_xml("head", "torso", "head_link", neck, 1.0)
    else:
        text += '  <joint name="neck" type="fixed"><parent link="torso"/><child link="head_link"/>'
        text += '<origin xyz="0 0 0.045"/></joint>\n'
    return text + link_xml("head_link", HEAD, "head") + "</robot>\n"


def leg_xml() -> str:
    """URDF of the left leg hanging from a bolted torso."""
    text = '<?xml version="1.0"?>\n<!-- Written by tools/make_bioloid.py -->\n<robot name="leg">\n'
    return text + materials_xml() + link_xml("torso", TORSO, "torso") + limb_xml(LEG, "", 1.0, "torso") + "</robot>\n"


def servo_toml(name: str, part: Part, mirror: float) -> str:
    """Rig entry of a servo."""
    low, high = part.limits if part.swing or mirror > 0 else (-part.limits[1], -part.limits[0])
    side = int(mirror > 0)
    return f"""
[[servo]]
name = "{name}"
joint = "{name}"
id = {part.ids[side]}
zero = {part.zeros[side]}
direction = {part.directions[side]}
model = "ax12"
min_position = {low:g}
max_position = {high:g}
min_stop = {low:g}
max_stop = {high:g}
position = {part.stand:g}
"""


def head_toml(name: str, description: str, urdf: str, *, fixed: bool) -> str:
    """Rig entry of bus, world and, where it stands free, the IMU in its torso."""
    world = (
        "fixed_base = true" if fixed else f"fixed_base = false\nground = true\nbase_height = {standing_height():.6g}"
    )
    imu = "" if fixed else '\n[[sensor]]\nname = "imu"\nkind = "imu"\nlink = "torso"\n'
    return f"""# Written by tools/make_bioloid.py: change it there.
# Its servos are `ax12`, measured on real AX-12A. The servo of Lima et al. 2009, as it was published: --model lima2009
name = "{name}"
description = "{description}"

[[bus]]
name = "main"
port = "auto"
baud = 1_000_000
supply_voltage = 11.1

[world]
urdf = "{urdf}"
{world}

[robot]
basic_time_step_ms = 20
{imu}"""


def write(folder: str, urdf: str, toml: str) -> None:
    """Write a rig's two files."""
    (RIGS / folder).mkdir(exist_ok=True)
    (RIGS / folder / f"{folder}.urdf").write_text(urdf, encoding="utf-8")
    (RIGS / folder / f"{folder}.toml").write_text(toml, encoding="utf-8")


def main() -> None:
    """Write the three rigs."""
    pairs = [[(f"{side}{part.name}", part, mirror) for side, mirror in SIDES] for part in ARM + LEG]
    servos = "".join(servo_toml(*entry) for pair in pairs for entry in pair)
    about = "Bioloid Type A, {} AX-12A, 2 kg, 0.38 m; standing pose"
    write("bioloid", body_xml(head=False), head_toml("bioloid", about.format(18), "bioloid.urdf", fixed=False) + servos)
    neck = Part("head", "torso", UP, (0, 0, 0.045), (-1.5, 1.5), HEAD, (19, 19))
    toml = head_toml("bioloid_head", about.format(19), "bioloid_head.urdf", fixed=False)
    write("bioloid_head", body_xml(head=True), toml + servos + servo_toml("head", neck, 1.0))
    legs = "".join(servo_toml(part.name, part, 1.0) for part in LEG)
    toml = head_toml("leg", "the left leg of a Bioloid, six AX-12A, hip bolted", "leg.urdf", fixed=True)
    write("leg", leg_xml(), toml + legs)


if __name__ == "__main__":
    main()
