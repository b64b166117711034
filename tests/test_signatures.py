"""How many arguments a caller has to keep in order."""

import ast
from pathlib import Path

import axbridge

SOURCE = Path(axbridge.__file__).parent
MOST = 10


def positional(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
    """Arguments that may be given by position, the object itself and `*arguments` left out."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_no_function_has_more_positional_arguments_than_a_reader_can_keep_in_order():
    long, seen = [], 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                seen += 1
                if positional(node) > MOST:
                    name = getattr(node, "name", "lambda")
                    long.append(f"{path.relative_to(SOURCE)}: {name} has {positional(node)}")
    assert seen > 1000  # the whole package was looked at
    assert not long
