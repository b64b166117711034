"""A file of another program is refused with its kind and a hint, by every reader."""

import pytest

from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError
from axbridge.motion.files import load_move
from axbridge.recording.import_logs import import_log
from axbridge.recording.stored import open_recording

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"
URDF = '<robot name="a"><link name="b"/></robot>'
FILES = {
    "log.csv": (LFS, "a pointer of Git LFS", "git lfs pull"),
    "rig.toml": (LFS, "a pointer of Git LFS", "git lfs pull"),
    "arm.wbt": ("#VRML_SIM R2023b utf8\nWorldInfo {}\n", "a world or robot of Webots", "docs/webots.md"),
    "arm.urdf": (f'<?xml version="1.0"?>\n<!-- arm -->\n{URDF}', "a URDF", "axbridge rig new NAME --urdf"),
    "arm.xacro": (URDF.replace("name", "xmlns:xacro='x' name", 1), "a xacro file", "xacro FILE > robot.urdf"),
    "arm.xml": ('<mujoco model="a"><worldbody/></mujoco>', "a model of MuJoCo", "rig new NAME --mjcf"),
    "poppy.json": ('{"controllers": {}, "motors": {}}', "a robot of pypot", "docs/migrate.md"),
    "arm.json": ('{"a": {"id": 1, "range_min": 1, "range_max": 9}}', "a calibration of LeRobot", "--calibration"),
    "old.json": ('{"homing_offset": [1], "calib_mode": ["DEGREE"]}', "layout before 2025", "--unit deg --calibration"),
    "ax12.model": ("[type info]\nmodel_number 12\n", "a control table of ROBOTIS", "profile from-model"),
    "arm.sdf": ('<?xml version="1.0"?>\n<sdf version="1.9"/>', "a model of Gazebo", "the URDF"),
    "page.csv": ("<!DOCTYPE html>\n<html>", "a web page", "the file itself"),
    "log.jsonl": ('{"t": 0}\n{"t": 1}\n', "JSON Lines", "CSV"),
    "arm.stl": ("solid arm\nendsolid arm\n", "a CAD model or a mesh", "URDF"),
    "one.bag": (b"#ROSBAG V2.0\n\x45", "a bag of ROS 1", "axbridge import FILE.csv"),
    "two.db3": (b"SQLite format 3\0\x10", "such as a bag of ROS 2", "MCAP"),
    "log.parquet": (b"PAR1\x15\0", "a Parquet file", "LeRobot dataset"),
    "log.xlsx": (b"PK\x03\x04\x14\0", "a zip archive", "CSV"),
    "log.csv.gz": (b"\x1f\x8b\x08\0", "packed", "gunzip"),
    "log.npy": (b"\x93NUMPY\1\0", "an array of NumPy", "numpy.savetxt"),
    "log.png": (b"\x89PNG\r\n", "a picture", "data file"),
    "excel.csv": ("time\t1\n".encode("utf-16"), "text in UTF-16", "UTF-8"),
}


@pytest.mark.parametrize("read", [import_log, open_recording, Rig.load, load_move], ids=lambda read: read.__qualname__)
@pytest.mark.parametrize("name", FILES)
def test_the_error_for_a_file_of_another_program_names_its_kind_and_the_next_step(tmp_path, name, read):
    text, what, hint = FILES[name]
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(AxBridgeError, match=rf"(?s){name}: .*is .*{what}.*{hint}"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("play a.mcap bioloid", "a.mcap: is a recording"),
        ("move info a.mcap", "a.mcap: is a recording"),
        ("run a.mcap", "a.mcap is a recording, and no script"),
        ("run arm.urdf", "arm.urdf is a URDF, and no script"),
        ("export bam a.mcap --out x.json", "a.mcap: is a recording"),
        ("serve a.mcap", "is a recording"),
        ("import arm.json x.toml", "arm.json: is a calibration of LeRobot"),
        ("import lfs.mcap b.mcap", "lfs.mcap: is a pointer of Git LFS"),
        ("rig new x --urdf arm.xml --profile ax-12a", "arm.xml: is a model of MuJoCo"),
        ("rig new x --urdf a.mcap --profile ax-12a", "a.mcap: is a recording"),
        ("rig check arm.urdf", "axbridge rig new NAME --urdf"),
        ("rig new x --urdf arm.xml", "arm.xml: is a model of MuJoCo"),
        ("rig new x --mjcf arm.urdf --profile ax-12a", "arm.urdf: is a URDF"),
        ("profile from-model arm.urdf", "arm.urdf: is a URDF"),
    ],
)
def test_a_verb_refuses_a_file_for_another_verb_and_names_its_kind(typed, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("arm.urdf", "arm.json", "arm.xml"):
        (tmp_path / name).write_text(FILES[name][0])
    (tmp_path / "a.mcap").write_bytes(b"\x89MCAP0\r\n" + bytes(99))
    (tmp_path / "lfs.mcap").write_text(LFS)
    assert words in said(*typed.split(), code=2)


@pytest.mark.parametrize("name", ["arm.xacro", "arm.xml", "log.csv", "arm.wbt"])
def test_a_robot_in_another_format_is_refused_as_the_urdf_of_a_rig(tmp_path, name):
    text, what, _ = FILES[name]
    (tmp_path / name).write_text(text)
    rig = tmp_path / "arm.toml"
    rig.write_text(f'name = "arm"\n[world]\nurdf = "{name}"\n[[servo]]\nname = "a"\njoint = "j"\nid = 1\n')
    with pytest.raises(AxBridgeError, match=f"is {what.split(' (')[0]}"):
        Rig.load(rig).urdf_text()
