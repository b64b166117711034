"""The import graph of `src/axbridge` as text: rooms, arrows, circles.

A room is a folder below `axbridge`, or a file beside the folders; the files that all rest on (`BASE`) are one room. An
arrow is one room that imports another one, however often. A circle is files that import each other in turn.
`tests/test_package.py` holds rooms to their order.

Usage: `python tools/import_graph.py [--files]`; with `--files` every file's arrows, too.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import MappingProxyType

BASE = {
    *("errors", "units", "clock", "files", "file_reading", "arrays", "rotations"),
    *("minimum_jerk", "state", "jit", "pool"),
}
ON_DEMAND = {"robot.robot": "view.page"}  # a room above, for one method that says so: `Robot.view`
SOURCE = Path(__file__).resolve().parents[1] / "src" / "axbridge"


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module below `source` by its dotted name without ``axbridge.``; packages by their own name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: Collection[str], public: Mapping[str, str] = MappingProxyType({})) -> set[str]:
    """The modules of axbridge that a file imports: inside functions, too, by a name in a string, by a public name.

    Args:
        path: The file.
        known: All modules.
        public: Module of each lazy name of `axbridge`.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings import nothing
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "axbridge":
            base = (node.module or "").removeprefix("axbridge").lstrip(".")
            for alias in node.names:
                full = f"{base}.{alias.name}".lstrip(".")
                found.add(full if full in known else base or public.get(alias.name, ""))
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.removeprefix("axbridge.") for alias in node.names if alias.name.startswith("axbridge.")
            }
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "axbridge":
            found.add(public.get(node.attr, ""))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            found |= {_module(name, known) for name in _NAMED.findall(node.value)}
    return found & set(known)


_NAMED = re.compile(r"\baxbridge\.([\w.]+)")  # a module in a string


def _module(name: str, known: Collection[str]) -> str:
    """The module that a dotted name is, or is in: `cli.` is all of a room."""
    name = name.rstrip(".")
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def hidden_imports(source: Path = SOURCE) -> set[str]:
    """Files that import what they work out: where that leads, no reader of the file can say."""
    found = set()
    for name, path in modules(source).items():
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"import_module|__import__", text) else ():
            called = node.func if isinstance(node, ast.Call) else None
            if getattr(called, "attr", getattr(called, "id", "")) in {"import_module", "__import__"}:
                found.add(name or "axbridge")
    return found


def public_names(source: Path = SOURCE) -> dict[str, str]:
    """Module of each lazy name of `axbridge`."""
    for node in ast.parse((source / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOMES":
            return {name: home for home, names in ast.literal_eval(node.value).items() for name in names}
    return {}


def graph(source: Path = SOURCE) -> dict[str, set[str]]:
    """Module -> modules it imports. `axbridge` itself (the version, the public names) is left out: it is no room."""
    files, public = modules(source), public_names(source)
    return {
        name: imports(path, files, public) - {name, "", ON_DEMAND.get(name, "")} for name, path in files.items() if name
    }


def room_of(module: str) -> str:
    """The room of a module: its folder, or the file itself."""
    first = module.split(".", maxsplit=1)[0]
    return "base" if first in BASE else first


def rooms(arrows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same between rooms."""
    found: dict[str, set[str]] = {}
    for name, targets in arrows.items():
        room = room_of(name)
        found.setdefault(room, set()).update({room_of(target) for target in targets} - {room})
    return found


def circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """Nodes each of which leads to the next, and the last one to the first; none where there is no such circle."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return sorted(set(error.args[1]))
    return []


def report(*, files: bool = False) -> Iterator[str]:
    """The graph, line by line."""
    arrows = graph()
    between = rooms(arrows)
    for room in sorted(between):
        yield f"{room:10} -> {', '.join(sorted(between[room]))}"
    if files:
        for name, targets in arrows.items():
            yield f"{name} -> {', '.join(sorted(targets))}"
    yield f"{len(between)} rooms, {sum(map(len, between.values()))} arrows"
    for what, graph_of in (("rooms", between), ("files", arrows)):
        yield f"circle of {what}: {', '.join(circle(graph_of)) or 'none'}"


if __name__ == "__main__":
    print("\n".join(report(files="--files" in sys.argv[1:])))
