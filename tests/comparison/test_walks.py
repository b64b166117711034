"""Walks, compared and simulated again; and servos of a robot with their loads."""

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge.cli import app
from axbridge.comparison.comparison import compare, following
from axbridge.comparison.html import write_html
from axbridge.comparison.page import table_text
from axbridge.comparison.recorded_dynamics import footing, joints_of_robot, measured_zmp, on_two_feet
from axbridge.comparison.recorded_runs import runs_of
from axbridge.comparison.simulate import simulate
from axbridge.comparison.walks import document, power_draw, sides_of, walk_headline, walk_table
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, RigError, UsageError
from axbridge.recording.provenance import describe, rig_of
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Event, Recording, Track
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.recording.stored import open_recording, write_recording
from axbridge.servo.columns import pack
from axbridge.sim.rollout import rollouts
from tests.support.made_once import made_once

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rig():
    return Rig.load("bioloid").with_engine("mujoco")


@pytest.fixture(scope="module")
def repeated(walked, rig, tmp_path_factory):
    """The same goals simulated with the same model, and with the paper's."""

    def repeat(_folder):
        return [simulate(walked, rig, model) for model in ("ax12", "lima2009")]

    return made_once(tmp_path_factory, "walk_repeated", repeat)


@pytest.fixture(scope="module")
def sides(walked, repeated, tmp_path_factory):
    def beside(_folder):
        same, paper = (
            compare(walked, other, labels=("real", label), same_clock=True)
            for label, other in zip(("ax12", "lima2009"), repeated, strict=True)
        )
        return sides_of(same, paper)

    return made_once(tmp_path_factory, "walk_sides", beside)


def imported_walk(path, late):
    """Import another robot's walk: interpolated goals, loads and voltages, no rig."""
    time = np.arange(0.0, 6.0, 0.1)
    goal = 0.5 * np.sin(time)
    columns = {
        "command": goal, "position": 0.5 * np.sin(time - late), "load": np.full(60, 0.2), "voltage": np.full(60, 12.0),
    }  # fmt: skip
    tracks = {name: Track.of(name, time, **columns) for name in ("l_knee_y", "r_knee_y", "head_y")}
    events = tuple(Event(start, "segment", {"name": f"walk 1 segment {start:.0f}"}) for start in (0.0, 2.0, 4.0))
    return Recording(path, tracks, events, {}, describe(backend="imported", experiment="walk"))


def shares_of_travel(figures):
    return {name: knee["share_of_reach"] for name, knee in figures["knees"].items()}


def test_a_walk_repeated_with_its_own_model_is_closer_than_with_another(sides, walked, repeated, tmp_path):
    real = sides[0]
    figures = document(sides)
    near, far = (shares_of_travel(figures[label]) for label in ("ax12", "lima2009"))
    assert list(near) == ["left_knee", "right_knee"]
    assert max(near.values()) < 0.05 < min(far.values())
    watts = [figures[side.label]["mean_power_w"] for side in sides]
    assert watts[1] == pytest.approx(watts[0], rel=0.05)
    assert watts[2] < 0.6 * watts[0]
    assert max(figures["ax12"]["zmp"][key] for key in ("rms_ahead_m", "rms_left_m")) < 0.015
    assert [side.zmp.origin for side in sides] == ["measured", "by its joints", "by its joints"]
    assert np.diff(real.steps) == pytest.approx([0.65] * 4, abs=0.01)  # three and a closing one
    stepping = (real.grid >= real.steps[0]) & (real.grid < real.steps[-1])
    assert 4 * figures["real"]["energy_of_a_step_j"] == pytest.approx(real.power.watt[stepping].sum() * 0.02)
    text = walk_headline(sides)
    near = r"knees within \d\.\d° of each other \(\d% of their travel\), power \d% (less|more)\. "
    assert re.match(rf"ax12 beside real: {near}", text)
    assert re.search(r"lima2009 beside real: .* power [4-9]\d% less\.", text)
    assert walk_headline(sides[:1]) == ""
    page = tmp_path / "walk.html"
    write_html(compare(walked, repeated[0], labels=("real", "ax12"), same_clock=True), page, walks=sides)
    html = page.read_text()
    for heading in ("The walk", "Knee angles", "Zero-moment point", "Power", "All joints, worst first"):
        assert re.search(rf"<h2>{heading}", html), heading
    assert html.count("const drawn = ") == 1  # one program draws all figures
    assert "lima2009" in html


