"""The form of a verb: its signature declares its options, and words that several verbs share are declared once."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_args

import typer
from typer.models import ParameterInfo

from axbridge.cli.app import DONE, QUIET, app, emit_json, note
from axbridge.errors import AxBridgeError, Remedy, UnknownServo, UsageError, nearest
from axbridge.files import check_new, named_mcap, open_stream

if TYPE_CHECKING:
    from axbridge.config.rig import Rig
    from axbridge.config.rig_tables import ServoConfig
    from axbridge.recording.recording import Recording

MEASURED = "ax12"  # the model identified from a real servo
WRITES = object()  # marks the parameter of a file to write
_READ = {"rig", "model", "source", "log"}  # parameters that may be names or files; `Path` parameters are files
Body = TypeVar("Body", bound=Callable[..., object])


class Result(NamedTuple):
    """What a verb prints: facts with --json, else lines; then its error is raised, or its exit code returned.

    `lines` may be a generator that writes files between its lines; it runs with --json, too.
    """

    facts: Mapping[str, Any]
    lines: Iterable[str] = ()
    code: int = DONE
    error: AxBridgeError | None = None
    form: str = ""  # of the JSON document; default: the verb's words and "-1"


def verb(example: str | None, name: str = "", of: typer.Typer = app, **settings: Any) -> Callable[[Body], Body]:
    """Register a function as a verb; `example`: the arguments of its example.

    A positional parameter is an argument, a keyword is an option, declared in `SHARED` or here: its `Annotated` may
    have its help (after the shared sentence), its metavar, and a mapping with more settings of typer.
    A dataclass stands for the options that are its fields. `WRITES` marks a file to write: the verb gets --force, and
    begins only if no such file exists or is also read. A verb that returns a `Result` gets --json, and then shows no
    progress, unless it has a parameter `json` of its own.
    """

    def register(body: Body) -> Body:
        own, params = signature(body, eval_str=True), dict[str, Parameter]()
        groups: dict[str, Any] = {
            place: param.annotation for place, param in own.parameters.items() if is_dataclass(param.annotation)
        }
        members = {place: signature(kind, eval_str=True).parameters for place, kind in groups.items()}
        for place, param in own.parameters.items():
            params |= members.get(place, {place: param})
        written = [place for place, param in params.items() if WRITES in get_args(param.annotation)]
        read = [
            place for place, param in params.items()
            if place not in written and (place in _READ or "Path" in str(param.annotation))
        ]  # fmt: skip
        is_result = own.return_annotation is Result
        prints = is_result and "json" not in params
        for added in [*["force"] * bool(written), *["json"] * prints]:
            params[added] = Parameter(added, Parameter.KEYWORD_ONLY, default=False, annotation=bool)

        def typed(**given: Any) -> object:
            if written:
                check_new(*_paths(given, written), force=given.pop("force"), sources=tuple(_paths(given, read)))
            json = given.pop("json", False) if prints else given.get("json", False)
            for place, parts in members.items():
                given[place] = groups[place](**{part: given.pop(part) for part in parts})
            to_stdout = 1 in map(open_stream, given.values())  # a file; words beside it, or beside JSON, go to stderr
            before = QUIET.set(json)
            try:
                with redirect_stdout(sys.stderr) if to_stdout or (json and is_result) else nullcontext():
                    result = body(**given)
                if not isinstance(result, Result):
                    return result
                if json:
                    emit_json(result.form or f"{form}-1", result.facts)
                for line in result.lines:  # may write files: a full disk must not lose the lines before
                    if not json:
                        print(line, file=sys.stderr if to_stdout else sys.stdout)
            finally:
                QUIET.reset(before)
            if result.error is not None:
                raise result.error
            return result.code

        word = name or body.__name__.replace("_", "-")
        form = word if of is app else f"{of.info.name}-{word}"
        takes = [_declared(param).replace(kind=Parameter.KEYWORD_ONLY) for param in params.values()]
        typed.__signature__ = Signature(takes)  # type: ignore[attr-defined]
        typed.__annotations__ = {param.name: param.annotation for param in takes}
        typed.__doc__ = body.__doc__
        of.command(word, epilog=example, **settings)(typed)
        return body

    return register


def _paths(given: Mapping[str, Any], names: Iterable[str]) -> list[Path | str | None]:
    """Return the given paths of these parameters; an option that is repeated has a list."""
    return [path for name in names for path in (given[name] if isinstance(given[name], list) else [given[name]])]


def _declared(param: Parameter) -> Parameter:
    """Return a parameter of a verb as typer takes it."""
    kind, *more = get_args(param.annotation) if hasattr(param.annotation, "__metadata__") else (param.annotation,)
    if kind is typer.Context or any(isinstance(part, ParameterInfo) for part in more):
        return param
    about, *metavar = [part for part in more if isinstance(part, str)] or [""]
    settings: dict[str, Any] = {"metavar": metavar[0]} if metavar else {}
    settings |= next((part for part in more if isinstance(part, Mapping)), {})
    word = f"--{param.name.rstrip('_').replace('_', '-')}"
    declared: Any
    if param.kind is param.POSITIONAL_OR_KEYWORD:
        declared = typer.Argument(help=about, **settings)
    elif known := next((known for known in SHARED if known.partition("/")[0] == word), ""):
        declared = shared(known, about, **settings)
    else:
        declared = typer.Option(word, help=about, **settings)
    return param.replace(annotation=Annotated[kind, declared])


def check_known(what: str, known: Collection[str], *names: str) -> None:
    """Refuse an unknown name, with the known ones in the hint."""
    for name in names:
        if name not in known:
            hint = f"{nearest(name, known)}known {what}s: {', '.join(known)}"
            raise UsageError(f"no {what} {name!r}", hint)


def one_of(what: str, *known: str) -> Callable[[str | None], str | None]:
    """Return an option's callback that refuses other values."""

    def check(name: str | None) -> str | None:
        check_known(what, known, *([] if name is None else [name]))
        return name

    return check


