"""The `axbridge` program: runs a verb, and turns its errors into two lines and an exit code."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from itertools import pairwise
from json import dumps, loads
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from axbridge import __version__
from axbridge.cli import help as listed
from axbridge.cli.exit import INTERRUPTED, Stopped, terminable
from axbridge.cli.help import PANELS, Verbs
from axbridge.errors import AxBridgeError, BusError
from axbridge.file_reading import misfit_in_words, printable

DONE, FAILED_CHECK, MISUSE, HARDWARE = 0, 1, 2, 3  # exit codes
QUIET = ContextVar("QUIET", default=False)  # whether a verb prints JSON, and shows no progress
_LONGEST_LINE = 2000  # characters of an error

_HARMLESS = {  # verbs that move no motor
    "compare", "conformance", "convert", "doctor", "export", "identify", "import", "info", "list", "monitor", "move",
    "plot", "ports", "profile", "rig", "scan", "sweep", "warmup",
}  # fmt: skip
_HINTS = {  # words that users type instead of the right verb
    "id": "servo set-id 1 7",
    "set-id": "servo set-id 1 7",
    "set-baud": "servo set-baud 1 500000",
    "goto": "servo goto 1 30",
    "torque": "servo torque 1 off` or `axbridge off",
    "read": "servo read 1 present_position",
    "write": "servo write 1 led 1",
    "simulate": "compare REAL.mcap --rig RIG",
    "replay": "view FILE.mcap` or `axbridge record replay --source FILE.mcap --rig RIG",
    "bench": "doctor",
    "version": "--version",
}
_OF_A_LINE = {"doctor", "scan", "servo"}  # verbs that take a port and a rate
_UNTOUCHED = "no motor was moved, and files are whole or not there"
_LEFT = {
    "off": "a motor may still have power: type it again, or cut the supply",
    "servo": "a write under way may have reached the servo; see `axbridge servo info ID`",
}
_AS_THE_RIG_SAYS = "motors were left as the rig's [safety] says (by default off); what was recorded can be read"

app = typer.Typer(
    name="axbridge",
    cls=Verbs,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Control, simulate and compare Dynamixel and Feetech servos: one program, on a real bus or simulated.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"axbridge {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Declare the options before the verb; `run` reads --debug itself, at any place."""


def group(name: str, about: str | None) -> typer.Typer:
    """Return a new group of verbs, such as `servo`."""
    verbs = typer.Typer(name=name, cls=Verbs, no_args_is_help=True, help=about)
    app.add_typer(verbs, name=name)
    return verbs


def emit_json(form: str, document: Mapping[str, Any]) -> None:
    """Print one JSON document on stdout; NaN and infinity become null, because JSON has neither."""
    finite = loads(dumps(document, default=dict), parse_constant=lambda _: None)
    print(dumps({"format": f"axbridge-{form}", **finite}, indent=2))


def note(*texts: object, kind: str = "note") -> None:
    """Print notes on stderr, one line each; stdout carries only the result."""
    for text in texts:
        print(printable(f"{kind}: {text}"), file=sys.stderr)


def run(arguments: list[str]) -> int:
    """Run the program; return its exit code: 0 done, 1 a check failed, 2 wrong use or bad input, 3 hardware or bus."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    load_typed(arguments)
    signals: list[int] = []
    try:
        with terminable() as signals:
            code = app(args=arguments, prog_name="axbridge", standalone_mode=False)
    except typer.Exit as leave:
        return int(leave.exit_code)
    except typer.TyperException as misuse:
        if not misuse.format_message():  # no verb was typed: typer has printed the help
            return MISUSE
        context = getattr(misuse, "ctx", None)
        typed = "axbridge" if context is None else context.command_path
        return _complain(f"{_in_our_words(misuse)}\nsee `{typed} --help`", MISUSE)
    except Stopped as end:
        return int(end.args[0])
    except KeyboardInterrupt:
        return _stopped(arguments, signals)
    except typer.Abort:  # the user answered no
        return _complain("nothing was changed", 128 + signals[0] if signals else INTERRUPTED)
    except (BrokenPipeError, SystemExit) as end:
        if not any(isinstance(error, BrokenPipeError) for error in (end, end.__context__)):
            raise  # typer turns a BrokenPipeError into SystemExit
        return unread()
    except (AxBridgeError, MemoryError, OSError) as error:
        if debug:
            raise
        code = HARDWARE if isinstance(error, BusError) else MISUSE
        return _complain(_message(error, arguments), 128 + signals[0] if signals else code)  # the terminal was closed
    if code == INTERRUPTED:  # typer returns it after Ctrl-C
        return _stopped(arguments, signals)
    return code if isinstance(code, int) else DONE


def _message(error: AxBridgeError | MemoryError | OSError, arguments: list[str]) -> str:
    """Return cause and next step; a command for the typed line gets its port and rate."""
    if isinstance(error, AxBridgeError):
        remedy = error.remedy
        if remedy is not None and remedy.verb.split()[0] in _OF_A_LINE and not remedy.options:
            words = [word for typed in arguments for word in (typed.split("=", 1) if typed[:2] == "--" else [typed])]
            line = {option[2:]: value for option, value in pairwise(words) if option in {"--port", "--baud"}}
            error.hint = remedy.within(remedy.says, **line)
        return str(error)
    if isinstance(error, MemoryError):
        return f"no memory left: {error}\nraise the limit of this process, or close other programs"
    why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or error
    return f"{why}\ncheck the path, its permissions and the free space"


def load_typed(arguments: list[str]) -> None:
    """Import the file of the typed verb, or of the verb that a shell completes."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")  # set by bash; by other shells
    words = [word for word in arguments or line.split()[1:] if word[:1] != "-"]
    if words and words[0] in PANELS:
        listed.load(listed.file_of(words[0]))


