"""Import of other programs' logs: values in SI, figures of segments, errors and doubtful samples are named."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from axbridge.cli import app
from axbridge.comparison.comparison import following, summary
from axbridge.config.registers import AX
from axbridge.errors import RecordingError, UsageError
from axbridge.recording import import_logs
from axbridge.recording.convert import write_csv, write_parquet
from axbridge.recording.import_logs import import_log, parse_columns
from axbridge.recording.import_wizard import GivenGoal, on_grid, parse_goal, restored
from axbridge.recording.imported import marked, parse_mark, trimmed
from axbridge.recording.provenance import rig_of
from axbridge.recording.recording import Recording, Track, in_order
from axbridge.recording.sample_quality import findings
from axbridge.recording.stored import open_recording

REAL = Path(__file__).parents[2] / "docs" / "real"
LOG, STEPS = REAL / "xl330_pendulum" / "xl330_kp400_lift_and_drop.json", REAL / "ax12a_steps"


def imported(folder, text, *columns, unit=None, profile="ax-12a", **options):
    """Import a text, with a map of its columns if there are any."""
    path = folder / "log.csv"
    path.write_text(text, encoding="utf-8")
    return import_log(path, columns=parse_columns(columns, unit, profile), **options)


def test_goals_of_a_pendulum_log_have_the_time_of_their_computation():
    track = import_log(LOG)["servo"]
    lifting = (track.command < -0.05) & (track.command > -1.5)
    time = np.linspace(0.0, 2.0, 400_001)  # BAM lifts by a cubic from rest to 90° in 2 s
    lift = np.pi / 2 * (3 * (time / 2) ** 2 - 2 * (time / 2) ** 3)
    expected = np.interp(-track.command[lifting], lift, time)
    assert np.median(track.time[lifting] - expected) > 3e-3  # stamps are the middle of the read after the goal
    assert np.abs(track.commanded[lifting] - expected).max() < 0.6e-3


@pytest.mark.parametrize(("first", "period", "before"), [(3.5, 5.3, 3.5), (0.0, 5.0, 0.0), (2000.0, 5.3, 0.0)])
def test_goals_of_a_log_without_the_first_loop_keep_their_stamps(tmp_path, first, period, before):
    log = json.loads(LOG.read_text())
    log["entries"] = [{**entry, "timestamp": (first + period * k) / 1e3} for k, entry in enumerate(log["entries"][:9])]
    (tmp_path / "log.json").write_text(json.dumps(log))
    track = import_log(tmp_path / "log.json")["servo"]
    assert 1e3 * (track.time - track.commanded) == pytest.approx(before)


def test_a_pendulum_log_is_complete_for_a_simulation():
    recording = import_log(LOG, servo="pendulum")
    track = recording["pendulum"]
    assert len(track) == 1499
    assert recording.metadata["pendulum"] == {"mass": 0.49, "length": 0.1, "kp": 400, "vin": 7.4}
    assert recording.metadata["registers"] == {"pendulum": {"position_p_gain": 400}}
    assert recording.metadata["experiment"] == "lift_and_drop"
    assert 0.2 < track.enabled.mean() < 0.3
    assert -1 <= track.load.min() < -0.5  # logged as unsigned words, but signed
    assert track.load.max() <= 1
    assert math.degrees(track.position.min()) == pytest.approx(-37.88, abs=0.01)


@pytest.mark.parametrize("part", ["walk", "run"])  # of a format that a contributor adds
def test_segments_are_joined_and_named(tmp_path, monkeypatch, part):
    poppy = import_logs._TABLES[0]
    monkeypatch.setattr(import_logs, "_TABLES", (poppy._replace(parts=(part, "segment")),))
    lines = [f"{part},segment,k,t_s,joint,target_deg,position_deg,speed_dps,load_pct,voltage_V,temp_C"]
    for walk, segment in ((0, 0), (1, 0), (1, 1)):
        for k, joint in itertools.product(range(3), ("head_y", "head_z")):
            lines.append(f"{walk},{segment},{k},{k * 0.1:.5f},{joint},90,{k},10,50,11.5,40")
    recording = imported(tmp_path, "\n".join(lines))
    assert list(recording) == ["head_y", "head_z"]
    head = recording["head_y"]
    assert (head.command[0], head.load[0], len(head)) == (pytest.approx(math.pi / 2), 0.5, 9)
    assert [s.name.removeprefix(part) for s in recording.segments] == [" 0 segment 0", " 1 segment 0", " 1 segment 1"]
    np.testing.assert_allclose(head.time, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    assert len(import_log(tmp_path / "log.csv", walk=1)["head_z"]) == 6
    with pytest.raises(RecordingError, match=f"no {part} 7\nit has 0, 1"):
        import_log(tmp_path / "log.csv", walk=7)


@pytest.mark.parametrize(
    ("headers", "position", "command", "servos"),
    [
        ("t,hip_pos,hip_goal,knee_pos,knee_goal", "*_pos", "*_goal", ["hip", "knee"]),
        ("t,knee_deg,knee_cmd_deg", "*_deg", "*_cmd_deg", ["knee"]),  # "knee_cmd" is no servo
        ("t,knee_deg,cmd_knee_deg", "*_deg", "cmd_*_deg", ["knee"]),
        ("t,knee_pos_deg,knee_deg", "*_pos_deg", "*_deg", ["knee"]),
    ],
)
def test_a_star_in_a_header_stands_for_a_servos_name(tmp_path, headers, position, command, servos):
    text = f"{headers}\n0{',1,2' * len(servos)}\n10{',3,4' * len(servos)}\n"
    columns = f"time=t:ms position={position}:deg command={command}:deg".split()
    recording = imported(tmp_path, text, *columns)
    assert list(recording) == servos
    np.testing.assert_allclose(np.degrees(recording["knee"].position), [1, 3])
    np.testing.assert_allclose(np.degrees(recording["knee"].command), [2, 4])
    np.testing.assert_allclose(recording["knee"].time, [0, 0.01])


def test_axbridges_own_csv_is_imported_with_its_significant_digits(tmp_path):
    recording = import_log(LOG)
    write_csv(recording, tmp_path / "a.csv")
    again = import_log(tmp_path / "a.csv")
    for key in ("time", "command", "position", "load", "torque_enabled"):
        np.testing.assert_allclose(getattr(again["servo"], key), getattr(recording["servo"], key), rtol=0, atol=5.1e-6)
    pq = pytest.importorskip("pyarrow.parquet")
    write_parquet(recording, tmp_path / "a.parquet")  # with unrounded numbers
    table = pq.read_table(tmp_path / "a.parquet")
    np.testing.assert_array_equal(table["position_rad"], recording["servo"].position)
    assert set(table["servo"].to_pylist()) == {"servo"}


def test_axbridges_own_wide_csv_is_recognised_and_each_servo_keeps_its_own_samples(tmp_path):
    t = np.arange(0, 1, 0.02)
    tracks = {
        "arm.1": Track.of("arm.1", t, position=np.sin(t), command=t),
        "leg": Track.of("leg", t[:40] + 0.003, position=t[:40], load=0 * t[:40] + 0.25),
    }
    write_csv(Recording(Path("x.mcap"), tracks), tmp_path / "wide.csv", wide=True)
    again = import_log(tmp_path / "wide.csv")
    assert list(again) == list(tracks)
    for name, track in tracks.items():
        assert again[name].known.keys() == track.known.keys()
        for key, values in track.known.items():
            np.testing.assert_allclose(again[name].known[key], values, rtol=0, atol=5.1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: log.pop("mass"), "is no pendulum log: mass: field required\n"),
        (lambda log: log.update(mass=math.nan), "mass: must be less than 1000000"),
        (lambda log: log.update(length=0), "length: must be more than 0"),
        (lambda log: log.update(entries=[]), "entries: must have at least 1 values"),
        (lambda log: log.update(kp=32.5), "kp: must be a whole number"),
        (lambda log: log["entries"][7].pop("speed"), "entries.7.speed: field required"),
        (lambda log: log["entries"][3].update(position=math.nan), "3.position: must be a finite"),
        (lambda log: log["entries"].append(5), "entries.1499: must be a table"),
    ],
)
def test_an_invalid_pendulum_log_is_refused(tmp_path, change, message):
    log = json.loads(LOG.read_text())
    change(log)
    refused(tmp_path / "log.json", json.dumps(log), message)


def refused(path, text, message):
    path.write_text(text)
    with pytest.raises(RecordingError, match=message):
        import_log(path)


ITEM = "Present Position,#ffff00,0,1,0"
HEAD = f"DYNAMIXEL Graph,2\nAX-12A,12\nItemCount,1\n{ITEM}\nTime[ms],Present Position\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[1]", "is no pendulum log: must be a table\n"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"mass": ' + "9" * 5000 + "}", "has a number that is too large"),
        ("", "holds no samples"),
        ("t,ang\x0be\x1b[2J\n0,1\n", r"of no known kind; its columns are t, ang\\x0be\\x1b\[2J\n"),
        ("T\0\0\0x", "a binary file of no known kind"),
        ("servo,time_s,position_rad\na,0,1,\na,1,2,5\n", "line 3: has more cells than the header"),
        ("servo,time_s,position_rad\na,0,1\na,x,2\n", "line 3: time_s = 'x' is no number"),
        ("servo,time_s,position_rad\na,2026-01-02T10:00:00,1\n", "number\nwrite dates and times"),
        ("servo,time_s,position_rad\nhip,0,1\n,0,2\n", "line 3: servo is blank\nwrite the servo's name there"),
        ("joint,position_deg\na,0\n", "has no column 'walk'"),
        ("# a note\n\nservo,time_s,position_rad\na,0,1\na,1", "line 5: has 2 of 3 cells"),
        ("servo,time_s,position_rad,position_rad\na,0,1,2\n", "line 1: names the column 'position_rad' twice"),
        ("0,5;1,0\n0,6;1,0\n", "has no header: its first line is numbers"),
        ("servo,time_s,position_rad\n" + "\n".join(f"{k},0,1" for k in range(1001)), "holds 1001 servos"),
        ("Time[ms], Present Position\n0, 1\n112, 1\n", "older graph export of Dynamixel Wizard"),
        (HEAD.replace("Graph,2", "Graph,3"), "version 3"),
        (HEAD.replace("AX-12A,12", "XL430-W250,1060") + "0,1\n16,1\n", "of model number 1060"),
        (HEAD.replace("0,1,0", "0,0.1,0") + "0,1\n16,1\n", "line 4: Present Position was drawn"),
        (HEAD.partition("Time")[0], "line 5: the header is missing"),
        (HEAD.replace("ItemCount,1", "ItemCount,2") + "0,1\n16,1\n", "line 5: 'Time"),
        (HEAD.replace("ms],Present", "ms],Goal") + "0,1\n16,1\n", "line 5: the columns are Time"),
        (HEAD, "holds no samples"),
        (HEAD + "0,1\n16,1\n,1\n1\n2\n", "has 3 garbled rows and 2 good ones"),
        (HEAD.replace("Position", "Load") + "0,1\n16,1\n", "has no Present Position"),
    ],
)
def test_an_invalid_text_is_refused(tmp_path, text, message):
    refused(tmp_path / "log.csv", text, message)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["position=*_angle"], r"no column like \*_angle\nits columns are t, angle"),
        (["position=y"], r"no column 'y' \(for position\)"),
        (["position=angle:nanos"], r"'nanos' is no unit \(of position\)\nunits: .*ns, "),
    ],
)
def test_a_column_or_unit_that_does_not_exist_is_named(tmp_path, columns, message):
    with pytest.raises(RecordingError, match=message):
        imported(tmp_path, "t,angle\n0,0\n", "time=t", *columns)


@pytest.mark.parametrize(
    "text",
    [
        "t,angle,goal\n0,1.5,10\n20,2.25,\n40,3,30\n",
        "t, angle, goal\n0, 1.5, 10\n20, 2.25,\n40, 3, 30\n",
        "t;angle;goal\n0;1,5;10,0\n20;2,25;\n40;3,0;30\n",
        "t|angle|goal\n0|1,5|10\n20|2.25|\n40|3|30\n",
        "t\tangle\tgoal\n0\t1.5\t10\n20\t2.25\t\n40\t3\t30\n",
        "  t  angle  goal\n  0   1.5    10\n 20  2.25   nan\n 40     3    30\n",
        "# made by a logger; 3 columns\n#\nt,angle,goal\n0,1.5,10\n# here it paused\n20,2.25,\n40,3,30\n",
        "\ufefft,angle,goal\r\n0,1.5,10\r\n\r\n20,2.25,\r\n40,3,30",
        't,angle,goal,\n0,"1.5",10,\n20,2.25,\n40,3,30,\n',
    ],
)
def test_tables_with_different_separators_are_read(tmp_path, text):
    track = imported(tmp_path, text, "time=t:ms", "position=angle:deg", "command=goal:deg")["servo"]
    np.testing.assert_allclose(track.time, [0, 0.02, 0.04])
    np.testing.assert_allclose(np.degrees(track.position), [1.5, 2.25, 3])
    np.testing.assert_allclose(np.degrees(track.command), [10, math.nan, 30])


def test_excels_line_with_the_separator_is_no_header_and_an_unnamed_column_no_unit(tmp_path):
    recording = imported(tmp_path, "sep=;\nt;pos\n0;1,5\n1;2,5\n", "time=t", "position=pos")
    assert recording["servo"].position.tolist() == [1.5, 2.5]
    with pytest.raises(RecordingError, match=r"has no column 'when' \(for time\)"):
        imported(tmp_path, "t;pos;\n0;1;\n", "time=when", "position=pos")


def test_stamps_in_nanoseconds_are_named_and_read(tmp_path):
    text = "t,angle\n" + "".join(f"{17 * 10**17 + 2 * 10**7 * n},0\n" for n in range(9))
    for given, read in (("", "18"), (":ms", "15")):
        with pytest.raises(RecordingError, match=rf"(?s)the time of line 2 is 1.7e\+{read} s.*time=HEADER:ns"):
            imported(tmp_path, text, f"time=t{given}", "position=angle")
    time = imported(tmp_path, text, "time=t:ns", "position=angle")["servo"].time
    np.testing.assert_allclose(np.diff(time), 0.02, atol=1e-6)


@pytest.mark.parametrize(
    ("step", "given", "message"),
    [
        (20_000_000, "ms", "nanoseconds read as milliseconds: import it with --column time=HEADER:ns"),
        (20_000, "ns", "microseconds read as nanoseconds: import it with --column time=HEADER:us"),
        (20, "us", "milliseconds read as microseconds: import it with --column time=HEADER:ms"),
        (20, "s", "milliseconds read as seconds: import it with --column time=HEADER:ms"),
    ],
)
def test_the_probable_unit_of_a_clock_is_named_for_each_given_unit(tmp_path, step, given, message):
    oddities, text = [], "t,angle\n" + "".join(f"{step * n},0\n" for n in range(9))
    imported(tmp_path, text, f"time=t:{given}", "position=angle", warned=oddities.append)
    assert message in [f"{oddity.cause}: {oddity.remedy}" for oddity in oddities]


@pytest.mark.parametrize(
    ("parse", "message"),
    [
        (lambda: parse_columns(["time"]), "is no column"),
        (lambda: parse_columns(["time=t"]), "has no position"),
        (lambda: parse_columns(["angle=t", "time=t"]), "no field"),
        (lambda: parse_columns([], "deg"), "what the columns of a CSV hold"),
        (lambda: parse_columns(["time=t", "position=angle"], "turns"), "no unit of an angle"),
        (lambda: parse_columns(["time=t", "position=x", "velocity=v:counts"]), "units: rad/s, "),
        (lambda: parse_columns(["time=t:deg", "position=angle"]), "no unit of time\nunits: s, ms, us, ns, or a factor"),
        (lambda: parse_columns(["time=t", "position=angle:rpm"]), "no unit of position\nunits: rad, deg, counts"),
        (lambda: parse_columns(["time=t", "position=a", "temperature=c:deg"]), "of temperature\ngive a factor"),
        (lambda: parse_columns(["time=t", "position=a", "position=b"]), "two columns are to be position"),
        (lambda: parse_mark("fall=2"), "is no segment"),
        (lambda: parse_mark("fall=3:2"), "ends before it starts"),
        *((lambda text=text: parse_goal(text), "is no goal") for text in ("", "500@", "@3", "500@-1")),
    ],
)
def test_an_invalid_argument_is_refused(parse, message):
    with pytest.raises(UsageError, match=message):
        parse()


COLUMNS = ["time=t", "position=angle", "command=goal"]


@pytest.fixture
def log(tmp_path):
    """Two seconds at rest, a step at 2 s that reaches 60 degrees at 2.3 s, and a fall from there at 4 s."""
    time = np.arange(0, 6, 0.01)
    goal = np.where(time >= 2, 60.0, 0.0)
    angle = np.interp(time, [0, 2.1, 2.3, 4.1, 4.6, 6], [0, 0, 60, 60, 0, 0])
    rows = [f"\n{t:.2f},{a:.3f},{g:.0f}" for t, a, g in zip(time, angle, goal, strict=True)]
    return imported(tmp_path, f"t,angle,goal{''.join(rows)}", *COLUMNS, unit="deg", servo="knee")


def test_an_imported_step_and_fall_have_their_figures(log):
    recording = marked(log, [parse_mark("step-60=1.5:4"), parse_mark("fall=4:6")])
    step, fall = (part for part in summary(following(recording))["servos"]["knee"]["segments"] if part["kind"])
    assert step["step"]["position"]["rise"] == pytest.approx(0.16, abs=0.02)
    assert recording.segments[0].start == pytest.approx(2.0)  # when the goal changes
    assert fall["fall_time_s"]["position"] == pytest.approx(0.56, abs=0.02)
    track = recording["knee"]
    assert not track.enabled[(track.time > 4) & (track.time < 6)].any()
    assert track.enabled[track.time < 4].all()


def test_a_trimmed_log_keeps_the_present_segment(log):
    recording = marked(trimmed(log, 4.0, None), [parse_mark("fall=:")])  # one segment
    (segment,) = recording.segments
    assert (segment.name, segment.data["kind"], segment.start) == ("fall", "fall", 4.0)
    assert not recording["knee"].enabled.any()
    recording = trimmed(marked(log, [parse_mark("hold=0.5:")]), 1.0, 1.5)
    assert (recording.start, recording.end) == (1.0, 1.5)
    assert [(segment.name, segment.start) for segment in recording.segments] == [("hold", 1.0)]
    with pytest.raises(UsageError, match="no sample lies between 7 and 9 s"):
        trimmed(log, 7, 9)
    with pytest.raises(UsageError, match="nan is no time"):
        trimmed(log, None, math.nan)
    with pytest.raises(UsageError, match="has no episodes"):
        import_log(log.path, walk=3)


def test_a_unit_may_be_counts_or_a_factor_with_a_sign(tmp_path):
    text = "t,angle,goal\n0,512,512\n20,853,1023\n"
    track = imported(tmp_path, text, "time=t:ms", *COLUMNS[1:], unit="counts")["servo"]
    np.testing.assert_allclose(np.degrees(track.position), [0.0, 100.0], atol=1e-9)
    mixed = "time=t:ms", "position=angle:counts", "command=goal:deg"
    track = imported(tmp_path, text, *mixed, profile="mx-28")["servo"]
    np.testing.assert_allclose(np.degrees(track.position[1]), (853 - 2048) * 360 / 4096)
    np.testing.assert_allclose(np.degrees(track.command), [512, 1023])
    factors = "time=t:0.00099", "position=pos:-0.5", "command=a:1:deg"
    track = imported(tmp_path, "t,a:1,pos\n0,2,3\n20,,5\n", *factors)["servo"]
    np.testing.assert_allclose(track.time, [0, 0.0198])
    np.testing.assert_allclose(track.position, [-1.5, -2.5])
    np.testing.assert_allclose(track.command, [np.radians(2), math.nan])
    assert parse_columns(["time=t", "position=p:0"])["position"].header == "p:0"  # 0 is no factor, so part of the name


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        (["a=0:3", "b=2:4"], "begins before the one before it ends"),
        (["a=7:8"], "fewer than two samples"),
        (["step=0:1.5"], "its goal does not change"),
    ],
)
def test_invalid_segments_are_refused(log, marks, message):
    with pytest.raises((UsageError, RecordingError), match=message):
        marked(log, [parse_mark(text) for text in marks])


@pytest.mark.usefixtures("log")
def test_the_command_marks_trims_and_stores_the_rig(capsys, said):
    columns = [part for item in COLUMNS for part in ("--column", item)]
    more = ("--unit", "deg", "--servo", "knee", "--from", "1", "--segment", "step=1.5:4", "--segment", "drop=4:5.5")
    assert app.run(["import", "log.csv", "log.mcap", *columns, *more]) == app.DONE
    recording = open_recording("log.mcap")
    assert {s.name: s.data.get("kind") for s in recording.segments} == {"step": "step", "drop": "", "between": None}
    assert recording.segments[0].data["target"] == pytest.approx(math.radians(60))
    assert recording.start == 1.0
    for rig, status in (("bench_arm", app.MISUSE), ("leg", app.DONE)):  # one of them has a servo "knee"
        assert app.run(["import", "log.csv", f"{rig}.mcap", *columns, *more, "--rig", rig]) == status
    assert rig_of(open_recording("leg.mcap")).name == "leg"
    assert "bench_arm has no servo knee\nit has shoulder" in capsys.readouterr().err
    refused = said("import", "leg.mcap", "again.mcap", code=2)
    assert "is a recording already\nuse it as it is: `axbridge info leg.mcap`" in refused


def test_an_option_that_a_log_makes_void_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("own.csv").write_text("time_s,hip.position_rad\n0,1\n0.1,1\n")
    (tmp_path / "folder").mkdir()
    for words, message in (
        (["own.csv", "--servo", "knee"], "names its servos itself: hip\nleave --servo out"),
        ([str(LOG), "--column", "time=timestamp", "--column", "position=position"], "leave --column out"),
        (["folder", "--goal", "auto"], "says itself what it holds\nleave --goal out"),
    ):
        assert app.run(["import", words[0], "new.mcap", *words[1:]]) == app.MISUSE
        assert message in capsys.readouterr().err
    assert not Path("new.mcap").exists()
    assert app.run(["import", "own.csv", "new.mcap", "--servo", "hip"]) == app.DONE


TIME = np.arange(0, 5, 0.01)
MOTION = 0.8 * np.sin(3 * TIME)


def with_value(values, index, value):
    changed = np.array(values, dtype=float)
    changed[index] = value
    return changed


@pytest.mark.parametrize(
    ("time", "columns", "severity", "what", "cause"),
    [
        (np.concatenate((TIME, TIME)), {}, "error", "jumps back, at sample 500 from 4.99 s to 0 s", "two motions"),
        (np.where(TIME > 2, TIME + 1e4, TIME), {}, "error", "no sample for 10000", "clock that was set"),
        (np.where(TIME > 2, TIME + 3, TIME), {}, "warning", "no sample for 3.01 s before sample 201", "did not answer"),
        (np.arange(500) * 10.0, {}, "warning", "one sample every 10 s", "milliseconds read as seconds"),
        (np.arange(500) * 10000.0, {}, "warning", "one sample every 10000 s", "microseconds read as seconds"),
        (np.arange(500) * 2e7, {}, "warning", "one sample every 2e+07 s", "nanoseconds read as seconds"),
        (TIME * 1e-3, {}, "warning", "one sample every 10 µs", "seconds read as milliseconds"),
        (np.round(TIME, 1), {}, "warning", "have the time of the one before", "too few digits"),
        (with_value(TIME, 7, math.nan), {}, "error", "the time of sample 7", "broken line"),
        (TIME, {"position": 90 * np.sin(TIME)}, "warning", "5157°", "degrees read as radians"),
        (TIME, {"command": 90 * np.sin(TIME)}, "warning", "command goes up to", "degrees read as radians"),
        (TIME, {"velocity": 300 * np.cos(TIME)}, "warning", "velocity goes up to", "rpm read as rad/s"),
        (TIME, {"position": with_value(MOTION, 9, math.inf)}, "error", "is inf, at sample 9", "division by zero"),
        (TIME, {"position": with_value(MOTION, 9, 1e300)}, "error", "is 1e+300, at sample 9", "division by zero"),
        (TIME, {"position": np.full(500, math.nan)}, "warning", "not one position is known", "never answered"),
        (TIME, {"position": with_value(MOTION, 9, 2.0)}, "warning", "jumps 2 times", "corrupt reading"),
    ],
)
def test_doubtful_samples_are_reported_with_their_probable_cause(time, columns, severity, what, cause):
    steady = np.zeros(len(time))
    oddities = findings("knee", time, {"position": steady} | columns)
    assert [(finding.servo, finding.severity) for finding in oddities] == [("knee", severity)]
    assert what in oddities[0].what
    assert cause in oddities[0].cause
    assert oddities[0].remedy


def test_a_valid_motion_has_no_findings_and_a_wrapping_wheel_has_no_jumps():
    assert findings("knee", TIME, {"position": MOTION, "command": MOTION, "velocity": np.gradient(MOTION, TIME)}) == []
    turning = np.mod(6 * TIME, 5.2)
    assert findings("wheel", TIME, {"position": turning, "duty": np.full(500, 0.5)}) == []
    assert findings("wheel", TIME, {"position": turning})[0].what.startswith("the position jumps 5 times")


def test_facts_have_the_first_jump_and_are_empty_without_samples():
    facts = Track.of("knee", np.arange(4) * 0.02, position=np.array([0, 0, 2, 0.0])).facts()
    assert (facts.jumps, facts.first_jump_at, facts.columns) == (2, 0.04, ("position",))
    none = Track.of("knee", np.empty(0))
    assert (none.facts().samples, none.facts().columns, none.facts().rate) == (0, (), 0.0)
    assert findings("knee", none.time, none.columns) == []


def test_samples_with_equal_times_are_merged_with_the_newest_command():
    time, columns = in_order(
        np.array([0.0, 0.1, 0.1, 0.2]),
        {
            "command": np.array([0.0, 0.0, 1.0, 1.0]),
            "commanded": np.array([0.01, 0.11, 0.13, 0.21]),
            "position": np.array([0.0, 0.5, math.nan, 0.6]),
        },
    )
    np.testing.assert_array_equal(time, [0.0, 0.1, 0.2])
    np.testing.assert_array_equal(columns["command"], [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(columns["position"], [0.0, 0.5, 0.6])
    np.testing.assert_array_equal(columns["commanded"], [0.01, 0.13, 0.21])
    _, repeated = in_order(np.zeros(3), {"command": np.array([0, 1, 1.0]), "commanded": np.array([0.1, 0.2, 0.3])})
    np.testing.assert_array_equal(repeated["commanded"], [0.2])  # the goal was first sent with an older sample


# ---- Dynamixel Wizard's graph exports: registers in SI, garbled rows left out, missing facts reported

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
    recording = import_log(STEPS / f"{name}.csv", goal=GivenGoal(500))
    track = recording["servo"]
    assert len(track) == samples
    assert (np.diff(track.time) > 0).all()
    assert 497.5 < counts(track)[-1] < 500.5
    assert sum(note.startswith(f"dropped {dropped} garbled") for note in recording.metadata["notes"]) == (dropped > 0)
    assert recording.metadata["profile"] == f"ax-{name[2:4]}a"
    assert recording.metadata["goal"]["time_estimated"]
    assert not recording.metadata["goal"]["counts_estimated"]
    moved = track.time[np.flatnonzero(counts(track) > 6)[0]]
    assert 0.02 < moved - recording.metadata["goal"]["time_s"] < 0.06
    assert [(segment.name, segment.data["kind"]) for segment in recording.segments] == [("step", "step")]


def test_a_stamp_with_an_extra_digit_drops_only_its_row(tmp_path):
    rows = "".join(f"{t},{300}\n" for t in (0, 16, 48, 640, 80, 96))
    recording = imported(tmp_path, HEAD + rows + ",499\n")
    np.testing.assert_allclose(recording["servo"].time * 1e3, [0, 16, 48, 80, 96])
    assert any("line 9: '640,300', line 12: ',499'" in note for note in recording.metadata["notes"])


def test_an_export_of_three_items_of_another_servo_is_read(tmp_path):
    track = imported(tmp_path, THREE)["servo"]
    np.testing.assert_allclose(track.time, [0, 0.016, 0.048, 0.064])
    np.testing.assert_allclose(np.degrees(track.position), np.array([0, 0, 12, 52]) * 360 / 4096)
    np.testing.assert_allclose(np.degrees(track.command), [0, 90, 90, math.nan])
    rpm = 2 * math.pi / 60
    np.testing.assert_allclose(track.velocity, np.array([0, 0, 200, -200]) * 0.114 * rpm)
    with pytest.raises(UsageError, match="has the Goal Position"):
        imported(tmp_path, THREE, goal=GivenGoal(500))


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("500@1.5", GivenGoal(500, 1.5)), ("500@1500ms", GivenGoal(500, 1.5)), ("500@auto", GivenGoal(500)),
        ("500", GivenGoal(500)), ("auto", GivenGoal()),
    ],
)  # fmt: skip
def test_goals_are_parsed(text, goal):
    assert parse_goal(text) == goal


def test_a_goal_that_cannot_be_estimated_is_requested(tmp_path):
    twice = [1] * 30 + [400] * 30 + [1] * 30
    text = HEAD + "".join(f"{20 * k},{position}\n" for k, position in enumerate(twice))
    track = imported(tmp_path, text, goal=GivenGoal(400, 0.59))["servo"]
    assert np.round(512 + track.command[[0, -1]] / AX.position).tolist() == [1, 400]
    for goal, message in (
        (GivenGoal(), "has 2 motions"),
        (GivenGoal(1500, 0.59), "beyond the range"),
        (GivenGoal(500, 99), "is not in the export"),
    ):
        with pytest.raises(UsageError, match=message):
            imported(tmp_path, text, goal=goal)


def test_the_command_imports_a_graph_and_reports_its_notes(tmp_path, capsys):
    out = tmp_path / "step.mcap"
    assert app.run(["import", str(STEPS / "AX12A_LOAD2_1.csv"), str(out), "--goal", "auto"]) == app.DONE
    message = capsys.readouterr().err
    assert "dropped 4 garbled rows" in message
    assert "the goal is estimated as 498 counts" in message
    assert open_recording(out).metadata["stamps"] == {"grid_s": 0.016, "poll_s": 0.02}


@pytest.mark.parametrize("path", sorted(STEPS.glob("*.csv")), ids=lambda path: path.stem)
def test_times_are_restored_to_two_milliseconds(path):
    track = import_log(path)["servo"]
    steady = (counts(track) > 80) & (counts(track) < 400)  # the servo turns at full speed
    assert on_grid(track.time)
    stamps = restored(track.time)
    assert stamps.poll == 0.02
    assert (np.diff(stamps.time) > 0).all()
    assert np.abs(stamps.time - track.time - 0.008).max() < 0.0095

    def scatter(time):
        speed, start = np.polyfit(time[steady], track.position[steady], 1)
        return np.std(track.position[steady] - speed * time[steady] - start) / speed

    assert scatter(track.time) > 0.0034
    assert scatter(stamps.time) < 0.0018


def test_stamps_of_uneven_polls_keep_their_uncertainty():
    times = np.cumsum(np.random.default_rng(1).uniform(0.017, 0.045, 200))
    stamps = restored(0.016 * np.floor(times / 0.016))
    assert math.isnan(stamps.poll)
    assert stamps.spread == pytest.approx(0.016 / math.sqrt(12))
    assert not on_grid(times)
