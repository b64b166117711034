"""The package as a whole: its exports, the cost of its import, and the order of its imports."""

import ast
import doctest
import inspect
import pickle
import subprocess
import sys
from collections import defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge import errors
from axbridge.cli import app
from axbridge.comparison.comparison import compare
from axbridge.motion.moves import Key, Page
from axbridge.recording.recording import Recording, Track
from tools import import_graph
from tools.import_graph import SOURCE, circle, modules, room_of, rooms

graph = cache(import_graph.graph)  # it reads every file

# In import order: a room imports only rooms before it. The modules that all rooms use are the room "base".
ROOMS = [
    *(
        "base",
        "config",
        "servo",
        "bus",
        "recording",
        "sim",
        "virtual",
        "robot",
        "bridge",
        "motion",
        "comparison",
        "fit",
    ),
    *("webots", "view", "export", "learn", "testing", "cli", "__main__"),
]
MOST_ARGUMENTS = 10  # positional arguments of a function


@cache
def definitions():
    """Return every class and function, with its file, its name, and the positional arguments of a function."""
    cycles = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                given = None if isinstance(node, ast.ClassDef) else (*node.args.posonlyargs, *node.args.args)
                names = None if given is None else [argument.arg for argument in given]
                cycles.append((path.relative_to(SOURCE).as_posix(), node.name, names))
    return cycles


def test_rooms_import_only_rooms_before_them():
    rank = {room: place for place, room in enumerate(ROOMS)}
    wrong = [
        f"{name} -> {target}"
        for name, targets in graph().items()
        for target in targets
        if rank[room_of(target)] > rank[room_of(name)]
    ]
    assert wrong == []
    assert "bus" not in rooms(graph())["sim"]  # a real bus and the simulation meet in the virtual room


def test_no_file_imports_itself_by_way_of_others():
    assert circle({"a": {"b"}, "b": {"a", "c"}, "c": set()}) == ["a", "b"]
    assert circle(graph()) == []


def test_only_the_lazy_names_and_the_folder_of_verbs_have_hidden_imports():
    assert import_graph.hidden_imports() == {"axbridge", "cli"}


def test_an_import_by_a_string_or_by_a_public_name_is_an_import(tmp_path):
    for name, text in {
        "__init__": '_HOMES = {"view.page": ("look",)}\n',
        "low": '"""Not this: `axbridge.high`."""\nimport_module("axbridge.view.page")\n',
        "script": 'CODE = "from axbridge.cli import main\\nmain()"\n',
        "made": 'import_module(f"axbridge.view.{name}")\n',
        "asking": "import axbridge\naxbridge.look(1)\n",
        "naming": "from axbridge import look\n",
        **dict.fromkeys(("high", "view/__init__", "view/page", "cli/__init__"), ""),
    }.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    targets_of = import_graph.graph(tmp_path)
    assert (targets_of["script"], targets_of["made"]) == ({"cli"}, {"view"})
    assert targets_of["low"] == targets_of["asking"] == targets_of["naming"] == {"view.page"}
    assert import_graph.hidden_imports(tmp_path) == {"low", "made"}


def test_every_public_name_exists_is_sorted_and_is_no_room():
    assert axbridge.__all__ == sorted(set(axbridge.__all__)) == sorted(axbridge._HOME)
    assert all(getattr(axbridge, name) is not None for name in axbridge.__all__)
    assert not set(ROOMS) & set(axbridge.__all__)


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type(errors.AxBridgeError))]
)
def test_errors_keep_their_attributes_when_they_come_from_a_worker_process(kind):
    facts = {"id": 3, "data": b"\xff", "flags": 0x24, "time": 0.5, "hardware": errors.HardwareError(1)}
    error = kind(**{name: facts.get(name, name) for name in list(inspect.signature(kind.__init__).parameters)[1:]})
    error.hint = error.remedy = errors.Remedy("servo read", 3, "led", says="see {}", port="COM3")
    assert error.remedy == "see `axbridge servo read 3 led --port COM3`"
    unpickled = pickle.loads(pickle.dumps(error))
    again = unpickled.remedy
    assert (again.verb, again.words, again.options) == ("servo read", (3, "led"), {"port": "COM3"})
    for copy in (unpickled, kind(unpickled)):  # gymnasium's AsyncVectorEnv raises the second form
        assert (type(copy), str(copy), vars(copy)) == (kind, str(error), vars(error))


