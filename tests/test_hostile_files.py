"""Every reader gets damaged files: it reads them, or its error names the file and the next step.

Each reader gets 300 files; 3,000 in `make long`, and 10,000 with ``AXBRIDGE_FUZZ=10000``.
"""

import gzip
import json
import math
import os
import re
import warnings
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from random import Random
from shutil import copytree
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from axbridge.cli.info import info
from axbridge.comparison.comparison import compare, following
from axbridge.comparison.page import table_text
from axbridge.comparison.recorded_runs import written_in
from axbridge.comparison.tables import deviation_table, headline, provenance_table, response_tables
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Parameter, Rig, filled
from axbridge.config.toml_tables import shipped, written
from axbridge.config.urdf import read_mesh, read_shapes, read_tree, with_checked_meshes
from axbridge.errors import AxBridgeError, RigWarning
from axbridge.export.bam import from_bam
from axbridge.file_reading import controls
from axbridge.learn.randomise import Parameters
from axbridge.motion.files import load_move, motion_text
from axbridge.motion.mtn import joints_of, mtn_of
from axbridge.recording import step_format, stored
from axbridge.recording.convert import write_csv, write_ros2
from axbridge.recording.import_arms import import_arm_folder, import_dataset
from axbridge.recording.import_logs import import_log, parse_columns
from axbridge.recording.import_wizard import GivenGoal
from axbridge.recording.provenance import describe, rig_of
from axbridge.recording.step_format import CYCLE, CYCLE_ROW, EVENTS, packed
from axbridge.recording.stored import Message, MessageWriter, open_recording, write_recording
from axbridge.robot.rig_check import check_rig
from axbridge.state import SERVO_ROW
from axbridge.virtual.control_table import ControlTable
from tests.support.lerobot_dataset import write_dataset
from tests.support.page_set import EVERYTHING, page_set

# -- damaged files: valid files with a few edits, from seeds that hypothesis draws

VALUES = (  # replacements of a number, a string or a name
    *("0", "-1", "1", "2", "1.5", "-0.0", "1e-300", "1e300", "-1e300", "1e308", "1E+999999999", "1e-999999999", "nan"),
    *("inf", "-inf", "NaN", "Infinity", "9" * 400, "9" * 5000, "0x7fffffffffffffff", "4294967296", "-2147483649"),
    *("true", "null", '""', '"x"', "[]", "{}", "[[1]]", '{"a": 1}', "[" * 3000, '{"a":' * 3000, "a." * 900 + "a = 1"),
    *('"\\u001b[31m"', '"\\u0000"', "\x1b[31m", "\x00", "\x9b", "\u202e", "../../etc/passwd", "a" * 300, "é" * 300),
    *("", ",", "\n", "=", "]", "}", "<!--", "<a>", "&x;", "${1/0}", "%s%n", "::", "*", "NaN,NaN"),
)
_TOKEN = re.compile(rb"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?|\"[^\"\n]*\"|[A-Za-z_][A-Za-z_0-9]*")
_KINDS = ("value", "value", "value", "value", "flip", "cut", "drop", "double")
BATCH = 10
# One draw for a batch of files: drawing takes most of the time.
SEEDS = st.lists(st.integers(0, 2**32 - 1), min_size=BATCH, max_size=BATCH)


def edited(content, seed):
    """Return `content`, bytes, with one to four random edits."""
    random = Random(seed)
    for _ in range(random.randint(1, 4)):
        if not content:
            break
        kind, at = random.choice(_KINDS), random.randrange(len(content))
        if kind == "value":
            token = _TOKEN.search(content, at) or _TOKEN.search(content)
            if token:
                content = content[: token.start()] + random.choice(VALUES).encode() + content[token.end() :]
        elif kind == "flip":
            content = content[:at] + bytes((content[at] ^ random.randint(1, 255),)) + content[at + 1 :]
        elif kind == "cut":
            content = content[:at]
        elif kind == "drop":
            content = content[:at] + content[at + random.randint(1, 80) :]
        else:  # repeat lines
            begin, end = content.rfind(b"\n", 0, at) + 1, content.find(b"\n", at) + 1 or len(content)
            content = content[:end] + content[begin:end] * random.randint(1, 3) + content[end:]
    return content