def test_walks_without_a_rig_have_knees(tmp_path):
    walks = [imported_walk(tmp_path / "a.mcap", 0.15), imported_walk(tmp_path / "b.mcap", 0.25)]
    sides = sides_of(compare(*walks, labels=("first", "second")))
    assert len(sides[0].steps) == 4  # three parts
    assert (sides[0].zmp, sides[0].power) == (None, None)
    assert "l_knee_y" in table_text(walk_table(sides))
    assert list(document(sides)["second"]) == ["steps", "seconds", "knees"]
    assert list(document(sides)["second"]["knees"]) == ["l_knee_y", "r_knee_y"]
    alike = sides_of(compare(*walks, labels=("walk", "walk")))  # as of one file, compared with itself
    assert [len(row) for row in (walk_table(alike).header, *walk_table(alike).rows)] == [3] * 5
    assert walk_table(alike).rows[0] == ("parts", "3", "3")
    assert walk_headline(alike).startswith("walk beside walk: knees within")
    write_html(compare(*walks), tmp_path / "page.html", walks=sides)
    alone = sides_of(following(walks[0]))
    assert [side.label for side in alone] == ["position"]
    write_html(following(walks[0]), tmp_path / "alone.html", walks=alone)


def test_walks_without_meshes_or_mujoco_are_compared_by_their_joints(walked, monkeypatch):
    torn = replace(walked, metadata={**walked.metadata, "urdf": "<robot"})
    sides = sides_of(compare(torn, torn))
    assert sides[0].zmp is None
    assert len(document(sides)["other"]["knees"]) == 2
    other = replace(walked, metadata={"experiment": "step"})  # without a rig
    assert sides_of(compare(walked, other)) == []
    monkeypatch.setitem(sys.modules, "mujoco", None)
    sides = sides_of(compare(walked, walked))
    assert sides[0].zmp.origin == "measured"
    unmeasured = replace(walked, cycles={})
    sides = sides_of(compare(walked, unmeasured))
    assert (sides[1].zmp, len(document(sides)["other"]["knees"])) == (None, 2)


def test_the_command_compares_three_walks(tmp_path, capsys, said):
    first, second, third = (str(tmp_path / f"{name}.mcap") for name in ("real", "sim", "third"))
    for name, late in ((first, 0.15), (second, 0.15), (third, 0.25)):
        write_recording(imported_walk(name, late), name)
    assert app.run(["compare", first, second, "--beside", third, "--json"]) == app.DONE
    summary = json.loads(capsys.readouterr().out)["walks"]
    assert list(summary) == ["real, imported", "sim, imported", "third"]
    assert summary["third"]["knees"]["l_knee_y"]["rmse_deg"] > 1.0
    assert app.run(["compare", first, second]) == app.DONE
    assert "The walk" in capsys.readouterr().out
    write_recording(replace(imported_walk(third, 0.1), metadata={"experiment": "step"}), third)
    assert "not all of these are walks" in said("compare", first, second, "--beside", third, code=2)


def test_a_walk_with_late_control_periods_is_compared_period_by_period(walked):
    """A late control period delays all later goals; that is no difference of the walk."""
    begin = stride(walked).start

    def later(times):  # from the walk's start on, each tenth of a second takes 12 ms longer
        return times + 0.12 * np.maximum(0.0, times - begin)

    tracks = {
        name: replace(track, time=later(track.time), commanded=later(track.commanded)) for name, track in walked.items()
    }
    cycles = {**walked.cycles, "time": later(walked.cycles["time"])}
    events = tuple(Event(float(later(event.time)), event.name, event.data) for event in walked.events)
    slower = Recording(walked.path, tracks, events, cycles, walked.metadata)
    sides = sides_of(compare(slower, walked))
    assert sides[0].span[1] - sides[0].span[0] > 1.1 * (sides[1].span[1] - sides[1].span[0])
    assert max(shares_of_travel(document(sides)["other"]).values()) < 0.01
    assert sides[1].shared(sides[1].steps) == pytest.approx(sides[0].steps, abs=0.03)
    assert max(pair.plain.rmse for pair in compare(slower, walked).pairs) < 1.0


