"""The programs in examples/, each on the simulator and on a virtual bus behind a pseudo-terminal, like a real bus."""

import os
import runpy
from contextlib import ExitStack
from pathlib import Path

import nbclient
import nbformat
import numpy as np
import pytest

import axbridge
from tests.support.warm import serving

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")]

EXAMPLES = Path(__file__).parents[1] / "examples"
RIGS = {"log_positions.py": "pan_tilt"}


@pytest.fixture(params=["sim", "real"])
def on(request, tmp_path, monkeypatch):
    """Return a function that runs an example on a backend, in a new folder, and returns its global names."""
    monkeypatch.setenv("AXBRIDGE_BACKEND", request.param)
    monkeypatch.chdir(tmp_path)

    def run(name):
        if request.param == "real":
            monkeypatch.setenv("AXBRIDGE_PORT", served.enter_context(serving(RIGS.get(name, "bench_arm"))))
        if name.endswith(".py"):
            return runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        book = nbformat.read(EXAMPLES / name, as_version=4)
        nbclient.NotebookClient(
            book, timeout=120, kernel_name="python3", resources={"metadata": {"path": "."}}
        ).execute()
        return book

    with ExitStack() as served:
        yield run


def test_a_servo_waves(on):
    result = on("wave.py")
    assert result["robot"].time >= 2.0
    assert result["arm"].target_position == pytest.approx(0.0, abs=0.07)
    assert result["arm"].position == pytest.approx(-0.1, abs=0.1)  # it lags behind its goal


def test_positions_are_logged_at_50_hz(on):
    log = on("log_positions.py")["log"]
    assert log.shape == (50, 3)
    assert np.diff(log[:, 0]) == pytest.approx(0.02)
    assert log[-1, 1:] == pytest.approx([0.6, -0.3], abs=0.03)
    assert np.loadtxt("positions.csv", delimiter=",") == pytest.approx(log, abs=1e-4)


def test_a_users_own_experiment_is_recorded(on):
    recording = on("own_experiment.py")["recording"]
    assert recording.complete
    assert recording.metadata["backend"] == os.environ["AXBRIDGE_BACKEND"]
    assert [segment.data["name"] for segment in recording.segments] == [
        f"to {goal} rad" for goal in (0.2, 0.4, 0.6, 0.0)
    ]
    assert np.nanmax(recording["shoulder"].position) == pytest.approx(0.6, abs=0.05)


def test_torque_control_makes_a_spring(on):
    arm = on("torque_control.py")["arm"]
    assert arm.position == pytest.approx(0.5, abs=0.15)  # friction and weight deflect it


@pytest.mark.parametrize("on", ["sim", pytest.param("real", marks=pytest.mark.ci)], indirect=True)
def test_an_arm_repeats_a_taught_move(on):
    result = on("teach_by_hand.py")
    assert axbridge.Move.load("taught.json") == result["move"]
    assert 0.2 < result["move"].duration < 2.0
    assert result["robot"]["shoulder"].position == pytest.approx(0.0, abs=0.1)  # after its fall


@pytest.mark.ci
def test_the_notebook_ends_with_a_plot(on):
    cells = on("compare.ipynb").cells
    (*_, last) = cells[-1].outputs
    assert "image/png" in last.data
    text = cells[-2].outputs[0].data["text/plain"]
    assert text.startswith("<Comparison of robot with model ax12, rms error: shoulder ")