def check_needs(rig: str | None, **options: object) -> None:
    """Refuse options of a simulation without the rig that is simulated."""
    for name, value in options.items():
        if rig is None and value not in (None, []):
            raise UsageError(f"--{name} needs the rig that is simulated", "add --rig")


def names_rig(word: Path | None) -> bool:
    """Return whether a word in the place of a recording names a rig."""
    if word is None or (word.is_file() and word.suffix != ".toml"):
        return False
    return ":" in word.name or word.suffix in {"", ".toml"}


def opened(path: Path) -> Recording:
    """Open a recording; print a note if a part of its file cannot be read."""
    from axbridge.recording.stored import open_recording

    loaded = open_recording(path)
    note(*([f"{path} {loaded.flaw}"] if loaded and loaded.flaw else ()))
    return loaded


def separated(names: str) -> list[str]:
    """Split a list of names at its commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def ids_of(text: str) -> list[int]:
    """Parse ids separated by commas, with ranges such as 1-6."""
    ids: list[int] = []
    for part in separated(text):
        first, _, last = part.partition("-")
        last = last or first
        if not (re.fullmatch(r"\d{1,3}", first) and re.fullmatch(r"\d{1,3}", last) and int(first) <= int(last) <= 253):
            raise UsageError(f"--ids {text} is no list of ids", "write --ids 1-6 or 1,2,5; ids are 0..253")
        ids += range(int(first), int(last) + 1)
    return ids


def servo_of(rig: Rig, servo: str) -> ServoConfig:
    """Return the servo of a rig with this name or bus id."""
    matches = [s for s in rig.servos if s.name == servo] or [s for s in rig.servos if str(s.id) == servo]
    if not matches:
        servos = ", ".join(s.name if s.id is None else f"{s.name} ({s.id})" for s in rig.servos)
        raise UnknownServo(servo, f"rig {rig.name} has no servo {servo!r}", f"it has: {servos}")
    if len(matches) > 1:
        raise UsageError(f"{' and '.join(s.name for s in matches)} have id {servo}", "give a name")
    return matches[0]


def servos_of(rig: Rig, servos: str) -> list[str]:
    """Return the names of servos given by name or id, separated by commas; all servos if the text is empty."""
    chosen = {servo_of(rig, servo).name for servo in separated(servos)}
    return [servo.name for servo in rig.servos if not chosen or servo.name in chosen]


def fit_of(rig: Rig, servo: str, *recordings: Path, named: str = "") -> Remedy:
    """Return the command that fits a model to recordings of a servo; `named`: the user's name of the rig."""
    spec = rig.specs[servo]
    first = MEASURED if "cw_compliance_slope" in spec.profile.registers else spec.config.model
    return Remedy("identify", *recordings, rig=named or rig.path, servo=servo, model=first, out=f"{servo}.toml")


def seconds(text: str) -> float:
    """Parse a time such as 2m, 1.5s or 10ms; return s. A number without a unit is in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|min)?", text)
    if match is None:
        raise UsageError(f"{text!r} is no time", "write 10ms, 1.5s or 2m")
    return float(match[1]) * _UNITS[match[2] or "s"]


def lined_up(rows: Sequence[Sequence[str]], filled: Callable[[str, int], str] = str.ljust) -> list[str]:
    """Return table rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(filled, row, widths)).rstrip() for row in rows]


def _rigs(prefix: str) -> list[str]:
    from axbridge.config.rig import FOLDER
    from axbridge.config.toml_tables import shipped_names

    return [name for name in shipped_names(FOLDER) if name.startswith(prefix)]


_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0}
_A_RIG = "Name of a rig, or path of its file; also pendulum:mass=0.2,length=0.15."


