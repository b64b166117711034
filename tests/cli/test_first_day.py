"""First use of the verbs on served buses of both protocols: no port, two ports, a dead port, an unknown name."""

import json
from pathlib import Path

import pytest
from serial.tools.list_ports_common import ListPortInfo

import axbridge
from axbridge.cli import options
from axbridge.cli.app import HARDWARE, MISUSE, run
from axbridge.config.rig import Rig
from axbridge.config.toml_tables import shipped
from axbridge.motion.experiments import Options
from axbridge.robot.rig_check import check_rig
from tests.support.pty_line import PtyLine
from tests.support.warm import serving

pytestmark = pytest.mark.slow
COUNTS = {"bench_arm": 1, "koch": 6}
REAL = ["--backend", "real"]
VERBS = (
    *(["off"], ["rig", "new", "mine"], ["view"], ["scan"], ["doctor"], ["monitor"]),
    *(["servo", *words.split()] for words in ("info 1", "read 1 id", "write 1 led 1", "goto 1 0", "torque 1 off")),
    *(["servo", *words.split()] for words in ("set-id 1 7", "set-baud 1 500000", "reset 1 --yes", "reboot 1")),
    *(["record", "step", "bare_horn", *REAL], ["teach", "bench_arm", "--out", "m.json", "--duration", "1"]),
    *(["play", "sample:bow", "bioloid", *REAL], ["walk", "bioloid", *REAL], ["verify", "bench_arm"]),
)


def test_off_names_the_servo_of_a_rig_that_does_not_confirm(said):
    with PtyLine((1, 2)) as line:
        line.tables[1][24] = line.tables[2][24] = 1
        line.deaf = {2}
        said("off", "--port", line.port)  # all servos that answer are off
        output = said("off", "--rig", "pan_tilt", "--port", line.port, code=HARDWARE)
        assert line.tables[1][24] == 0
    assert "off and confirmed: pan (id 1)\n" in output
    assert "not confirmed: tilt (id 2)\n" in output
    assert "cut the servo supply" in output


PORTS = {  # by case: connected ports, typed port, message
    "dead": ([], ["--port", "/dev/unheard_of"], "/dev/unheard_of"),
    "none": ([], [], "no USB serial adapter is connected"),
    "two": (["/dev/ttyUSB0", "/dev/ttyUSB1"], [], "several adapters are connected"),
}


@pytest.mark.parametrize(
    ("verb", "there", "port", "why"),
    [
        pytest.param(verb, *PORTS[case], id=f"{' '.join(verb)}, {case}")
        for verb in VERBS
        for case in PORTS
        if case != "two" or verb in (["off"], ["scan"], ["view"])  # verbs without a port option
    ],
)
def test_a_dead_port_no_port_and_two_ports_are_reported_in_two_lines(verb, there, port, why, said, monkeypatch):
    monkeypatch.setattr("axbridge.bus.port_name.connected", lambda: there)
    refused = said(*verb, *port, code=HARDWARE)
    assert why in refused
    assert ("axbridge view bench_arm" in refused) == (verb == ["view"] and not port)
    assert refused.count("\n") == 2


def test_ports_says_so_when_there_is_no_adapter_but_a_built_in_port(said, monkeypatch):
    monkeypatch.setattr("serial.tools.list_ports.comports", list)
    assert "no serial adapter is plugged in" in said("ports", code=HARDWARE)
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: [ListPortInfo("/dev/ttyS0")])
    assert said("ports", code=HARDWARE).split(maxsplit=1) == ["/dev/ttyS0", "built-in, not a USB adapter\n"]


@pytest.mark.parametrize("kind", ["rigs", "models", "profiles", "moves", "samples", "experiments", "faults"])
def test_list_prints_each_entry_of_json_with_what_it_is(kind, said):
    entries = json.loads(said("list", kind, "--json"))["kinds"][kind]
    assert len(entries) == said("list", kind).count("\n") > 0
    assert all(entries.values()), entries


@pytest.mark.parametrize("out", ["step.html", "step.png"])
def test_a_recording_is_drawn_as_page_or_picture(out, said):
    said("record", "step", "--rig", "bench_arm", "--angle", 20, "--out", "step.mcap")
    said("plot", "step.mcap", "--out", out)
    assert Path(out).stat().st_size > 10_000
    said("plot", "step.mcap", "--out", out, code=MISUSE)  # it is there
    assert "name it .html or .png" in said("plot", "step.mcap", "--out", "step.pdf", code=MISUSE)


