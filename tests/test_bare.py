"""The base without any extra: what it imports, what each verb does, and which command installs what is missing."""

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
said = []
for words in json.loads(sys.stdin.read()):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    said.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(said))
"""
DONE_OR_ASKED = {0, 1, 2, 3, 130}  # also findings, no key pressed, a servo that nobody moved, and no adapter
PENDULUM = "pendulum:mass=0.1,length=0.1"
# what is typed, and the extra that is asked for; "" where the base does it
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


def bare(code, given=""):
    done = subprocess.run([sys.executable, "-c", BARE + code], input=given, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_the_base_is_small_and_every_extra_that_is_asked_for_is_one_of_the_project():
    extras = PROJECT["optional-dependencies"]
    assert len(PROJECT["dependencies"]) <= 10
    assert set(errors._EXTRAS.values()) == set(extras) - {"all"}
    assert extras["all"] == [f"axbridge[{','.join(sorted(set(extras) - {'all'}))}]"]
    assert errors.install("scipy", "cma", "mujoco") == 'python -m pip install "axbridge[fit,sim]"'


def test_only_engines_and_environments_need_an_extra_to_be_imported():
    refused = bare(IMPORTS)
    assert set(refused) == {
        "sim.engines.bullet.engine",
        "sim.engines.mujoco.engine",
        "sim.engines.mujoco.model",
        "learn.servo_env",
    }
    assert refused["learn.servo_env"] == f"an environment needs gymnasium: {errors.install('gymnasium')}"


@pytest.mark.ci
def test_in_the_base_each_verb_works_or_says_in_one_line_which_command_installs_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    (tmp_path / "idle.py").write_text("")
    assert {typed.split()[0] for typed, _ in VERBS} == set(PANELS)
    with serving("bench_arm") as port:
        said = bare(WALK, json.dumps([typed.replace("PORT", port).split() for typed, _ in VERBS]))
    for (typed, extra), (code, out, err) in zip(VERBS, said, strict=True):
        refused = [line for line in err.splitlines() if " needs " in line]
        if not extra:
            assert (refused, code in DONE_OR_ASKED) == ([], True), f"{typed}: {code} {err}"
        elif typed == "warmup":  # nothing to do is no mistake
            assert f'pip install "axbridge[{extra}]"' in out
        else:
            assert code == 2, f"{typed}: {code} {err}"
            assert len(err.splitlines()) == 1, err
            assert err.endswith(f': python -m pip install "axbridge[{extra}]"\n'), f"{typed}: {err}"
