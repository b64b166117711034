"""The demo, end to end."""

import importlib
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from axbridge.config.rig import Rig
from axbridge.recording.stored import open_recording
from axbridge.testing import serve

demo_verb = importlib.import_module("axbridge.cli.demo")  # the package has the verb under this name
pytestmark = [pytest.mark.slow, pytest.mark.ci, pytest.mark.real_time]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    command = ["env", "PYTHONIOENCODING=latin-1", sys.executable, "-m", "axbridge", "demo", "--json", "--out"]
    done = subprocess.run([*command, tmp_path_factory.mktemp("demo")], capture_output=True, errors="replace")
    assert (done.returncode, "this computer was too busy" in done.stderr) == (0, False), done.stderr
    return json.loads(done.stdout)


@pytest.mark.alone  # its servo lives in real time
def test_the_demo_leaves_whole_recordings_a_model_a_report_and_a_picture(demo):
    files = {name: Path(path) for name, path in demo["files"].items()}
    for name, backend, model in (("virtual", "real", "ax12"), ("sim", "sim", "lima2009"), ("identified", "sim", "")):
        recording = open_recording(files[name])
        assert recording.complete
        assert recording.metadata["backend"] == backend
        assert recording.metadata["models"]["shoulder"]["name"] == (model or files["model"].stem)
        assert [segment.name for segment in recording.segments] == ["rest", "step", "fall"]
    assert files["picture"].read_bytes().startswith(b"\x89PNG")
    page = files["report"].read_text()
    for words in ("virtual AX-12", "lima2009", "identified", "falls", "too early"):
        assert words in page
    assert "https://" not in page.split("<script")[0], "the page must not need the network"


@pytest.mark.alone  # its servo lives in real time
def test_the_identified_model_predicts_an_unseen_step_better_than_the_published_one(demo):
    shoulder = demo["servos"]["shoulder"]
    step = next(part for part in shoulder["segments"] if part["name"] == "step")["step"]
    fall = next(part for part in shoulder["segments"] if part["name"] == "fall")["fall_time_s"]
    assert 0.2 < step["lima2009"]["rise"] < 0.28  # 0.24 s for the paper's servo at 9.6 V
    assert step["virtual AX-12"]["delay"] > step["lima2009"]["delay"] + 0.015  # the AX-12 model starts 20 ms late
    assert 0.38 < fall["lima2009"] < 0.46  # 0.40 s with the paper's constants
    assert fall["virtual AX-12"] > fall["lima2009"]  # rotor inertia
    assert demo["rmse_deg"] > 1.0
    assert demo["identified"]["rmse_deg"] < 0.2 * demo["rmse_deg"]  # a busy computer distorts the recorded steps


def test_a_rig_of_several_servos_is_compared_and_no_model_is_identified(tmp_path, said):
    shown = said("demo", "--rig", "pan_tilt", "--out", "here")
    assert not (tmp_path / "here" / "identified.toml").exists()
    (_, info, *info_words), (_, compare, *compare_words), last = (
        line.split() for line in shown.split("next:\n")[1].splitlines()
    )
    assert (info, compare, last[1]) == ("info", "compare", "serve")
    said(info, *info_words)
    said(compare, *compare_words)


@pytest.mark.alone  # its servo lives in real time
def test_a_virtual_servo_that_is_silent_at_first_is_recorded_again(tmp_path, said, monkeypatch):
    silent = ",".join(f"drop#{packet}" for packet in range(1, 40))
    monkeypatch.setattr(demo_verb, "serve", partial(serve, faults=silent))
    assert "Steps agree to" in said("demo", "--rig", "pan_tilt", "--out", "here")
    assert open_recording(tmp_path / "here" / "virtual.mcap").complete


def test_the_progress_of_the_demo_names_virtual_servos_as_such(tmp_path):
    said = set()
    with serve("bench_arm", timing="none") as bus:
        where, rig = (tmp_path / "x.mcap", 10.0, bus.port), Rig.load("bench_arm")
        demo_verb._record("shoulder", 0, rig, "real", *where, show=lambda words, share=None: said.add(words))
    assert said >= {"virtual servos: step to 10° and fall, step", "virtual servos: step to 10° and fall, fall"}


def test_a_robot_with_legs_walks_and_its_page_shows_its_knees(tmp_path, said):
    shown = said("demo", "--rig", "bioloid", "--out", "here")
    walked, planned = (float(shown.split(words)[1].split(" cm")[0]) for words in ("6 steps: ", "("))
    assert 0.7 * planned < walked < 1.3 * planned
    recording = open_recording(tmp_path / "here" / "walk.mcap")
    assert [segment.name for segment in recording.segments] == ["get up", "stand", "walk", "end"]
    assert (tmp_path / "here" / "report.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "here" / "report.html").read_text()
    for words in ("Knee angles", "virtual robot, ax12", "simulated, lima2009", "data-copy"):
        assert words in page
    assert len(page) < 2e6
    said(*shown.split("next:\n")[1].splitlines()[0].split()[1:])