def test_the_set_for_an_identification_ends_with_the_one_command_that_fits_it(said, monkeypatch):
    short = [(name, "step", Options(angles=(0.1,), duration=0.1)) for name in "ab"]
    monkeypatch.setattr("axbridge.cli.record.PROTOCOL", short)
    *wrote, following = said("record", "protocol", "bench_arm", "--out", "x.mcap").splitlines()
    assert [line.partition(":")[0] for line in wrote] == ["wrote x-a.mcap", "wrote x-b.mcap"]
    command = "axbridge identify x-a.mcap x-b.mcap --rig bench_arm --servo shoulder --model ax12 --out shoulder.toml"
    assert following == f"next: {command}"


@pytest.mark.parametrize("named", ["1", "shoulder"])
def test_a_servo_is_given_by_id_or_name_and_a_rig_with_or_without_the_word_rig(named, said):
    made = ["record", "step", "bench_arm", "--servo", named, "--angle", "5", "--duration", "0.1"]
    said(*made)
    said(*made, "--rig=bench_arm", code=MISUSE)  # two rigs
    said("compare", "step.mcap", "bench_arm", "--servo", named, "--html", "step.html")
    assert "<html" in Path("step.html").read_text()
    said("export", "bam", "bench_arm", "--servo", named, "--out", "m.json", "--json")
    drawn = json.loads(said("plot", "step.mcap", "--json"))
    assert drawn["out"] == "step.plot.html"  # the comparison's page has the shorter name


@pytest.mark.parametrize(
    ("text", "time"), [("10ms", 0.01), ("0.02", 0.02), ("1.5s", 1.5), ("2m", 120.0), ("2min", 120.0), ("0", 0.0)]
)
def test_a_time_has_a_unit_or_is_in_seconds(text, time):
    assert options.seconds(text) == pytest.approx(time)


# ---- rigs, from an empty folder


def test_a_rig_is_shown_with_its_files_and_servos_and_check_draws_its_joints_and_what_it_assumed(said):
    shown = said("rig", "show", "pendulum:mass=0.2")
    assert "number  mass = 0.2 kg (0.001..5)" in shown
    assert "pendulum.urdf" in shown
    assert shown.splitlines()[-1].split() == ["shaft", "1", "main", "shaft", "ax-12a", "ax12", "-"]
    checked = said("rig", "check", "pan_tilt")
    assert "└─ pan: turns about z, -115 to 115°; servo 1 on main" in checked
    assert "   └─ tilt: turns about y, -69 to 69°; servo 2 on main" in checked
    assert 'pan, tilt: profile = "ax-12a", zero = 512, direction = 1' in checked


def test_programs_read_a_rig_as_json(said):
    def printed(*words):
        return json.loads(said("rig", *words, "--json"))

    assert printed("list")["rigs"]["pan_tilt"] == "two AX-12A turning and nodding a 60 g camera"
    shown = printed("show", "pendulum:mass=0.2")
    assert (shown["format"], shown["parameters"]["mass"]["value"]) == ("axbridge-rig-show-1", 0.2)
    shaft = {"drive": "dynamixel", "id": 1, "bus": "main", "joint": "shaft", "profile": "ax-12a", "model": "ax12"}
    assert shown["servos"] == {"shaft": {**shaft, "lowest_rad": None, "highest_rad": None}}
    checked = printed("check", "pan_tilt")
    assert (checked["servos"], checked["file"]) == (2, printed("show", "pan_tilt")["file"])


@pytest.mark.parametrize("name", ["pan_tilt", "xl330_pendulum", "bioloid"])
def test_a_copy_is_sound_moves_and_has_the_name_of_its_folder(said, name):
    said("rig", "copy", name, "mine")
    assert "mine.toml is sound" in said("rig", "check", "mine")
    assert axbridge.Rig.load("mine").name == "mine"
    assert axbridge.Rig.load("mine").urdf_path().parent.resolve() == Path("mine").resolve()


def test_a_rig_is_not_copied_into_a_folder_with_files_or_with_given_parameters(said):
    Path("notes.txt").touch()
    refused = said("rig", "copy", "pan_tilt", ".", code=2)
    assert refused == "axbridge: . is no empty folder\ngive the name of a new folder\n"
    assert "change [parameters] in the copy" in said("rig", "copy", "pendulum:mass=0.2", "mine", code=2)
    assert [path.name for path in Path().iterdir()] == ["notes.txt"]
    Path("empty").mkdir()
    said("rig", "copy", "pan_tilt", "empty")


def test_a_zero_that_is_left_out_is_the_middle_of_its_servo(said):
    Path("mine.toml").write_text('base = "pan_tilt"\n[[servo]]\nname = "tilt"\nprofile = "mx-28"\nmodel = "mx28"\n')
    assert "tilt: zero = 2048" in said("rig", "check", "mine.toml")


def test_a_sample_is_imported_from_an_empty_folder(said):
    said("import", "sample:xl330", "pendulum.mcap")
    assert list(axbridge.open_recording("pendulum.mcap")) == ["pendulum"]
    assert "did you mean 'xl330'" in said("import", "sample:xl33", "other.mcap", code=2)