FILES = int(os.environ.get("AXBRIDGE_FUZZ", "100"))


@pytest.fixture(autouse=True)
def without_warnings():
    """Ignore warnings about unusual numbers: these tests are about errors."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RigWarning)
        yield


def survives(path, content, use, files=FILES):
    """Pass this number of files to a reader: edits of `content` (bytes), or its results for seeds.

    The reader may refuse a file with an AxBridgeError of at most two lines.
    """

    @settings(max_examples=max(1, files // BATCH), deadline=None, database=None)
    @given(SEEDS)
    def each(seeds):
        for seed in seeds:
            path.write_bytes(content(seed) if callable(content) else edited(content, seed))
            note(f"seed {seed}")
            try:
                use(path)
            except AxBridgeError as refused:
                text = str(refused)
                assert len(text.splitlines()) <= 2 or " mistakes:\n" in text

    each()


def rig_text():
    """Return a rig as TOML, with a line for each key."""
    changes = {
        "safety": {"on_exit": "park", "park": {"shaft": 0.5}, "stale_command_ms": 500},
        "robot": {"battery": [600, 36000, 5]},
        "webots": {"aliases": {"LeftKnee": "shaft"}},
        "sensor": [{"name": "imu", "kind": "imu", "rate_bias": [0.0, 0.1, 0.0]}],
    }
    servo = {"params": {"motor": {"armature": 0.004}}, "registers": {"punch": 9}, "max_velocity": 5.3}
    rig = Rig.load("pendulum").overridden(changes).with_servos(lambda _: servo)
    lines = [""]  # keys outside of tables come first
    facts = rig.model_dump(mode="json", by_alias=True, exclude={"path"}, exclude_none=True)
    for key, value in facts.items():
        if isinstance(value, str):
            lines[0] += f"{key} = {written(value)}\n"
            continue
        for table in value if isinstance(value, list) else [value]:
            lines.append(f"[[{key}]]" if isinstance(value, list) else f"[{key}]")
            lines += [f"{name} = {written(item)}" for name, item in table.items()]
    return "\n".join(lines).encode()


URDF = b"""<?xml version="1.0"?>
<robot name="arm"><material name="grey"><color rgba="0.5 0.5 0.5 1"/></material>
<link name="base"><collision><geometry><box size="0.1 0.2 0.3"/></geometry></collision></link>
<link name="arm"><inertial><origin xyz="0 0 -${mass}" rpy="0 0 0"/><mass value="${mass}"/>
<inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
<contact><lateral_friction value="0.8"/></contact>
<visual><origin xyz="0 0 0.1"/><geometry><cylinder radius="0.01" length="0.2"/></geometry><material name="grey"/></visual>
<collision><geometry><mesh filename="box.obj" scale="1 1 1"/></geometry></collision></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="arm"/><origin xyz="0 0 1" rpy="0 0 0"/>
<axis xyz="0 -1 0"/><limit lower="-2.6" upper="2.6" effort="9" velocity="9"/><dynamics damping="0.1" friction="0.1"/></joint>
</robot>
"""
OBJ = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\no part\nf 1 2 3\nf 1/1/1 2 4\nf -1 -2 -3\n"


@pytest.fixture
def tmp_path(tmp_path):
    """Yield a folder in memory if the system has one, because thousands of files are written."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_rigs(tmp_path):
    copytree(shipped("hil_rigs") / "pendulum", tmp_path, dirs_exist_ok=True)
    survives(tmp_path / "pendulum.toml", rig_text(), lambda path: check_rig(Rig.load(path)))