def stride(recording):
    return next(part for part in recording.segments if part.name == "walk")


def test_computed_zmp_and_body_are_within_a_centimetre_of_the_simulation(walked):
    robot, part = on_two_feet(rig_of(walked)), stride(walked)
    times, measured, planned = measured_zmp(walked, robot)
    stood, during = footing(walked, robot, times), (times > part.start) & (times < part.end)
    error = np.sqrt(np.nanmean((stood.zmp - measured)[during] ** 2, axis=0))
    assert (error < 0.012).all()
    assert np.nanmax(np.abs(planned[during][:, 1])) < 0.05  # over the feet, which are 3.9 cm from the middle
    assert stood.lifted[during].max() > 0.012
    assert stood.lifted[during].min() < -0.012
    high = stood.lifted > 0.01  # the left foot is up: the right one, at y < 0, carries
    assert (stood.zmp[high & during][:, 1] < 0).mean() > 0.95
    centre = stood.place[:, 2] + (stood.turn @ robot.tree.centre[0])[:, 2]
    assert np.abs(centre - walked.cycles["base_z"])[during].max() < 0.008  # m
    gap = {
        name: track.rows(np.flatnonzero((track.time <= 3.0) | (track.time >= 3.2))) for name, track in walked.items()
    }
    holed = footing(replace(walked, tracks=gap), robot, np.arange(2.5, 3.7, 0.02))
    assert np.nanmax(np.abs(holed.zmp)) < 0.2


def test_a_simulated_walk_is_held_while_it_gets_up_and_has_the_same_distance(walked, repeated, rig):
    again = repeated[0]
    assert again.cycles["base_z"][-5] > 0.25  # without support it would lie on the floor
    distances = [side.cycles["base_x"][-5] for side in (walked, again)]
    assert distances[1] == pytest.approx(distances[0], abs=0.03)
    knee, real = again["left_knee"], walked["left_knee"]
    for column in ("command", "commanded", "load", "voltage", "torque", "power"):
        assert np.isfinite(getattr(knee, column)).mean() > 0.9, column
    sides = (track.between(stride(walked).start, stride(walked).end) for track in (real, knee))
    behind = [np.nanmean(np.abs(track.command - track.position)) for track in sides]
    assert behind[1] == pytest.approx(behind[0], rel=0.15)
    assert again.metadata["gait"] == walked.metadata["gait"]
    # in the first sample's pose other links may be the lowest, so soles are searched in the rig's
    assert rig_of(again).start == pytest.approx(rig.start)


@pytest.fixture(scope="module")
def swung(tmp_path_factory):
    """A recording of a light arm that follows a sine with a goal each 20 ms, and its energy from 0.5 s on, J."""
    path = tmp_path_factory.mktemp("arm") / "arm.mcap"
    rig = axbridge.Rig.load("bench_arm").with_model("ax12")
    facts = describe(rig, backend="sim")
    with Recorder(path, facts) as recorder, axbridge.open(rig, "sim") as robot, RobotRecorder(robot, recorder):
        robot["shoulder"].torque_on()
        drawn_by = []
        for tick in range(75):
            robot["shoulder"].set_position(0.6 * math.sin(2 * math.pi * tick * 0.02))
            robot.step(20)
            drawn_by.append(robot.simulation.energy())
    return open_recording(path), drawn_by[-1] - drawn_by[24]


def joules(draw, begin, end):
    return float(draw.watt[(draw.time >= begin) & (draw.time < end)].sum() * 1e-3)


