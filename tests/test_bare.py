"""axbridge without any extra: its imports, its verbs, and the commands that install missing packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from axbridge import errors
from axbridge.cli.help import PANELS
from axbridge.config.toml_tables import tomllib
from tests.support.warm import serving

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BARE = f"import sys\nsys.modules.update(dict.fromkeys({sorted(errors._EXTRAS)}))\n"  # as if they were not installed
IMPORTS = """
import importlib, json
from axbridge.errors import UnsupportedOperation
from tools.import_graph import modules
import axbridge
assert all(getattr(axbridge, name) is not None for name in axbridge.__all__)
refused = {}
for name in modules():
    try:
        importlib.import_module(f"axbridge.{name}".rstrip("."))
    except (ImportError, UnsupportedOperation) as failure:
        refused[name] = str(failure)
print(json.dumps(refused))
"""
WALK = """
import contextlib, io, json
from axbridge.cli.app import run
results = []
for words in json.loads(sys.stdin.read()):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    results.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(results))
"""
STATUSES_WITHOUT_EXTRA = {0, 1, 2, 3, 130}  # also findings, no key pressed, a servo that was not moved, no adapter
PENDULUM = "pendulum:mass=0.1,length=0.1"
# command, and the extra that it needs; "" = none
VERBS = [
    ("import sample:xl330 a.mcap", ""),
    ("info a.mcap", ""),
    ("convert a.mcap a.csv", ""),
    ("convert a.mcap a.parquet", "parquet"),
    ("convert a.mcap bag --ros2", "ros2"),
    ("compare a.mcap a.mcap", "fit"),
    ("compare a.mcap --rig xl330_pendulum --out a.png", "fit,plot"),
    ("plot a.mcap --out a.png", "plot"),
    ("identify a.mcap --rig xl330_pendulum --model xl330 --out m.toml", "fit"),
    ("demo --out demo", "fit,plot"),
    (f"record step --rig {PENDULUM} --duration 0.2 --out s.mcap", ""),
    ("record step --rig bench_arm --engine mujoco --out t.mcap", "sim"),
    ("record step --rig bench_arm --duration 0.1 --backend real --port PORT --out r.mcap", ""),
    ("scan --port PORT", ""),
    ("doctor --port PORT --json", ""),
    ("servo info 1 --port PORT", ""),
    ("off --port PORT", ""),
    ("monitor --port PORT --duration 0.2", ""),
    ("teach --rig bench_arm --port PORT --duration 0.2 --out m.json", ""),
    ("calibrate --rig bench_arm --port PORT", ""),
    ("verify --rig bench_arm --port PORT", ""),
    ("export bam ax12 --out bam.json", ""),
    ("export mujoco bench_arm --out arm.xml", "sim"),
    ("list rigs", ""),
    ("profile from-model idle.py", ""),
    ("conformance --rig bench_arm -- true {port}", ""),
    ("move info sample:bow", ""),
    ("move optimise sample:bow less.json --rig bioloid", "fit,sim"),
    ("play sample:bow --rig bioloid --engine mujoco", "sim"),
    ("ports", ""),
    ("rig check bench_arm", ""),
    ("run idle.py --rig bench_arm", ""),
    ("serve bench_arm --engine bullet", "sim"),
    ("sweep bench_arm --executor dask://127.0.0.1:1 --over friction=0.02,0.05", "dask"),
    ("view --rig bench_arm --no-open", "view"),
    ("bridge bench_arm --port /dev/unheard_of", ""),
    ("walk --rig bioloid", "fit,sim"),
    ("warmup", "fast"),
]


def in_the_base(code, stdin=""):
    finished = subprocess.run(
        [sys.executable, "-c", BARE + code], input=stdin, capture_output=True, text=True, check=True
    )
    return json.loads(finished.stdout.splitlines()[-1])


def test_a_client_of_a_busy_server_is_told_to_install_numba():
    code = f"{BARE}from axbridge.bus.port_name import SERVE_PATIENTLY\nprint(SERVE_PATIENTLY)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith('install numba (python -m pip install "axbridge[fast]"), close other programs, or serve')


def test_the_base_has_few_dependencies_and_errors_name_only_extras_of_the_project():
    extras = PROJECT["optional-dependencies"]
    assert len(PROJECT["dependencies"]) <= 10
    assert set(errors._EXTRAS.values()) == set(extras) - {"all"}
    assert extras["all"] == [f"axbridge[{','.join(sorted(set(extras) - {'all'}))}]"]
    assert errors.install("scipy", "cma", "mujoco") == 'python -m pip install "axbridge[fit,sim]"'


def test_only_engines_and_environments_need_an_extra_to_be_imported():
    refused = in_the_base(IMPORTS)
    assert set(refused) == {
        "sim.engines.bullet.engine",
        "sim.engines.mujoco.engine",
        "sim.engines.mujoco.model",
        "learn.servo_env",
    }
    assert refused["learn.servo_env"] == f"an environment needs gymnasium: {errors.install('gymnasium')}"


@pytest.mark.ci
def test_in_the_base_each_verb_works_or_names_in_one_line_the_command_that_installs_its_packages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    (tmp_path / "idle.py").write_text("")
    assert {command.split()[0] for command, _ in VERBS} == set(PANELS)
    with serving("bench_arm") as port:
        results = in_the_base(WALK, json.dumps([command.replace("PORT", port).split() for command, _ in VERBS]))
    for (command, extra), (code, out, err) in zip(VERBS, results, strict=True):
        refused = [line for line in err.splitlines() if " needs " in line]
        if not extra:
            assert (refused, code in STATUSES_WITHOUT_EXTRA) == ([], True), f"{command}: {code} {err}"
        elif command == "warmup":  # it has nothing to compile, which is no error
            assert f'pip install "axbridge[{extra}]"' in out
        else:
            assert code == 2, f"{command}: {code} {err}"
            assert len(err.splitlines()) == 1, err
            assert err.endswith(f': python -m pip install "axbridge[{extra}]"\n'), f"{command}: {err}"
