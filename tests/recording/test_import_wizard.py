"""Dynamixel Wizard's graph exports: registers in SI, garbled rows left out, and what is not in them said."""

import math
from pathlib import Path

import numpy as np
import pytest

from axbridge.cli import import_ as _verb  # noqa: F401 - registers it
from axbridge.cli.app import run
from axbridge.errors import RecordingError, UsageError
from axbridge.recording import import_wizard
from axbridge.recording.import_logs import import_log
from axbridge.recording.import_wizard import GivenGoal, parse_goal
from axbridge.recording.stored import open_recording
from axbridge.units import AX

STEPS = Path(__file__).parents[2] / "docs" / "real" / "ax12a_steps"
SEVEN = sorted(STEPS.glob("*.csv"))
ITEM = "Present Position,#ffff00,0,1,0"
HEAD = f"DYNAMIXEL Graph,2\nAX-12A,12\nItemCount,1\n{ITEM}\nTime[ms],Present Position\n"
THREE = """DYNAMIXEL Graph,2
MX-28,29
ItemCount,3
Present Position,#ffff00,0,1,0
Goal Position,#ff0000,0,1,0
Present Speed,#00ff00,0,1,0
Time[ms],Present Position,Goal Position,Present Speed
0,2048,2048,0
16,2048,3072,0
48,2060,3072,200
64,2100,,1224
"""


def written(tmp_path, text):
    path = tmp_path / "graph.csv"
    path.write_text(text)
    return path


def counts(track):
    return 512 + track.position / AX.position


@pytest.mark.parametrize(
    ("name", "samples", "dropped"),
    [
        ("AX12A_LOAD2_1", 236, 4), ("AX12A_LOAD2_2", 189, 4), ("AX12A_LOAD2_3", 134, 6), ("AX12A_NOLOAD_1", 205, 2),
        ("AX12A_NOLOAD_2", 214, 0), ("AX12A_NOLOAD_3", 224, 0), ("AX18A_NOLOAD_1", 177, 0),
    ],
)  # fmt: skip
def test_the_real_exports_are_read(name, samples, dropped):
    found = import_log(STEPS / f"{name}.csv", goal=GivenGoal(500))
    track = found["servo"]
    assert len(track) == samples
    assert (np.diff(track.time) > 0).all()
    assert 497.5 < counts(track)[-1] < 500.5
    assert sum(note.startswith(f"dropped {dropped} garbled") for note in found.metadata["notes"]) == (dropped > 0)
    assert found.metadata["profile"] == f"ax-{name[2:4]}a"
    assert found.metadata["goal"]["time_estimated"]
    assert not found.metadata["goal"]["counts_estimated"]
    moved = track.time[np.flatnonzero(counts(track) > 6)[0]]
    assert 0.02 < moved - found.metadata["goal"]["time_s"] < 0.06
    assert [segment.name for segment in found.segments] == ["step"]


def test_a_stamp_that_gained_a_digit_costs_its_own_row_alone(tmp_path):
    rows = "".join(f"{t},{300}\n" for t in (0, 16, 48, 640, 80, 96))
    found = import_log(written(tmp_path, HEAD + rows + ",499\n"))
    np.testing.assert_allclose(found["servo"].time * 1e3, [0, 16, 48, 80, 96])
    assert any("line 9: '640,300', line 12: ',499'" in note for note in found.metadata["notes"])