def test_urdfs(tmp_path):
    (tmp_path / "box.obj").write_bytes(OBJ)

    def use(path):
        text = filled(path, {"mass": Parameter(value=0.2)}, path)
        for fixed in (True, False):
            read_tree(path, fixed_base=fixed, text=text)
        read_shapes(path, "collision", text)
        read_shapes(path, "visual", text)
        with_checked_meshes(path, text)

    survives(tmp_path / "arm.urdf", URDF, use)


PROFILE = (shipped("firmware_profiles") / "ax-12a.toml").read_bytes()
MODEL = (shipped("firmware_profiles") / "models" / "ax12.toml").read_bytes()
AX12 = FirmwareProfile.load("ax-12a")


def recording_lines():
    """Return a short recording as text, with one record per line."""
    metadata = describe(
        Rig.load("bench_arm"), backend="sim", seed=0, experiment="step", registers={"shoulder": {"punch": 32}},
        pendulum={"mass": 0.2, "length": 0.1, "vin": 12.0}, gait={"steps": 3, "period": 0.5}, notes=["one"],
    )  # fmt: skip
    step = {"name": "step", "kind": "step", "servo": "shoulder", "target": 1.0}
    lines = [(f"metadata {key}", value) for key, value in metadata.items()]
    lines += [(EVENTS, {"time": 0.0, "name": "segment", "data": step})]
    lines += [(EVENTS, {"time": 0.1, "name": "register", "data": {"servo": "shoulder", "name": "punch", "value": 32}})]
    for k in range(30):
        row = {"time": 0.02 * k, "position": 0.1 * math.sin(k), "command": 0.1, "errors": 0}
        lines += [(f"{step_format.STEP} shoulder", row), (CYCLE, {"time": 0.02 * k, "late_ms": 0.0})]
    return "\n".join(f"{topic}\t{json.dumps(body)}" for topic, body in lines).encode()


def row_of(text, dtype):
    """Return the packed numbers of a line; its bytes when it is no longer JSON."""
    row = np.full(1, np.nan, dtype)
    try:
        for name, value in json.loads(text).items():
            row[name] = value
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return text
    return packed(row)


def assembled(lines):
    """Return a recording file of (edited) `recording_lines`."""
    metadata, messages, stream = {}, [], BytesIO()
    for line in lines.split(b"\n"):
        topic, _, text = line.partition(b"\t")
        kind, _, key = topic.decode("utf-8", "replace").partition(" ")
        if kind == "metadata":
            metadata[key] = text.decode("utf-8", "replace")
        elif kind == step_format.STEP:
            messages.append(Message(step_format.STEP, row_of(text, SERVO_ROW), 10**18, (key,)))
        elif kind == CYCLE:
            messages.append(Message(CYCLE, row_of(text, CYCLE_ROW), 10**18))
        else:
            messages.append(Message(EVENTS, b"\0\1\0\0" + len(text).to_bytes(4, "little") + text, 10**18))
    with patch.object(stored.json, "dumps", str):
        writer = MessageWriter(stream, metadata, chunked=True)
    for message in messages:
        writer.write(message)
    writer.finish()
    return stream.getvalue()


def use_recording(path):
    assert not controls("\n".join(info(path).lines))
    recording = open_recording(path)
    write_csv(recording, path.with_suffix(".csv"), wide=True)
    write_recording(recording, path.with_suffix(".again"))
    for name in recording:
        written_in(recording, name)
    rig_of(recording)


LINES = recording_lines()


@pytest.mark.slow
def test_recordings_with_other_content(tmp_path):
    def content(seed):
        whole = assembled(edited(LINES, seed))
        return whole if seed % 2 else whole[:-9]  # cut off, so it is read from the first byte on

    survives(tmp_path / "run.mcap", content, use_recording)