def _stopped(arguments: list[str], signals: list[int]) -> int:
    verb = arguments[0] if arguments else ""
    left = _UNTOUCHED if verb in _HARMLESS else _LEFT.get(verb, _AS_THE_RIG_SAYS)
    _print_error(("\n" if sys.stderr.isatty() else "") + f"stopped: {left}")
    return 128 + signals[0] if signals else INTERRUPTED


def _in_our_words(misuse: typer.TyperException) -> str:
    """Return typer's message on wrong use, worded like our own errors."""
    from pydantic import ValidationError  # typer has imported it by now

    text = misuse.format_message()
    param: Any = getattr(misuse, "param", None)
    name = "" if param is None else param.metavar or param.name
    if param is not None and param.param_type_name == "option":
        name = max(param.opts, key=len)
    if isinstance(match := misuse.__cause__, ValidationError):
        error = match.errors()[0]
        meant = " (a bus id; `axbridge scan` lists them)" if name == "ID" else ""
        return f"{name} {misfit_in_words(error)}, not {str(error['input'])!r}{meant}"
    if text.startswith("Missing ") and param is not None:
        return f"{name} is missing: {str(param.help).rstrip('.')}"
    if option := getattr(misuse, "option_name", ""):
        if "requires" in text:
            return f"{option} needs a value"
        if "does not take" in text:
            return f"{option} takes no value"
        close = difflib.get_close_matches(option, getattr(misuse, "possibilities", None) or (), n=1)
        return f"no such option: {option}" + (f"; did you mean {close[0]}?" if close else "")
    if extra := re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", text):
        return _too_many(extra[1].split(), getattr(misuse, "ctx", None))
    typed = re.match(r"No such command '(.*?)'", text)
    if typed and typed[1] in _HINTS:
        return f"no such verb: {typed[1]!r}; try `axbridge {_HINTS[typed[1]]}`"
    guess = re.fullmatch(r"No such command ('.*')\. Did you mean (.*)\?", text)
    if guess:
        return f"no such verb: {guess[1]}; did you mean {' or '.join(guess[2].split(', '))}?"
    return text


def _too_many(words: list[str], context: Any) -> str:
    text = f"{'one word' if len(words) == 1 else f'{len(words)} words'} too many: {' '.join(words)}"
    takes_port = context is not None and any(param.name == "port" for param in context.command.params)
    if takes_port and re.match(r"/|COM\d+$|\w+://", words[0]) and not Path(words[0]).is_file():
        text += f"; did you mean --port {words[0]}?"
    return text


def unread() -> int:
    """Discard further output when its reader has closed the pipe, as `head` does; return the exit code 0."""
    _discard(sys.stdout)
    return DONE


def _discard(stream: TextIO) -> None:
    """Discard the output to a stream that cannot be written: else Python ends with the exit code 120."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _print_error(text: str) -> None:
    """Print on stderr, unless it cannot be written, as on a full disk or a closed terminal: the exit code stays."""
    try:
        print(text, file=sys.stderr)
    except OSError:
        _discard(sys.stderr)


def _complain(text: str, code: int) -> int:
    lines = printable(text, lines=True).splitlines()  # a message may quote control characters of a file
    shown = "\n".join(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in lines)
    _print_error(f"axbridge: {shown}")
    return code