def test_the_energy_between_samples_is_estimated_for_a_walk_and_a_light_arm(walked, swung):
    part = stride(walked)
    true = next(event for event in walked.events if event.name == "walked").data["energy"]
    assert joules(power_draw(walked), part.start, part.end) == pytest.approx(true, rel=0.08)
    recording, true = swung  # each sample is taken at the goal, so the samples alone show no power
    power = recording["shoulder"].power
    assert np.nanmean(recording["shoulder"].between(0.5, 1.5).power) * 1.0 < 0.2 * true
    assert joules(power_draw(recording), 0.5, 1.5) == pytest.approx(true, rel=0.3)
    bare = replace(recording, metadata={})
    of_another = replace(recording, metadata={**recording.metadata, **describe(Rig.load("leg"), backend="sim")})
    of_another.metadata["models"] = recording.metadata["models"]
    for unknown in (bare, of_another):  # without a model, or a servo in the rig, the recorded power is used
        assert power_draw(unknown).watt.max() == pytest.approx(np.nanmax(power), rel=0.1)
    silent = {"x": replace(recording["shoulder"], name="x", power=power * np.nan)}
    assert power_draw(replace(bare, tracks=silent)) is None
    partial = replace(bare, tracks={**recording.tracks, **silent})
    assert (power_draw(partial).unknown, power_draw(recording).unknown) == (["x"], [])
    walk = replace(partial, metadata={"experiment": "walk"})
    sides = sides_of(compare(walk, replace(bare, metadata={"experiment": "walk"})))
    assert ("servos of unknown power", "x", "-") in walk_table(sides).rows
    assert "power" not in walk_headline(sides)  # of other servos


@pytest.mark.parametrize("above", [0.0, 35.0])
def test_a_blocked_servo_draws_its_stall_power_at_its_temperature(swung, above):
    """`above`: the temperature above the reference of its resistance, K."""
    recording, _ = swung
    models = json.loads(json.dumps(recording.metadata["models"]))
    motor = models["shoulder"]["motor"]
    motor["resistance_per_kelvin"] = 0.02
    track, still = recording["shoulder"], recording["shoulder"].time * 0
    warm = still + motor["ambient_temperature"] + above
    blocked = {"shoulder": replace(track, temperature=warm, position=still, velocity=still, command=still + 1.0)}
    watt = np.median(track.voltage) ** 2 / (motor["resistance"] * (1 + 0.02 * above) + motor["resistance_per_duty"])
    draw = power_draw(replace(recording, tracks=blocked, metadata={**recording.metadata, "models": models}))
    assert np.median(draw.watt) == pytest.approx(watt, rel=0.1)


# ---- loads of single servos of a robot

TRUE = {"friction": {"coulomb": 0.05, "viscous": 0.02}, "motor": {"armature": 0.005}}
SWINGS = {"hip_twist": (0.0, 0.5), "hip_lateral": (0.0, 0.5), "hip_swing": (0.0, 0.9), "knee": (0.9, 0.7),
          "ankle_swing": (0.6, 0.5), "ankle_lateral": (0.0, 0.5)}  # fmt: skip


@pytest.fixture(scope="module")
def leg():
    return Rig.load("leg").with_servos(lambda _: {"model": "ax12", "params": TRUE})


@pytest.fixture(scope="module")
def recording(leg, tmp_path_factory):
    """All six servos of a leg, each with its own period."""

    def record(folder):
        path, facts = folder / "leg.mcap", describe(leg, backend="sim", seed=1)
        with (
            axbridge.open(leg, "sim", seed=1) as robot, Recorder(path, facts) as recorder, RobotRecorder(robot, recorder),
        ):  # fmt: skip
            for k in range(150):
                for number, (name, (middle, size)) in enumerate(SWINGS.items()):
                    phase = 2 * math.pi * 0.02 * k / (1.5 - 0.12 * number)
                    jump = math.copysign(0.35, math.sin(0.7 * phase))
                    robot[name].set_position(middle + size * (0.6 * math.sin(phase) + jump))
                robot.step(20)
        return path

    return open_recording(made_once(tmp_path_factory, "leg", record))


def mean_error(runs, row):
    return float(np.degrees(np.abs(runs.errors(rollouts(row[None], runs)[0]))).mean())


def truth(alone):
    return pack(alone.specs[alone.servos[0].name].model, alone.specs[alone.servos[0].name].profile.units.position)