def _typed(context: typer.Context, option: typer.CallbackParam, value: str | None) -> str | None:
    """Return a value from the command line only; the environment is read later, at a lower priority."""
    source = context.get_parameter_source(option.name or "")
    return value if source is not None and source.name == "COMMANDLINE" else None


def _backend(context: typer.Context, option: typer.CallbackParam, value: str | None) -> str | None:
    one_of("backend", "real", "sim", "twin")(value)
    return _typed(context, option, value)


# first sentence of an option's help, and its settings for typer; each verb gives `--out` its own metavar
SHARED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "--again": ("A repetition of the same motion, to show the smallest possible error.", {"metavar": "REC.mcap"}),
    "--backend": (
        "real, sim, or twin (real, and simulated beside it); default: real with --port, else sim.",
        # the callback refuses a wrong name at once: a script may open its robot late, or never
        {"envvar": "AXBRIDGE_BACKEND", "callback": _backend},
    ),
    "--baud": ("Bits per second.", {"metavar": "BAUD"}),
    "--calibration": ("A calibration file of LeRobot.", {"metavar": "FILE.json"}),
    "--duration": ("How long, s.", {}),
    "--ids": ("Ids of servos.", {"metavar": "IDS"}),
    "--link": ("Create a symbolic link to the port.", {}),
    "--tcp": ("Serve on HOST:PORT, for socket:// clients.", {}),
    "--timing": ("wire, or none: answer at once.", {"callback": one_of("timing", "wire", "none")}),
    "--profile": ("A servo's profile.", {"metavar": "NAME|FILE.toml"}),
    "--engine": (
        "Simulate with bullet, mujoco or none (joints on their own); default: the rig's, else what is installed.",
        {"callback": one_of("engine", "auto", "bullet", "mujoco", "none")},
    ),
    "--executor": ("A dask cluster; default: this machine's cores.", {"metavar": "dask://HOST:PORT"}),
    "--fail-if": ("Exit code 1 if this is true; repeat.", {"metavar": "METRIC>N"}),
    "--force": ("Replace files that are already there.", {}),
    "--joints": ("Only these joints, separated by commas; default: all.", {"metavar": "NAME,NAME"}),
    "--json": ("Print one JSON document on stdout, and nothing else.", {}),
    "--model": ("Servo model.", {"metavar": "NAME|FILE.toml"}),
    "--open/--no-open": ("Open the page in the browser.", {}),
    "--out": ("Where to write.", {}),
    "--period": ("Time of one cycle, s.", {}),
    "--port": (
        "Serial device or URL (socket://, rfc2217://); default: the rig's, or the only adapter plugged in.",
        {"envvar": "AXBRIDGE_PORT", "metavar": "PORT"},
    ),
    "--record": ("Record every sample.", {"metavar": "FILE.mcap", "callback": named_mcap}),
    "--rig": (_A_RIG, {"autocompletion": _rigs, "metavar": "RIG"}),
    "--seed": ("Seed of all random numbers.", {"min": 0}),
    "--servo": ("Which servo.", {"metavar": "ID|NAME"}),
    "--view": ("Show the robot live in the browser, see `axbridge view`.", {}),
}


def shared(word: str, more: str = "", *words: str, **settings: Any) -> Any:
    """Return an option of `SHARED`; `more` extends its help, `words` are further names for it."""
    first, usual = SHARED[word]
    return typer.Option(word, *words, help=f"{first} {more}".rstrip(), **{**usual, **settings})


MODELS = "`axbridge list models` names them. Default: the rig's"
ExplicitPort = Annotated[str | None, "It means --backend real.", {"callback": _typed}]
MoveArgument = Annotated[Path, "A .json, .mtn or .motion file; or sample:bow.", "MOVE"]
RecordingArgument = Annotated[Path, "A recording.", "FILE.mcap"]
RigArgument = Annotated[str, typer.Argument(metavar="RIG", help=_A_RIG, autocompletion=_rigs)]
RigOption = Annotated[str, shared("--rig", envvar="AXBRIDGE_RIG")]


@dataclass(frozen=True, kw_only=True)
class Where:
    """The options that choose a real or a simulated robot of a rig."""

    backend: str | None = None
    engine: str | None = None
    model: Annotated[str | None, f"{MODELS}.", {"envvar": "AXBRIDGE_MODEL", "callback": _typed}] = None
    port: ExplicitPort = None

    def rig(self, name: str) -> Rig:
        """Load a rig with the chosen engine and model."""
        from axbridge.config.rig import Rig

        return Rig.load(name).with_engine(self.engine).with_model(self.simulated_model)

    @property
    def simulated_model(self) -> str | None:
        """Model of a simulated robot: the option, else ``AXBRIDGE_MODEL``; `model` is the option alone."""
        return self.model or os.environ.get("AXBRIDGE_MODEL") or None

    @property
    def chosen(self) -> str:
        """The backend, by default that of the port or of the environment."""
        from axbridge.robot.open import chosen_backend

        return chosen_backend(self.backend, self.port)