@pytest.fixture
def urdf(tmp_path):
    text = (shipped("hil_rigs") / "koch" / "koch.urdf").read_text()
    (tmp_path / "arm.urdf").write_text(text)
    return "arm.urdf"


@pytest.mark.parametrize("profile", ["ax-12a", "xl330-m288", "sts3215", "mx-28"])
def test_each_joint_of_a_urdf_gets_a_servo_of_the_profile(profile, urdf, said):
    written = said("rig", "new", "mine", "--urdf", urdf, "--profile", profile)
    assert written == "wrote mine/mine.toml: 6 servos\nnext: `axbridge rig check mine`\n"  # a URDF has their names
    rig = Rig.load("mine")
    assert [servo.id for servo in rig.servos] == [1, 2, 3, 4, 5, 6]
    assert {servo.profile for servo in rig.servos} == {profile}
    assert [servo.joint for servo in rig.servos] == rig.tree().names
    check_rig(rig)


def test_an_existing_rig_is_replaced_only_with_force(urdf, said):
    command = ("rig", "new", "mine", "--urdf", urdf, "--profile", "ax-12a")
    said(*command)
    assert "replace it with --force" in said(*command, "--ids", "6,5,4,3,2,1", code=2)
    said(*command, "--ids", "6,5,4,3,2,1", "--force")
    assert [servo.id for servo in Rig.load("mine").servos] == [6, 5, 4, 3, 2, 1]
    Path(urdf).write_text(Path(urdf).read_text().replace("revolute", "prismatic"))
    assert "arm.urdf: has no joint that turns" in said(*command, "--force", code=2)


# ---- tests with served buses come last, because they use 10 % of a core while they run


@pytest.fixture(scope="module", params=COUNTS)
def served(request):
    with serving(request.param) as port:
        yield request.param, port


def test_off_switches_every_motor_off_and_lists_confirmed_servos(served, said):
    name, port = served
    ids = range(1, COUNTS[name] + 1)
    on = {ids[0], ids[-1]}
    for id_ in on:
        said("servo", "torque", id_, "on", "--port", port)
    assert said("off", "--port", port) == f"{port}: off and confirmed: {', '.join(f'servo {id_}' for id_ in ids)}\n"
    for id_ in on:
        assert said("servo", "read", id_, "torque_enable", "--port", port) == "torque_enable 0\n"
    (line,) = json.loads(said("off", name, "--port", port, "--json"))["lines"]  # the rig is the first word
    assert (len(line["off"]), line["unconfirmed"]) == (COUNTS[name], [])


def test_a_rig_from_a_scan_is_valid_and_moves_the_servos(served, said):
    name, port = served
    said("rig", "new", "mine", "--port", port)
    made, source = Rig.load("mine"), Rig.load(name)
    for servo, original in zip(made.servos, source.servos, strict=True):
        profile = made.specs[servo.name].profile
        assert (servo.id, profile.model_number) == (original.id, source.specs[original.name].profile.model_number)
        assert servo.model == profile.model
        assert (servo.supply_voltage or made.buses[0].supply_voltage) == profile.electrics.nominal_voltage
    said("rig", "check", "mine")
    said("servo", "goto", "servo_1", "5", "--rig", "mine")
    said("rig", "new", "mine", "--port", port, code=MISUSE)  # it is there


def test_every_verb_accepts_a_servos_name_and_reports_in_json(served, said):
    name, port = served
    servo, where = Rig.load(name).servos[0], ("--rig", name, "--port", port)
    assert said("servo", "read", servo.name, "id", *where) == f"id {servo.id}\n"
    for typed, facts in (
        ("write NAME led 1", {"value": 1}),
        ("goto NAME 0 --duration 1", {"arrived": True}),
        ("set-baud NAME 1000000", {"baud": 1_000_000, "exactly": 1_000_000}),
    ):
        verb, _, *more = typed.split()
        document = json.loads(said("servo", verb, servo.name, *more, *where, "--json"))
        assert document | facts | {"format": f"axbridge-servo-{verb}-1", "id": servo.id} == document
    assert "no servo 'tail'" in said("servo", "info", "tail", *where, code=MISUSE)


def test_view_needs_no_rig(served, said):
    assert "http://127.0.0.1" in said("view", "--port", served[1], "--no-open", "--duration", "1")


def test_a_bare_servo_is_pointed_to_its_rig_only_where_it_may_be_one(served, said, capsys):
    words = ["record", "fall", "--rig", "bench_arm", "--backend", "real", "--port"]
    assert said(*words, "/dev/unheard_of", code=HARDWARE).count("bare_horn") == 1
    run([*words, served[1], "--angle", "5", "--duration", "0.1"])
    assert "bare_horn" not in capsys.readouterr().err
