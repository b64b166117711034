"""Rigs in MuJoCo: MuJoCo loads the exported files and moves as axbridge does."""

import math
import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from axbridge.cli.app import run
from axbridge.config.rig import Rig
from axbridge.export.mjcf import LIMP_GROUP, left_out, to_mjcf
from tests.config.test_mesh import stl, text_stl

mujoco = pytest.importorskip("mujoco")
from benchmarks.export_mujoco import differences  # noqa: E402

pytestmark = pytest.mark.slow


def loaded(rig):
    model = mujoco.MjModel.from_xml_string(to_mjcf(rig))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    return model, data


def test_the_papers_servo_moves_as_in_axbridge():
    errors = differences(Rig.load("bench_arm"))
    assert max(errors.values()) < 0.3
    assert {name.split()[0] for name in errors} == {"step", "fall", "chirp"}
    assert left_out(Rig.load("bench_arm")) == ["inductance of the winding"]
    assert any("limits of speed" in part for part in left_out(Rig.load("so101")))  # by a register


@pytest.mark.ci
def test_parts_of_an_ax12_that_mjcf_lacks_are_reported_and_matter_in_fast_motion():
    rig = Rig.load("bench_arm").with_model("ax12")
    errors = differences(rig)
    assert max(value for name, value in errors.items() if name.startswith("step")) < 0.7
    assert max(value for name, value in errors.items() if name.startswith("fall")) < 0.7  # play: 0.57; without: 0.1
    assert 1.3 < errors["chirp ±30°, 0.3 to 3 Hz"] < 2.0
    assert [words.split(" that")[0].split(",")[0] for words in left_out(rig)] == [
        "margin", "resistance", "backlash", "inductance of the winding",
    ]  # fmt: skip


def test_gear_loss_does_not_make_the_motor_faster_and_latency_is_kept():
    rig = Rig.load("bare_horn").with_model("ax12")
    model, data = loaded(rig)
    model.opt.gravity[:] = 0.0
    model.jnt_limited[:] = 0
    model.actuator_ctrllimited[:] = 0
    data.ctrl[0] = 100.0
    while data.qpos[0] < 1e-5:
        mujoco.mj_step(model, data)
    assert 0.020 <= data.time < 0.024
    mujoco.mj_step(model, data, round((2.0 - data.time) / model.opt.timestep))
    free = rig.buses[0].supply_voltage / rig.specs[rig.servos[0].name].model.motor.output_constant
    assert 0.9 * free < data.qvel[0] < free


def test_a_humanoid_stands_in_mujoco_and_goes_limp_when_its_actuators_are_disabled():
    model, data = loaded(Rig.load("bioloid"))
    mujoco.mj_step(model, data, round(2.0 / model.opt.timestep))
    assert data.qpos[2] > 0.27
    assert np.abs(data.qvel).max() < 0.1
    model.opt.disableactuator = 1 << LIMP_GROUP
    mujoco.mj_step(model, data, round(1.0 / model.opt.timestep))
    assert data.qpos[2] < 0.2


def test_the_verb_writes_a_file_that_says_what_is_missing(tmp_path, capsys, said):
    out = tmp_path / "robot.xml"
    export = ["export", "mujoco", "bench_arm", "--out", str(out)]
    assert run(export) == 0
    assert "inductance of the winding" in capsys.readouterr().out
    assert "inductance of the winding" in out.read_text()
    assert ET.parse(out).getroot().find("actuator") is not None
    assert "already there" in said(*export, code=2)


def test_a_model_alone_is_exported_on_an_arm_and_unknown_names_are_refused(tmp_path, capsys, said):
    assert run(["export", "mujoco", "ax12", "--out", str(tmp_path / "ax12.xml")]) == 0
    assert "ax12.xml: bench_arm, " in capsys.readouterr().out
    unknown = {"bench_arn": "did you mean 'bench_arm'?", "xl330": "'xl330' fits no servo of this rig"}
    for wrong, words in unknown.items():
        assert words in said("export", "mujoco", wrong, "--out", tmp_path / "x.xml", code=2)
    assert not (tmp_path / "x.xml").exists()


def test_moments_of_inertia_that_a_urdf_leaves_out_are_0_there_too(tmp_path):
    rig = Rig.load("pan_tilt")
    urdf = tmp_path / "robot.urdf"
    urdf.write_text(re.sub(r' i(xy|xz|yz)="[^"]*"', "", rig.urdf_text()))
    (tmp_path / "bare.toml").write_text(f'base = "pan_tilt"\nname = "bare"\n[world]\nurdf = "{urdf}"\n')
    assert loaded(Rig.load(tmp_path / "bare.toml"))[0].body_mass.sum() == pytest.approx(loaded(rig)[0].body_mass.sum())


def test_stops_and_goals_are_those_of_the_rig():
    rig = Rig.load("pan_tilt")
    model, _ = loaded(rig)
    for servo in rig.servos:
        low, high = model.actuator(servo.name).ctrlrange
        assert low >= servo.min_position - 1e-9
        assert high <= servo.max_position + 1e-9
        assert math.isclose(model.joint(servo.joint).range[1], servo.max_stop, abs_tol=1e-6) or servo.max_stop == 0


@pytest.mark.parametrize("address", ["package://arm/meshes/", "file://{folder}/meshes/"])
def test_a_mesh_is_found_by_its_address_and_one_that_mujoco_cannot_read_is_named(tmp_path, said, address):
    folder = tmp_path / "arm"
    (folder / "meshes").mkdir(parents=True)
    for name, content in (("box.stl", stl()), ("text.stl", text_stl())):
        (folder / "meshes" / name).write_bytes(content)
        mesh = f'<visual><geometry><mesh filename="{address.format(folder=folder)}{name}"/></geometry></visual>'
        urdf = Rig.load("bench_arm").urdf_text().replace("</link>", f"{mesh}</link>")
        (folder / f"{name}.urdf").write_text(urdf)
        world = f'[world]\nurdf = "{name}.urdf"\n'
        (folder / f"{name}.toml").write_text(f'base = "bench_arm"\nname = "arm"\n{world}')
    assert loaded(Rig.load(folder / "box.stl.toml"))[0].nmesh > 0
    refused = said("export", "mujoco", folder / "text.stl.toml", "--out", tmp_path / "x.xml", code=2)
    assert "text.stl" in refused
    assert not (tmp_path / "x.xml").exists()