@pytest.mark.parametrize("name", ["knee", "hip_swing"])
def test_a_servos_load_explains_its_motion_also_when_it_is_turned(recording, leg, name):
    turned = leg.with_servos(lambda servo: {"direction": -servo.direction} if servo.name == "knee" else {})
    names = ["knee", "hip_swing"]
    both, robot = joints_of_robot([recording, recording], turned, names)
    assert [next(iter(carried)) for carried in both] == names * 2
    (carried,), alone = joints_of_robot([recording], turned, [name])
    runs, row = runs_of([carried], alone), truth(alone)
    of_many = runs_of(both, robot).only([names.index(name)])
    np.testing.assert_array_equal(of_many.position, runs.position)
    np.testing.assert_array_equal(of_many.load, runs.load)
    np.testing.assert_array_equal(runs.position, alone.servos[0].direction * recording[name].position)
    constant = runs._replace(load=np.zeros((0, 4)), inertia=np.array([runs.load[:, 0].mean()]))
    assert mean_error(runs, row) < 0.4
    assert mean_error(runs, row) < 0.5 * mean_error(constant, row)


def test_recordings_without_known_loads_are_refused_with_the_reason(recording, leg):
    with pytest.raises(UsageError, match="no servo 'nose'"):
        joints_of_robot([recording], leg, ["nose"])
    less = replace(recording, tracks={name: track for name, track in recording.items() if name != "hip_swing"})
    with pytest.raises(RecordingError, match="how joint hip_swing moved"):
        joints_of_robot([less], leg, ["knee"])
    free = leg.overridden({"world": {"fixed_base": False, "ground": True}})
    with pytest.raises(RecordingError, match="only for a robot on two flat feet"):
        joints_of_robot([recording], free, ["knee"])
    flying = Rig.load("bioloid").overridden({"world": {"ground": False}})
    time = np.arange(0, 1, 0.02)
    tracks = {servo.name: Track.of(servo.name, time, position=0 * time) for servo in flying.servos}
    with pytest.raises(RecordingError, match="no floor"):
        joints_of_robot([Recording(Path("fly.mcap"), tracks)], flying, ["left_knee"])
    with pytest.raises(RigError, match="--servo NAME"):
        runs_of([replace(recording, tracks={"knee": recording["knee"]}, metadata={})], leg)


def test_on_both_feet_the_loads_of_arms_are_known_but_not_those_of_legs():
    walker, time, angle = Rig.load("bioloid"), np.arange(0, 1.5, 0.02), 0.3
    tracks = {
        servo.name: Track.of(servo.name, time, position=np.full(75, angle if "shoulder" in servo.name else 0.0))
        for servo in walker.servos
    }
    standing = Recording(Path("still.mcap"), tracks, (), {}, describe(backend="sim"))
    (free,), _ = joints_of_robot([standing], walker, ["left_shoulder_swing"])
    bolted = walker.overridden({"world": {"fixed_base": True}})  # with level feet, its body is level, too
    (held,), _ = joints_of_robot([standing], bolted, ["left_shoulder_swing"])

    def torque(load):
        return load[:, 1] * math.sin(angle) + load[:, 2] * math.cos(angle) + load[:, 3]

    np.testing.assert_allclose(torque(free.load), torque(held.load), rtol=1e-6)
    assert np.abs(torque(free.load)).max() > 0.01
    assert free.known.all()
    with pytest.raises(RecordingError, match=r"for 0\.00 s in all the robot stood on one foot"):
        joints_of_robot([standing], walker, ["left_knee"])


@pytest.mark.parametrize(
    ("name", "without"), [("left_knee", 1.5), ("right_hip_lateral", 1.0), ("left_ankle_swing", 0.3)]
)
def test_a_legs_load_on_one_foot_explains_its_motion(walked, name, without):
    walker = rig_of(walked).model_copy(update={"path": Rig.load("bioloid").path})
    (carried,), alone = joints_of_robot([walked], walker, [name])
    runs = runs_of([carried], alone)
    row = truth(alone)
    unloaded = runs._replace(load=runs.load * (1.0, 0.0, 0.0, 0.0))
    share = len(runs.time) / runs.judged.sum()
    assert mean_error(runs, row) * share < 0.2
    assert mean_error(unloaded, row) * share > without
    lifted = footing(walked, on_two_feet(rig_of(walked)), carried.at).lifted
    assert 0.1 < runs.judged.mean() < 0.6  # on one foot
    assert np.abs(lifted[runs.judged]).min() >= 0.005