def test_three_items_of_another_servo(tmp_path):
    track = import_log(written(tmp_path, THREE))["servo"]
    np.testing.assert_allclose(track.time, [0, 0.016, 0.048, 0.064])
    np.testing.assert_allclose(np.degrees(track.position), np.array([0, 0, 12, 52]) * 360 / 4096)
    np.testing.assert_allclose(np.degrees(track.command), [0, 90, 90, math.nan])
    rpm = 2 * math.pi / 60
    np.testing.assert_allclose(track.velocity, np.array([0, 0, 200, -200]) * 0.114 * rpm)
    with pytest.raises(UsageError, match="has the Goal Position"):
        import_log(written(tmp_path, THREE), goal=GivenGoal(500))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD.replace("Graph,2", "Graph,3"), "version 3"),
        (HEAD.replace("AX-12A,12", "XL430-W250,1060") + "0,1\n16,1\n", "XL430-W250 of model number 1060"),
        (HEAD.replace("0,1,0", "0,0.1,0") + "0,1\n16,1\n", "line 4: Present Position was drawn with scale 0.1"),
        (HEAD.partition("Time")[0], "line 5: the header is missing"),
        (HEAD.replace("ItemCount,1", "ItemCount,2") + "0,1\n16,1\n", "line 5: 'Time"),
        (HEAD.replace("ms],Present", "ms],Goal") + "0,1\n16,1\n", "line 5: the columns are Time"),
        (HEAD, "holds no samples"),
        (HEAD + "0,1\n16,1\n,1\n1\n2\n", "has 3 garbled rows and 2 good ones"),
        (HEAD.replace("Present Position", "Present Load") + "0,1\n16,1\n", "has no Present Position"),
    ],
)
def test_a_damaged_export_is_refused_by_name(tmp_path, text, said):
    with pytest.raises(RecordingError) as refused:
        import_log(written(tmp_path, text))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("500@1.5", GivenGoal(500, 1.5)), ("500@1500ms", GivenGoal(500, 1.5)), ("500@auto", GivenGoal(500)),
        ("500", GivenGoal(500)), ("auto", GivenGoal()),
    ],
)  # fmt: skip
def test_goals_as_they_are_typed(text, goal):
    assert parse_goal(text) == goal
    for wrong in ("", "500@", "@3", "500@-1", "soon"):
        with pytest.raises(UsageError, match="is no goal"):
            parse_goal(wrong)


def test_a_goal_is_asked_for_where_it_cannot_be_estimated(tmp_path):
    twice = [1] * 30 + [400] * 30 + [1] * 30
    path = written(tmp_path, HEAD + "".join(f"{20 * k},{position}\n" for k, position in enumerate(twice)))
    with pytest.raises(UsageError, match="has 2 motions"):
        import_log(path, goal=GivenGoal())
    track = import_log(path, goal=GivenGoal(400, 0.59))["servo"]
    assert np.round(512 + track.command[[0, -1]] / AX.position).tolist() == [1, 400]
    with pytest.raises(UsageError, match="beyond the range"):
        import_log(path, goal=GivenGoal(1500, 0.59))
    with pytest.raises(UsageError, match="is not in the export"):
        import_log(path, goal=GivenGoal(500, 99))


def test_the_command_line_imports_and_says_what_it_did(tmp_path, capsys):
    out = tmp_path / "step.mcap"
    assert run(["import", str(STEPS / "AX12A_LOAD2_1.csv"), str(out), "--goal", "auto"]) == 0
    said = capsys.readouterr().err
    assert "dropped 4 garbled rows" in said
    assert "the goal is estimated as 498 counts" in said
    assert open_recording(out).metadata["stamps"] == {"grid_s": 0.016, "poll_s": 0.02}


@pytest.mark.parametrize("path", SEVEN, ids=lambda path: path.stem)
def test_times_are_restored_to_two_milliseconds(path):
    track = import_log(path)["servo"]
    steady = (counts(track) > 80) & (counts(track) < 400)  # the servo turns at full speed
    assert import_wizard.on_grid(track.time)
    found = import_wizard.restored(track.time)
    assert found.poll == 0.02
    assert (np.diff(found.time) > 0).all()
    assert np.abs(found.time - track.time - 0.008).max() < 0.0095

    def scatter(time):
        speed, start = np.polyfit(time[steady], track.position[steady], 1)
        return np.std(track.position[steady] - speed * time[steady] - start) / speed

    assert scatter(track.time) > 0.0034
    assert scatter(found.time) < 0.0018


def test_stamps_of_no_even_poll_stay_as_uncertain_as_they_are():
    times = np.cumsum(np.random.default_rng(1).uniform(0.017, 0.045, 200))
    found = import_wizard.restored(0.016 * np.floor(times / 0.016))
    assert math.isnan(found.poll)
    assert found.spread == pytest.approx(0.016 / math.sqrt(12))
    assert not import_wizard.on_grid(times)
