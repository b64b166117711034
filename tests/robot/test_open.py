"""The choice of the backend, the meaning of a given port, and the origin of the samples."""

from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge.errors import UsageError
from axbridge.recording.provenance import origin_in_words
from axbridge.robot.open import chosen_backend
from tests.support.warm import serving, start

RECORD = ("record", "step", "--rig", "bare_horn", "--angle", "5", "--duration", "0.1", "--engine", "mujoco")


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in ("AXBRIDGE_BACKEND", "AXBRIDGE_PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("given", "environment", "chosen"),
    [
        ((None, None), {}, "sim"),
        ((None, "/dev/x"), {}, "real"),
        ((None, "/dev/x"), {"BACKEND": "sim"}, "real"),
        ((None, "/dev/x"), {"BACKEND": "twin"}, "real"),
        (("twin", "/dev/x"), {}, "twin"),
        (("real", None), {}, "real"),
        ((None, None), {"PORT": "/dev/x"}, "sim"),
        ((None, None), {"BACKEND": "real"}, "real"),
        ((None, None), {"BACKEND": ""}, "sim"),
        (("sim", None), {"PORT": "/dev/x", "BACKEND": "real"}, "sim"),
    ],
)
def test_a_given_port_means_the_real_backend_and_a_variable_does_not(given, environment, chosen, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(f"AXBRIDGE_{name}", value)
    assert chosen_backend(*given) == chosen


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"backend": "simm"}, "no backend 'simm'"),
        ({"port": ""}, "the port is empty, as of an unset variable\nname it, or leave the port out"),
        ({"port": "", "backend": "sim"}, "the port is empty"),
        ({"port": 3}, "a port is given as text, not 3"),
        ({"port": Path("/dev/x")}, "a port is given as text, not "),
        ({"model": 3}, "a servo model is a name or a file, not 3"),
        ({"seed": -1}, "a seed is a whole number of 0 or more, not -1"),
        ({"seed": 1.5}, "a seed is a whole number of 0 or more, not 1.5"),
        ({"virtual": 30}, "virtual servos need the real backend, not"),
        ({"virtual": [30], "backend": "real", "port": "/dev/none"}, "has no servo '30' that could be virtual"),
        ({"virtual": 3.5, "backend": "real", "port": "/dev/none"}, "has no servo '3.5' that could be virtual"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_in_words(given, said):
    axbridge.open("pan_tilt", virtual=None, seed=np.int64(3)).close()  # as () and 3
    with pytest.raises(UsageError, match=said):
        axbridge.open("pan_tilt", **given)


@pytest.mark.parametrize(
    "verb",
    ["record step --rig bare_horn", "walk --rig bioloid", "play sample:bow --rig bioloid", "view --rig bare_horn"],
)
def test_a_verb_with_a_port_opens_it(verb, said, monkeypatch):
    monkeypatch.setenv("AXBRIDGE_BACKEND", "sim")
    assert "/dev/none: no such port" in said(*verb.split(), "--port", "/dev/none", code=3)
    assert "the simulator has no port" in said(*verb.split(), "--port", "/dev/none", "--backend", "sim", code=2)


@pytest.mark.parametrize(
    ("text", "rig"),
    [
        ("import axbridge\naxbridge.open('bench_arm')\n", ()),
        ("from controller import Robot\nRobot()\n", ("--rig", "bench_arm")),
    ],
)
def test_a_script_that_is_run_with_a_port_opens_it(text, rig, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(text)
    with start("run", script, *rig, "--port", "/dev/none") as process:
        assert "/dev/none: no such port" in process.communicate(timeout=60)[1]


def test_a_port_of_the_environment_leaves_a_simulation_a_simulation(said, monkeypatch):
    monkeypatch.setenv("AXBRIDGE_PORT", "/dev/none")
    written = said(*RECORD, "--out", "a.mcap")
    assert "simulated (mujoco)" in written
    assert "simulated (mujoco)" in said("info", "a.mcap")


def test_the_origin_of_a_robot_on_a_served_bus_is_virtual_servos(tmp_path):
    link = tmp_path / "arm"
    with serving("bare_horn", "--link", link), axbridge.open("bare_horn", port=str(link)) as robot:
        assert robot.origin == {"backend": "real", "servos": "virtual"}
        assert origin_in_words(robot.origin) == "virtual servos"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"backend": "sim"}, "simulated"),
        ({"backend": "sim", "engine": "bullet"}, "simulated (bullet)"),
        ({"backend": "real"}, "real servos"),
        ({"backend": "twin", "engine": "bullet"}, "real servos, with a simulation (bullet) beside them"),
        ({"backend": "imported"}, "imported"),
        ({}, ""),
    ],
)
def test_the_origin_of_samples_in_words(facts, words):
    assert origin_in_words(facts) == words


@pytest.mark.parametrize(
    ("wrong", "hint"), [("prot", "did you mean 'port'"), ("safty", "did you mean 'safety'"), ("x", "backend, port")]
)
def test_an_unknown_argument_of_open_is_named_and_no_file(wrong, hint):
    with pytest.raises(axbridge.UsageError, match=f"^open has no argument '{wrong}'\n.*{hint}"):
        axbridge.open("bench_arm", **{wrong: "/dev/ttyUSB0"})
