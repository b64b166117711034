"""Convert TOML files to validated, frozen objects; errors name file, key and the fix."""

from __future__ import annotations

import difflib
import inspect
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from axbridge.errors import MoveError, ProfileError, RigError, nearest
from axbridge.file_reading import (
    check_format,
    controls,
    misfit_in_words,
    printable,
    reading,
    refuse_other_kind,
    regular,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


FileError = type[ProfileError] | type[RigError] | type[MoveError]

_OWN = ("path", "bases")
_CORRECT = "correct the file, or begin with a shipped one"
_LONGEST = 80  # characters shown of a wrong value
_FIRST = re.compile(r"^(?!(?:rad|m|kg|s|rpm)\b)[a-z]+(?=[ ,'-]|$)")  # a word that is no unit


def _frozen(value: Any) -> Any:
    """Return the value with lists as tuples, at every depth."""
    if isinstance(value, Mapping):
        return {key: _frozen(below) for key, below in value.items()}
    return tuple(_frozen(below) for below in value) if isinstance(value, list | tuple) else value


def _steers(value: Any) -> bool:
    """Return whether a string, an item of a list or a key of a table has terminal control characters."""
    if isinstance(value, str):
        return controls(value)
    return isinstance(value, Mapping | tuple) and any(isinstance(part, str) and controls(part) for part in value)


class TomlTable(BaseModel):
    """Base of the schemas. Types are strict, so that ``id = true`` is no number; TOML arrays become tuples.

    Control characters are refused in every text, because names are printed.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _accept_arrays(cls, data: Any) -> Any:
        table = _frozen(data)
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key, value in table.items() if isinstance(table, dict) else ():
            if _steers(key) or _steers(value):
                raise Misfit(printable(key), "has control characters", "write plain text")
            if key not in known:
                close = difflib.get_close_matches(str(key), known, n=1)
                listed = ", ".join(sorted(name for name in known if name not in _OWN))
                raise Misfit(key, "unknown key", f"did you mean {close[0]!r}?" if close else f"known keys: {listed}")
        return table


class Misfit(ValueError):
    """A mistake found by a schema's own check; `key` is relative to the checked table."""

    def __init__(self, key: str, message: str, hint: str) -> None:
        self.key = key
        self.hint = hint
        super().__init__(message)


T = TypeVar("T", bound=TomlTable)


def described(table: type[TomlTable]) -> dict[str, str]:
    """Return the comment behind or above each field as a sentence, for the pages and the schema."""
    texts, above = {}, ""
    for line in inspect.getsource(table).splitlines():
        code, _, said = line.partition("  # ")
        if line.startswith("    # "):
            above += f" {line[6:]}"
        elif field := re.match(r"    (\w+): ", code):
            words = (above or said).strip()
            texts[field[1]] = f"{_FIRST.sub(lambda word: word[0].capitalize(), words)}." if words else ""
            above = ""
    return {name: text for name, text in texts.items() if name in table.model_fields}


def shipped(folder: str) -> Path:
    """Return a folder of shipped data (``firmware_profiles``, ``hil_rigs``, …), in the wheel or in a checkout."""
    package = Path(__file__).resolve().parents[1]
    in_wheel = package / "_data" / folder
    return in_wheel if in_wheel.is_dir() else package.parents[1] / folder


def own_folders(folder: str) -> list[Path]:
    """Return the user's profile folders (``./profiles`` and those of ``AXBRIDGE_PROFILES``), or a subfolder of each."""
    first, _, below = folder.partition("/")
    if first != "firmware_profiles":
        return []
    places = ["profiles", *os.environ.get("AXBRIDGE_PROFILES", "").split(os.pathsep)]
    return [Path(place) / below for place in places if place]


def shipped_names(folder: str) -> list[str]:
    """Return the names in a shipped folder, from ``name.toml`` and ``name/name.toml``, sorted."""
    return _names_in(shipped(folder))


def own_names(folder: str) -> list[str]:
    """Return the names in the user's own folders, sorted."""
    return sorted({name for root in own_folders(folder) for name in _names_in(root)})


def _names_in(root: Path) -> list[str]:
    names = [path.stem for path in root.glob("*.toml")]
    names += [path.parent.name for path in root.glob("*/*.toml") if path.stem == path.parent.name]
    return sorted(names)


def find_toml(name: str | Path, folder: str, error: FileError) -> Path:
    """Return the file for a path, or for a name in the shipped folder or the user's own folders."""
    given = Path(name)
    with reading(partial(error, name, ""), "give a name, or the path of a .toml file"):
        places = [given] if given.suffix == ".toml" or given.is_file() else []
        if given.is_dir():
            places.append(given / f"{given.resolve().name}.toml")
        if given.parent == Path():
            places += _places(str(given), folder)
        if path := next(filter(Path.is_file, places), None):
            return path
    problem = f"this folder has no {given.resolve().name}.toml" if given.is_dir() else "no such file or name"
    raise error(name, "", problem, _known(str(name), folder))


def _places(name: str, folder: str) -> list[Path]:
    """Return the candidate files of a name: in the shipped folder, then in the user's own folders."""
    roots = (shipped(folder), *own_folders(folder))
    return [root / place for root in roots for place in (f"{name}.toml", f"{name}/{name}.toml")]


def _known(name: str, folder: str) -> str:
    known, here = [*shipped_names(folder), *own_names(folder)], [path.name for path in Path().glob("*.toml")]
    here += [path.parent.name for path in Path().glob("*/*.toml") if path.stem == path.parent.name]
    return f"{nearest(name, [*known, *here])}known names: {', '.join(known)}; or give the path of a .toml file"


def read_toml(path: Path, error: FileError) -> dict[str, Any]:
    """Parse one TOML file."""
    with reading(partial(error, path, ""), _CORRECT):
        refuse_other_kind(path, partial(error, path, ""))
        return parse_toml(regular(path).read_text(encoding="utf-8-sig"), path, error)  # accepts a byte order mark


def parse_toml(text: str, path: Path, error: FileError) -> dict[str, Any]:
    """Parse the text of a TOML file."""
    with reading(partial(error, path, ""), _CORRECT):
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as failure:
            raise error(path, "", f"not valid TOML: {failure}", "correct the line named") from failure


def written(value: Any) -> str:
    """Return a number, string, boolean or table of them as TOML."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {written(item)}' for key, item in value.items())} }}"
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `over` into `base`, table by table; other values replace those of `base`."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return result


def load_chain(path: Path, folder: str, error: FileError) -> list[tuple[Path, dict[str, Any]]]:
    """Read a TOML file and the chain of its ``base`` files.

    A base is a file or folder beside the file that names it, else a name in `folder`; the working directory does not
    matter.
    """
    chain: list[tuple[Path, dict[str, Any]]] = []
    current: Path | None = path.resolve()
    while current is not None:
        if any(current == before for before, _ in chain):
            raise error(path, "base", "the chain of bases leads back to this file", "remove one `base` of the circle")
        table = read_toml(current, error)
        for key in _OWN:  # these fields are not allowed in files
            if key in table:
                raise error(current, key, "unknown key", "leave it out: the file knows where it is")
        check_format(table.pop("format", 1), partial(error, current, "format"))
        base = table.pop("base", None)
        if base is not None and not isinstance(base, str):
            raise error(current, "base", f"must be a name, not {base!r}", 'write base = "NAME", or the path of a .toml')
        chain.append((current, table))
        current = None if base is None else _find_base(base, current, folder, error)
    return chain


def _find_base(base: str, path: Path, folder: str, error: FileError) -> Path:
    """Return the file that `path` names as its base."""
    with reading(partial(error, path, "base"), 'write base = "NAME", or the path of a .toml'):
        given = path.parent / Path(base).expanduser()
        places = [given]
        if given.suffix != ".toml":
            beside = [given.with_name(f"{given.name}.toml"), given / f"{given.name}.toml"]
            places = [file for file in beside if file.resolve() != path]  # a copy may have its base's name
            places += _places(base, folder)
        if place := next(filter(Path.is_file, places), None):
            return place.resolve()
    raise error(path, "base", f"no {base!r} beside this file, and none of that name", _known(base, folder))


def load_table(path: Path, folder: str, error: FileError) -> dict[str, Any]:
    """Read a TOML file merged over the chain of its bases, table by table."""
    result: dict[str, Any] = {}
    for _, table in reversed(load_chain(path, folder, error)):
        result = merged(result, table)
    return result


def validate(schema: type[T], table: Mapping[str, Any], path: Path, error: FileError, hint: str = "") -> T:
    """Build a `schema` object from a TOML table."""
    with reading(partial(error, path, ""), _CORRECT):
        try:
            return schema.model_validate(dict(table))
        except ValidationError as failure:
            raise error.of(path, _mistakes(failure, table, path, error, hint)) from None


def _mistakes(
    failure: ValidationError, table: Mapping[str, Any], path: Path, error: FileError, hint: str
) -> list[ProfileError | RigError | MoveError]:
    """Return one error for each value that pydantic refuses; it lists a value of several types once for each type."""
    mistakes: dict[str, ProfileError | RigError | MoveError] = {}
    for fault in failure.errors():
        if fault["type"] == "too_short" and fault["input"]:
            continue  # a list with wrong entries; only an empty one is too short
        where, cause = list(fault["loc"]), fault.get("ctx", {}).get("error")
        if isinstance(cause, Misfit):
            where, why, correction = [*where, *cause.key.split(".")], str(cause), cause.hint
        else:
            why, correction = _explain(fault)
            correction = hint or correction
            if fault["type"] == "missing" and isinstance(where[-1], int):
                where.pop()
        key = _by_name(table, where)
        mistakes.setdefault(key, error(path, key, why, correction))
    return list(mistakes.values())


def _by_name(table: Any, where: Sequence[str | int]) -> str:
    """Return the key of a mistake with names: ``servo.left_knee.id``; ``servo.#2.id`` if the entry has no name."""
    parts = []
    below = table
    for part in where:
        if isinstance(below, list | tuple) and str(part).isdigit() and int(part) < len(below):
            below = below[int(part)]
            name = below.get("name") if isinstance(below, Mapping) else None
            parts.append(name if isinstance(name, str) and name else f"#{int(part) + 1}")
        elif below is None or isinstance(below, Mapping):  # else it is pydantic's name of one of several types
            below = below.get(part) if below else None
            parts.append(str(part))
    return ".".join(parts)


def _explain(first: Any) -> tuple[str, str]:
    """Return message and hint for a pydantic error."""
    if first["type"] == "missing":
        last = first["loc"][-1]
        if isinstance(last, int):
            return "too few values", f"give at least {last + 1}"
        return "missing", f"add `{last} = …`"
    if first["type"] == "tuple_type" and isinstance(first["input"], Mapping):
        return "one table where a list of them belongs", f"write [[{first['loc'][-1]}]], with two brackets"
    if first["type"] == "value_error":
        return str(first["msg"]).removeprefix("Value error, "), ""
    wrong = written(first["input"])
    wrong = wrong if len(wrong) <= _LONGEST else f"{wrong[:_LONGEST]}…"
    return f"{misfit_in_words(first)}, not {wrong}", ""
