"""Help in groups with examples that parse, shell completion, typing errors, Ctrl-C."""

import ast
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

import axbridge
from axbridge.cli import help as listed
from axbridge.cli.app import MISUSE, app, run
from axbridge.config.profile import FirmwareProfile, in_units
from tests.support.warm import serving, start

pytestmark = pytest.mark.slow

for verb in listed.PANELS:
    listed.load(listed.file_of(verb))


def verbs():
    """Return every verb with its command: `scan`, `servo info`, …"""
    for name, command in typer.main.get_command(app).commands.items():
        below = getattr(command, "commands", None)
        yield from ((f"{name} {sub}", verb) for sub, verb in below.items()) if below else [(name, command)]


@pytest.mark.parametrize(("name", "command"), [pytest.param(*verb, id=verb[0]) for verb in verbs()])
def test_the_example_of_a_verb_is_in_its_help_and_can_be_typed(name, command, said):
    shown = " ".join(said(*name.split(), "-h").split())
    assert command.epilog in shown
    assert "<bool>" not in shown  # an option without a value has no type
    words = shlex.split(command.epilog.removeprefix("Example: ").partition(" >")[0])
    assert words[: 1 + len(name.split())] == ["axbridge", *name.split()]
    command.make_context(name, words[1 + len(name.split()) :])  # raises where an option does not exist


SOURCES = {
    str(path.relative_to(Path(axbridge.__file__).parent)): list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    for path in sorted(Path(axbridge.__file__).parent.rglob("*.py"))
}


def test_each_command_that_a_hint_names_can_be_typed():
    commands = dict(verbs())
    for name, nodes in SOURCES.items():
        for call in nodes:
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "Remedy":
                continue
            verb, *words = call.args
            if ast.unparse(verb) == "self.verb":  # the same command in another sentence
                continue
            params = commands[ast.literal_eval(verb)].params
            options = {f"--{word.arg.replace('_', '-')}" for word in call.keywords if word.arg not in {None, "says"}}
            assert options <= {option for param in params for option in param.opts}, f"{name}:{call.lineno}"
            takes = [param.nargs for param in params if param.param_type_name == "argument"]
            assert -1 in takes or len(words) <= len(takes), f"{name}:{call.lineno}"


def test_only_the_verbs_themselves_spell_commands_and_each_verb_that_a_text_names_is_one():
    known = "|".join(sorted({name.split()[0] for name, _ in verbs()}, key=len, reverse=True))
    for name, nodes in SOURCES.items():
        texts = {id(node): node.value for node in nodes if isinstance(node, ast.Constant)}
        strings = [text for text in texts.values() if isinstance(text, str)]
        assert not [text for text in strings if re.search(rf"`axbridge (?!({known})\b)[a-z]", text)], name
        docs = {
            ast.get_docstring(node, clean=False)
            for node in nodes
            if hasattr(node, "body") and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        }
        spelled = [text for text in strings if text not in docs and re.search(rf"axbridge ({known}) [\w-]", text)]
        assert not spelled or name.startswith("cli/"), spelled


def test_help_is_wrapped_at_the_terminal_width(said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    paragraph = said("walk", "-h").partition("Its steps are planned")[2].partition("Options")[0]
    first, *_ = paragraph.splitlines()
    assert len("Its steps are planned" + first.rstrip()) > 85  # full, though the source ends it elsewhere


@pytest.mark.parametrize("group", ["", "servo", "rig", "move", "profile", "export"])
def test_a_group_without_its_verb_shows_its_help_and_no_empty_error(group, capsys):
    assert run(group.split()) == MISUSE
    shown = capsys.readouterr()
    assert f"Usage: axbridge {group}".strip() in shown.out + shown.err
    assert not [line for line in (shown.out + shown.err).splitlines() if line.startswith("axbridge:")]


def test_help_lists_the_verbs_in_groups_in_the_order_of_first_use(said):
    shown = said("-h")
    places = [shown.index(text) for text in ("The first day", "demo", "scan", "off", "identify", " More ", "verify")]
    assert places == sorted(places)
    assert "<bool>" not in shown


@pytest.mark.parametrize(
    ("shell", "typed", "expected"),
    [
        ("bash", "axbridge ser", ("serve", "servo")),
        ("bash", "axbridge record step --rig ben", ("bench_arm",)),
        ("zsh", "axbridge walk --feedb", ("--feedback",)),
    ],
)
def test_the_shell_completes_verbs_rigs_and_options(shell, typed, expected):
    program = [sys.executable, "-c", "from axbridge.cli import main; main()"]
    variables = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_TYPER_COMPLETE_ARGS": typed}
    env = {**os.environ, "_AXBRIDGE_COMPLETE": f"complete_{shell}", **variables}
    done = subprocess.run(program, env=env, capture_output=True, text=True, timeout=60)
    assert all(word in done.stdout for word in expected), done.stdout


def test_ctrl_c_prints_the_state_of_motors_and_files_in_a_line():
    ours, theirs = pty.openpty()
    with serving("bench_arm") as port, start("scan", "--port", port, "--baud", "all", stderr=theirs) as scan:
        os.close(theirs)
        heard_until(ours, "asking at 1000000 baud")
        scan.send_signal(signal.SIGINT)
        said = heard_until(ours, "not there")
        assert scan.wait(30) == 130
    os.close(ours)
    assert said.splitlines()[-1].endswith("stopped: no motor was moved, and files are whole or not there")
    assert said.count("stopped") == 1


def heard_until(terminal, words):
    said = ""
    while words not in said:
        said += os.read(terminal, 4096).decode()
    return said


def test_serve_prints_its_servos_on_a_terminal_and_only_ready_in_a_pipe(tmp_path):
    link = tmp_path / "head"
    command = ("serve", "pan_tilt", "--link", link, "--faults", "late=0.01:5ms")
    ours, theirs = pty.openpty()
    with start(*command, stdout=theirs) as server:
        os.close(theirs)
        said = heard_until(ours, "Ctrl-C")
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=20) == 0
    os.close(ours)
    assert said.startswith("ready: /dev/")
    for words in ("pan   id 1  ax-12a, model ax12", "faults: late=0.01:5ms", f"axbridge scan --port {link}"):
        assert words in said
    with start(*command) as server:
        first = server.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert first.startswith("ready: ")
        assert server.communicate(timeout=20)[0] == ""


