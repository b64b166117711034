"""Numbers of a rig that its URDF names: how they are set, what is refused, and what the rig `pendulum` weighs then."""

import re

import pytest

from axbridge.comparison.recorded_runs import arm_of
from axbridge.config.rig import Rig
from axbridge.errors import RigError


def values(rig):
    return {name: one.value for name, one in rig.parameters.items()}


def test_parameters_are_set_behind_the_name_in_python_and_in_a_rig_built_on_another(tmp_path):
    assert values(Rig.load("pendulum")) == {"mass": 0.1, "length": 0.1}
    assert values(Rig.load("pendulum:mass=0.2,length=0.15")) == {"mass": 0.2, "length": 0.15}
    assert values(Rig.load("pendulum").overridden({"parameters": {"mass": 0.3}})) == {"mass": 0.3, "length": 0.1}
    path = tmp_path / "heavy.toml"
    path.write_text('base = "pendulum"\nname = "heavy"\n[parameters.mass]\nvalue = 0.4\n')
    heavy = Rig.load(f"{path}:length=0.2")
    assert values(heavy) == {"mass": 0.4, "length": 0.2}
    assert heavy.parameters["mass"].max == Rig.load("pendulum").parameters["mass"].max


def test_the_urdf_of_a_world_has_them_in_it():
    text = Rig.load("pendulum:mass=0.25,length=0.2").urdf_text()
    assert '<mass value="0.25"/>' in text
    assert '<origin xyz="0 0 -0.2"/>' in text
    assert "${" not in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pendulum:mas=0.2", "parameters.mas: rig 'pendulum' has no such parameter\nit has: mass (kg), length (m)"),
        ("bench_arm:mass=0.2", "no such parameter\nit has: none"),
        ("pendulum:mass=-1", "parameters.mass.value: -1 is outside 0.001..5 kg"),
        ("pendulum:length=9", "9 is outside 0.01..2 m"),
        ("pendulum:mass=heavy", "parameters.mass: 'heavy' is no number\nwrite mass=0.1"),
        ("pendulum:mass=", "'' is no number"),
        ("pendulum:mass=nan", "finite number, not nan"),
        ("pendulum:mass", "no such file or name"),
        ("bench_amr", "did you mean 'bench_arm'"),
    ],
)
def test_a_mistake_in_a_parameter_names_it_and_the_fix(name, words):
    with pytest.raises(RigError, match=re.escape(words)):
        Rig.load(name)


@pytest.mark.parametrize(
    ("urdf", "words"),
    [
        ("${mass} ${width}", r"arm.urdf: \$\{width\} names no parameter\n.*parameters of the rig: mass"),
        ("nothing", r"parameters.mass: arm.urdf has no \$\{mass\}"),
        ("${mass} ${0.5 * mass}", r"arm.urdf: \$\{0.5 \* mass\} names no parameter"),
        ("${mass} ${mass }", r"\$\{mass \} names no parameter"),
        ("${mass} ${" + 5000 * "(" + "}", "names no parameter"),
    ],
)
def test_a_mistake_in_the_urdf_names_it(tmp_path, urdf, words):
    (tmp_path / "arm.urdf").write_text(urdf)
    rig = tmp_path / "arm.toml"
    rig.write_text(
        'name = "arm"\n[world]\nurdf = "arm.urdf"\n[parameters]\nmass = 0.1\n[[servo]]\nname="a"\njoint="a"\nid=1\n'
    )
    with pytest.raises(RigError, match=words):
        Rig.load(rig).urdf_text()


def test_closed_form_and_world_have_the_same_arm():
    rig = Rig.load("pendulum:mass=0.2,length=0.15")
    arm = arm_of(rig, rig.servos[0])
    assert arm.inertia == pytest.approx(0.2 * 0.15**2 + 4.84e-6)
    assert arm.gravity == pytest.approx(0.2 * 9.81 * 0.15)