def test_recordings_side_by_side(tmp_path):
    (tmp_path / "good.mcap").write_bytes(WHOLE)
    good = open_recording(tmp_path / "good.mcap")

    def use(path):
        recording = open_recording(path)
        for comparison in (compare(good, recording), following(recording)):
            headline(comparison)
            responses = response_tables(comparison, comparison.pairs[0])
            tables = [deviation_table(comparison), *responses, provenance_table(comparison)]
            assert not controls("".join(map(table_text, tables)))
        write_ros2(recording, path.with_suffix(".bag"), force=True)

    survives(tmp_path / "run.mcap", lambda seed: assembled(edited(LINES, seed)), use, FILES // 20)


WHOLE = assembled(LINES)
CSV = {
    "own": b"servo,time_s,position_rad,command_rad\n" + b"".join(b"a,%d.5,0.%d,0.5\nb,%d.5,0.1,\n" % (k, k, k) for k in range(9)),
    "poppy": b"walk,segment,t_s,joint,target_deg,position_deg,speed_dps,load_pct,voltage_V,temp_C\n"
    + b"".join(b"%d,%d,0.0%d,l_hip,10.5,%d.2,5,1,11.1,40\n" % (k // 6, k // 3, k % 3, k) for k in range(12)),
    "wizard": b"DYNAMIXEL Graph,2\nAX-12A,12\nItemCount,2\nPresent Position,#ff0000,0,1,0\nPresent Load,#00ff00,0,1,0\n"
    b"Time[ms],Present Position,Present Load\n"
    + b"".join(b"%d,%d,10\n" % (16 * (20 * k // 16), 500 if k < 9 else 600) for k in range(40)),
    "mapped": b"t,angle,goal\n" + b"".join(b"%d,%d.5,3\n" % (20 * k, k) for k in range(12)),
}  # fmt: skip


@pytest.mark.parametrize("kind", CSV)
@pytest.mark.slow
def test_csv_logs(tmp_path, kind):
    def use(path):
        columns = ["time=t:ms", "position=angle:deg", "command=goal:deg"] if kind == "mapped" else []
        recording = import_log(path, columns=parse_columns(columns), goal=GivenGoal() if kind == "wizard" else None)
        write_recording(recording, path.with_suffix(".mcap"))

    survives(tmp_path / "log.csv", CSV[kind], use, FILES // len(CSV))


def test_json_logs(tmp_path):
    row = {"goal_position": 0.1, "position": 0.1, "speed": 0.0, "input_volts": 5.0, "temp": 30, "torque_enable": True}
    rows = [{"timestamp": 0.01 * k, "load": 65_000, **row} for k in range(5)]
    log = {"mass": 0.1, "length": 0.2, "kp": 32, "vin": 12.0, "motor": "xl330", "trajectory": "step", "entries": rows}

    def use(path):
        write_recording(import_log(path), path.with_suffix(".mcap"))

    survives(tmp_path / "log.json", json.dumps(log).encode(), use)


@pytest.mark.parametrize("part", ["meta/info.json", "data/chunk-000/file-000.parquet", "arm.json"])
@pytest.mark.slow
def test_lerobot_datasets(tmp_path, part):
    states = np.outer(np.linspace(-50, 50, 20), [1.0, 0.5, 0.2])
    write_dataset(tmp_path / "set", [(states, states)] * 2, robot="axbridge")
    joint = {"id": 1, "drive_mode": 1, "homing_offset": 0, "range_min": 100, "range_max": 4000}
    arm = tmp_path / "set" / "arm.json"
    arm.write_text(json.dumps(dict.fromkeys(("shoulder_pan", "elbow_flex", "gripper"), joint), indent=1))

    def use(_path):
        recording = import_dataset(tmp_path / "set", 1, unit="normalised", calibration=arm)
        write_recording(recording, tmp_path / "out.mcap")

    survives(tmp_path / "set" / part, (tmp_path / "set" / part).read_bytes(), use, FILES // 2)


@pytest.mark.slow
def test_a_lerobot_dataset_with_another_byte_in_its_footer_is_read_or_refused(tmp_path):
    """pyarrow's scanner of datasets waited for ever for some of these files."""
    states = np.outer(np.linspace(-50, 50, 20), [1.0, 0.5, 0.2])
    write_dataset(tmp_path / "set", [(states, states)] * 2, robot="axbridge")
    path = tmp_path / "set" / "data/chunk-000/file-000.parquet"
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    for place in range(len(whole) - 8 - footer, len(whole) - 8):
        path.write_bytes(whole[:place] + b"M" + whole[place + 1 :])
        with suppress(AxBridgeError):
            import_dataset(tmp_path / "set", 1, unit="deg")


@pytest.mark.parametrize("part", ["control.csv", "state_motor.csv.gz"])
def test_arm_folders(tmp_path, part):
    rows = "".join(f'X,{20_000.5 * k},"[0.{k}, -0.25]"\n' for k in range(12))
    text = f"type,timestamp,positions\n{rows}".encode()
    (tmp_path / "control.csv").write_bytes(text)
    (tmp_path / "state_motor.csv.gz").write_bytes(gzip.compress(text))

    def use(path):
        if path.suffix == ".gz":  # edits of compressed bytes would mostly give the same error
            path.write_bytes(gzip.compress(path.read_bytes()))
        write_recording(import_arm_folder(tmp_path, Rig.load("pan_tilt")), tmp_path / "out.mcap")

    survives(tmp_path / part, text, use, FILES // 2)


PAIR = Rig.model_validate(
    {"name": "pair", "servo": [{"name": n, "joint": n, "id": i} for i, n in ((1, "a"), (2, "b"))]}
)


def use_move(path):
    move, _ = load_move(path, PAIR)
    assert move.duration >= 0
    motion_text(move)
    mtn_of(move, joints_of(PAIR))[0].data()
    Path(path).with_suffix(".again").write_text(move.text())


KEYS = [{"positions": {"a": 0.1 * k, "b": -0.1}, "time": 0.5, "pause": 0.1, "name": "up"} for k in range(3)]
PAGE = {"keys": KEYS, "name": "wave", "rate": 1.5, "repeat": 2, "next": "2", "speed": {"a": 1.0}, "slope": {"a": 32}}
PAGES = {"1": PAGE, "2": {"keys": KEYS[:1], "interpolation": "linear"}}
MOVE = {"format": "axbridge-move-1", "start": "1", "pages": PAGES}
MOTION = b"#WEBOTS_MOTION,V1.0,a,b\n00:00:000,Pose1,0.1,0.2\n00:01:500,Pose2,*,-0.2\n01:02:000,Pose3,1,1e-3\n"
BAM = json.loads((Path(__file__).parent / "support" / "bam_xl330.json").read_text())["files"]["m6"]
FIT = {
    "parameters": {f"motor.{name}": {"value": 1.0, "low": 0.5, "high": 1.5} for name in "ab"},
    "correlations": {f"motor.{name}": {"motor.a": 0.1, "motor.b": 1.0} for name in "ab"},
    "cannot_tell": ["motor.a"],
}


@pytest.mark.parametrize(
    ("name", "content", "use"),
    [
        pytest.param("run.mcap", WHOLE, use_recording, marks=pytest.mark.slow),
        ("box.obj", OBJ, read_mesh),
        ("profile.toml", PROFILE, lambda path: ControlTable(FirmwareProfile.load(path))),
        ("model.toml", MODEL, lambda path: ServoModel.load(path, AX12)),
        ("wave.json", json.dumps(MOVE, indent=1).encode(), use_move),
        ("wave.motion", MOTION, use_move),
        ("wave.mtn", page_set(*EVERYTHING[:2], fill=False), use_move),
        ("m6.json", json.dumps(BAM, indent=1).encode(), from_bam),
        ("fit.json", json.dumps(FIT, indent=1).encode(), lambda p: Parameters.load(p).drawn(np.random.default_rng(0))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_with_other_bytes(tmp_path, name, content, use):
    survives(tmp_path / name, content, use)
