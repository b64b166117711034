"""TOML files into validated, frozen objects; every mistake is named with file, key and the fix.

`Table` is the base of all schemas: frozen, no unknown keys, finite numbers only. `load_table` reads one file with its
``base = "…"`` chain, `validate` checks a mapping against a schema. Shipped files are found in the wheel and in a
checkout (also when installed editable) by `shipped`.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from axbridge.errors import ProfileError, RigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Misfit", "Table", "find_toml", "load_table", "merged", "read_toml", "shipped", "shipped_names", "validate"]

FileError = type[ProfileError] | type[RigError]


def _frozen(value: Any) -> Any:
    """Lists as tuples, at every depth."""
    if isinstance(value, Mapping):
        return {key: _frozen(below) for key, below in value.items()}
    return tuple(_frozen(below) for below in value) if isinstance(value, list | tuple) else value


class Table(BaseModel):
    """Base of the schemas. Types are taken strictly, so that ``id = true`` is no number; TOML's arrays are tuples."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _take_arrays(cls, data: Any) -> Any:
        return _frozen(data)


class Misfit(ValueError):
    """Values that do not fit together, found by a schema's own check.

    Args:
        key: The one to change, below the table that is checked.
        message: What does not fit.
        hint: The fix.
    """

    def __init__(self, key: str, message: str, hint: str) -> None:
        self.key = key
        self.hint = hint
        super().__init__(message)


T = TypeVar("T", bound=Table)


def shipped(folder: str) -> Path:
    """The folder of shipped data: ``firmware_profiles`` or ``hil_rigs``."""
    package = Path(__file__).resolve().parents[1]
    in_wheel = package / "_data" / folder
    return in_wheel if in_wheel.is_dir() else package.parents[1] / folder


def shipped_names(folder: str) -> list[str]:
    """Names that can be loaded from a shipped folder: ``name.toml`` and ``name/name.toml``, sorted."""
    root = shipped(folder)
    found = [path.stem for path in root.glob("*.toml")]
    found += [path.parent.name for path in root.glob("*/*.toml") if path.stem == path.parent.name]
    return sorted(found)


def find_toml(name: str | Path, folder: str, error: FileError) -> Path:
    """The file meant by a path or by a name in a shipped folder.

    Raises:
        ProfileError, RigError: (`error`) there is none; the message lists the names there are.
    """
    given = Path(name)
    root = shipped(folder)
    candidates = [given] if given.suffix == ".toml" or given.is_file() else []
    if given.is_dir():
        candidates.append(given / f"{given.resolve().name}.toml")
    if given.parent == Path():
        candidates += [root / f"{given}.toml", root / given / f"{given}.toml"]
    for path in candidates:
        if path.is_file():
            return path
    known = shipped_names(folder)
    close = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise error(
        name, "", "no such file or name", f"{hint}known names: {', '.join(known)}; or give the path of a .toml file"
    )


def read_toml(path: Path, error: FileError) -> dict[str, Any]:
    """Parse one TOML file.

    Raises:
        ProfileError, RigError: (`error`) unreadable, or not TOML; the message has line and column.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Windows' editors put a mark in front
    except OSError as failure:
        raise error(path, "", failure.strerror or str(failure), "give a readable TOML file") from failure
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as failure:
        raise error(path, "", f"not valid TOML: {failure}", "correct the line named") from failure


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`, table by table; anything but a table replaces."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return result


def load_table(path: Path, folder: str, error: FileError, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read a TOML file and lay it over the chain named by its ``base`` key (a name in `folder` or a path beside it).

    Raises:
        ProfileError, RigError: (`error`) unreadable file, missing base, or a base that leads back to itself.
    """
    path = path.resolve()
    if path in seen:
        raise error(path, "base", "the chain of bases leads back to this file", "remove one `base` of the circle")
    table = read_toml(path, error)
    if "path" in table:  # a field of the objects, not of the files
        raise error(path, "path", "unknown key", "leave it out: the file knows where it is")
    base = table.pop("base", None)
    if base is None:
        return table
    if not isinstance(base, str):
        raise error(path, "base", f"must be a name, not {base!r}", 'write base = "ax-12a"')
    beside = path.parent / (base if base.endswith(".toml") else f"{base}.toml")
    below = beside if beside.is_file() else find_toml(base, folder, error)
    return merged(load_table(below, folder, error, (*seen, path)), table)


def validate(schema: type[T], table: Mapping[str, Any], path: Path, error: FileError, prefix: str = "") -> T:
    """Build a `schema` object from a TOML table.

    Raises:
        ProfileError, RigError: (`error`) the first mistake, with the key as written in the file and the fix.
    """
    try:
        return schema.model_validate(dict(table))
    except ValidationError as failure:
        first = failure.errors()[0]
        where = [str(part) for part in first["loc"]]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, Misfit):
            raise error(path, prefix + ".".join([*where, cause.key]), str(cause), cause.hint) from None
        if first["type"] == "missing" and isinstance(first["loc"][-1], int):
            where.pop()
        raise error(path, prefix + ".".join(where), *_explain(schema, first)) from None


def _explain(schema: type[Table], first: Any) -> tuple[str, str]:
    """Message and hint for one pydantic error."""
    if first["type"] == "extra_forbidden":
        known = _fields_at(schema, first["loc"][:-1])
        close = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
        return "unknown key", f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
    if first["type"] == "missing":
        last = first["loc"][-1]
        return ("too few values", f"give at least {last + 1}") if isinstance(last, int) else (
            "missing", f"add `{last} = …`"
        )  # fmt: skip
    if first["type"] == "tuple_type" and isinstance(first["input"], Mapping):
        return "one table where a list of them belongs", f"write [[{first['loc'][-1]}]], with two brackets"
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{message[0].lower()}{message[1:]}, not {first['input']!r}" if first[
        "type"
    ] != "value_error" else message, ""


def _fields_at(schema: type[Table], path: tuple[str | int, ...]) -> list[str]:
    """Field names of the (nested) schema at an error's location, as written in the file."""
    current: Any = schema
    for part in path:
        if isinstance(part, int):
            continue
        field = current.model_fields.get(part) or next(
            (f for f in current.model_fields.values() if f.alias == part), None
        )
        nested = [t for t in _types_in(field.annotation) if issubclass(t, Table)] if field else []
        if not nested:
            return []
        current = nested[0]
    return sorted(field.alias or name for name, field in current.model_fields.items() if name != "path")


def _types_in(annotation: Any) -> list[type]:
    parts = getattr(annotation, "__args__", ())  # asked first: Python 3.10 takes tuple[X, ...] for a type, too
    if parts:
        return [found for part in parts for found in _types_in(part)]
    return [annotation] if isinstance(annotation, type) else []