AX, X = (FirmwareProfile.load(name) for name in ("ax-12a", "xl330-m288"))
JOINT, WHEEL = {"cw_angle_limit": 0, "ccw_angle_limit": 1023}, {"cw_angle_limit": 0, "ccw_angle_limit": 0}


@pytest.mark.parametrize(
    ("profile", "name", "value", "mode", "words"),
    [
        (AX, "present_position", 512, JOINT, "150.1°"),
        (AX, "present_speed", 1024 + 100, JOINT, "-11.1 rpm"),
        (AX, "moving_speed", 0, JOINT, "full speed"),
        (AX, "moving_speed", 1023, WHEEL, "100.0% duty"),
        (AX, "present_voltage", 111, JOINT, "11.1 V"),
        (AX, "return_delay_time", 250, JOINT, "500 µs"),
        (AX, "baud_rate", 1, JOINT, "1000000 baud"),
        (AX, "shutdown", 36, JOINT, "overheating, overload"),
        (AX, "torque_limit", 1023, JOINT, "100.0%"),
        (AX, "id", 3, JOINT, ""),
        (X, "present_position", -2048, {}, "-180.0°"),
        (X, "velocity_limit", 445, {}, "101.9 rpm"),
        (X, "present_current", -120, {}, "-120 mA"),
        (X, "bus_watchdog", 5, {}, "100 ms"),
        (X, "profile_velocity", 100, {"drive_mode": 4}, "100 ms"),
        (FirmwareProfile.load("xl430-w250"), "present_load", -500, {}, "-50.0%"),
    ],
)
def test_counts_are_printed_in_units(profile, name, value, mode, words):
    assert in_units(profile, name, {**mode, name: value}) == words


def test_servo_info_prints_units_beside_counts_and_a_mistyped_register_gets_a_proposal(said):
    with serving("bench_arm") as port:
        rows = said("servo", "info", "1", "--port", port).splitlines()[1:]
        assert "did you mean 'present_position'?" in said(
            "servo", "read", "1", "presnt_position", "--port", port, code=2
        )
    units = {row.split()[3]: row.split()[4:] for row in rows}
    assert units["baud_rate"] == ["1", "1000000", "baud"]
    assert units["max_voltage_limit"][1:] == ["14", "V"]


def test_a_dry_run_draws_the_experiment_and_opens_no_port(tmp_path, said):
    typed = ["record", "step", "--rig", "bench_arm", "--backend", "real", "--port", "/dev/none", "--dry-run"]
    typed += ["--angle", "45", "--out", "out/my.mcap"]
    assert "no servo moved" in said(*typed)
    assert (tmp_path / "out" / "my.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.rglob("*.mcap")] == []
    for more in ((), ("--force", "--angle", "500"), ("--force", "--json")):  # the picture is there
        said(*typed, *more, code=2)


def test_a_verb_that_is_not_imported_is_listed_with_the_help_that_it_has_when_it_is():
    for name, command in typer.main.get_command(app).commands.items():
        assert " ".join(listed._summary(name).split()) == " ".join(command.help.split())
    rig = typer.main.get_command(app).commands["rig"]
    rig.commands["show"].help = None  # as without docstrings (python -OO)
    assert rig.get_command(typer.Context(rig), "show").help is None