def test_a_path_with_a_space_is_one_word_of_the_command_that_a_hint_names():
    typed = errors.Remedy("compare", "out/two steps.mcap", rig="my arms/arm.toml", model="ax12", json=True)
    assert typed == 'axbridge compare "out/two steps.mcap" --rig "my arms/arm.toml" --model ax12 --json'
    assert errors.Remedy("import", "it's|1*.csv", column=["a=b c", "d=e"]) == (
        """axbridge import "it's|1*.csv" --column "a=b c" --column d=e"""
    )
    again = pickle.loads(pickle.dumps(typed)).within("then {}", port="my link")
    assert again == f'then `{typed} --port "my link"`'


def test_importing_axbridge_loads_nothing_heavy():
    heavy = "{'pybullet', 'numba', 'scipy', 'matplotlib', 'dynamixel_sdk', 'pydantic'}"
    code = f"import sys, axbridge; print(sorted({heavy} & set(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


def test_the_program_prints_its_version_and_refuses_a_backend_before_it_starts_a_script(tmp_path, capsys):
    assert app.run(["--version"]) == app.DONE
    assert capsys.readouterr().out == f"axbridge {axbridge.__version__}\n"
    script = tmp_path / "idle.py"
    script.write_text("print('started')\n")
    assert app.run(["run", str(script), "--rig", "bench_arm", "--backend", "simm"]) == app.MISUSE
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (
        "",
        "axbridge: no backend 'simm'\ndid you mean 'sim'? known backends: real, sim, twin\n",
    )


def test_no_other_class_has_the_name_of_a_public_one():
    """Classes of `webots` have the names of Webots' API, so they are excepted."""
    homes = defaultdict(set)
    for path, name, names in definitions():
        if names is None and name in axbridge.__all__ and not path.startswith("webots/"):
            homes[name].add(path)
    assert len(homes) > 20
    assert {name: sorted(files) for name, files in homes.items() if len(files) > 1} == {}


def test_no_function_has_more_than_ten_positional_arguments():
    functions = [(path, name, names) for path, name, names in definitions() if names is not None]
    assert len(functions) > 1000
    for path, name, names in functions:
        assert len(names) - (names[:1] in (["self"], ["cls"])) <= MOST_ARGUMENTS, f"{path}: {name}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name, path in modules().items() if ">>>" in path.read_text("utf-8")))
def test_the_examples_of_a_module_give_the_shown_results(name):
    result = doctest.testmod(import_module(f"axbridge.{name}".rstrip(".")), verbose=False)
    assert result.attempted > 0
    assert result.failed == 0


def recording(offset):
    time = np.arange(100) * 0.02
    track = Track.of("knee", time, position=np.sin(time) + offset, command=np.sin(time))
    return Recording(Path("somewhere/step.mcap"), {"knee": track}, complete=False)


def test_the_repr_of_a_rig_a_recording_and_a_comparison_describes_it_in_one_line():
    rig = axbridge.Rig.load("pan_tilt")
    assert repr(rig) == str(rig) == f"<Rig 'pan_tilt': 2 servos, from {rig.path}>"
    assert repr(recording(0.0)) == "<Recording 'step.mcap' of knee, cut off>"
    assert repr(recording(0.0)["knee"]) == "<Track 'knee': 100 samples, 0.00 to 1.98 s>"
    comparison = compare(recording(0.0), recording(0.01), labels=("arm", "model"))
    assert repr(comparison) == "<Comparison of arm with model, rms error: knee 0.57°>"
    assert repr(comparison.pairs[0]).startswith("<Pair 'knee': ")
    move = axbridge.Move(pages={"1": Page(keys=(Key(positions={"knee": 1.0}, time=1.5),))})
    assert repr(move) == "<Move of 1 page, from '1': 1.50 s>"
