"""The package as a whole: what it exports, what importing it costs, and which way its imports point."""

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import axbridge
from axbridge.cli import app
from axbridge.cli import run as run_verb  # noqa: F401 - registers it

SOURCE = Path(axbridge.__file__).parent

# Lower layers first. A module may import from its own layer and from those before it.
LAYERS = [
    ["errors", "clock", "units", "files"],
    ["wire", "tables", "state", "control"],
    ["profile", "parameters"],
    ["model"],
    ["rig"],
    ["plant"],
    ["firmware"],
    ["bus"],
    ["guard", "policies", "safety"],
    ["backends"],
    ["drives"],
    ["connection", "sensing"],
    ["servo"],
    ["robot"],
    ["opening", "serving"],
    ["motion", "webots", "testing"],
    ["mcap_format", "recorder", "recording", "provenance", "tabular", "importers", "metrics", "stamps", "wizard"],
    ["experiment_run", "experiments", "arm", "replay", "walking"],
    ["compare"],
    ["identify"],
    ["report", "report_html", "report_png", "report_identify", "report_identify_png"],
    ["cli", "__main__"],
]


def imported_modules(path: Path) -> set[str]:
    """First component below axbridge of everything a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("axbridge"):
            parts = node.module.split(".")
            found.update([parts[1]] if len(parts) > 1 else [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            found.update(a.name.split(".")[1] for a in node.names if a.name.startswith("axbridge."))
    return found


def test_imports_point_downward():
    rank = {module: level for level, modules in enumerate(LAYERS) for module in modules}
    wrong = []
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if place == "__init__":
            continue
        assert place in rank, f"{place} has no layer in this test"
        wrong += [f"{path.name} -> {name}" for name in imported_modules(path) if rank.get(name, -1) > rank[place]]
    assert wrong == []


def test_every_public_name_is_there_and_sorted():
    assert axbridge.__all__ == sorted(axbridge.__all__)
    for name in axbridge.__all__:
        assert getattr(axbridge, name) is not None
    assert set(axbridge.__all__) == set(axbridge._HOME)


@pytest.mark.parametrize(
    "error",
    [
        axbridge.BusTimeout(3),
        axbridge.CorruptPacket(3, b"\xff"),
        axbridge.ServoFault(3, 0x24),
        axbridge.PortError("/dev/ttyUSB0", "gone", "plug it in"),
        axbridge.RigError("arm.toml", "servo.0.id", "missing", "add it"),
        axbridge.UnknownServo("elbow", "no such servo"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_keep_their_facts_on_the_way_out_of_a_worker_process(error):
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_importing_axbridge_loads_nothing_heavy():
    heavy = "{'pybullet', 'numba', 'scipy', 'matplotlib', 'plotly', 'dynamixel_sdk', 'pydantic'}"
    code = f"import sys, axbridge; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_source_files_stay_readable_in_length():
    long = {p.name: n for p in SOURCE.rglob("*.py") if (n := len(p.read_text().splitlines())) > 400}
    assert long == {}


def test_the_program_tells_its_version_and_refuses_a_backend_before_it_starts_a_script(tmp_path, capsys):
    assert app.run(["--version"]) == app.DONE
    assert capsys.readouterr().out == f"axbridge {axbridge.__version__}\n"
    script = tmp_path / "idle.py"
    script.write_text("print('started')\n")
    assert app.run(["run", str(script), "--rig", "bench_arm", "--backend", "simm"]) == app.MISUSE
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "axbridge: no backend 'simm'\nknown backends: real, sim, twin\n")
