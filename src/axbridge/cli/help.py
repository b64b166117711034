"""The verbs in the order in which a new user needs them, and the form of their help."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer.core

VERBS = {
    "The first day": (
        "demo", "list", "ports", "scan", "off", "doctor", "servo", "view", "record", "compare", "identify", "walk",
        "serve", "bridge",
    ),
    "More": (
        "rig", "profile", "monitor", "verify", "calibrate", "run", "teach", "play", "move", "info", "plot", "convert",
        "import", "export", "sweep", "conformance", "warmup",
    ),
}  # fmt: skip
PANELS = {verb: panel for panel, verbs in VERBS.items() for verb in verbs}

load: Callable[[str], object]  # imports a verb's file; set by `axbridge.cli`


class Verbs(typer.core.TyperGroup):
    """Verbs in panels, with examples: the epilog of a command has the arguments of its example."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        inside = "" if self.name == "axbridge" else f"{self.name} "
        if not inside:  # the list shows verbs whose files are not imported
            self.commands = {name: self.commands.get(name) or typer.core.TyperCommand(name) for name in PANELS}
        for name, command in self.commands.items():
            command.help = _flowing(command.help)
            for option in command.params:
                if option.name == "rig" and option.param_type_name == "option":
                    positional = any("RIG" in (argument.metavar or "") for argument in _arguments(command))
                    free = "The word --rig may be left out."
                    option.help += f" {free if positional or _may_omit(command) else 'Write --rig NAME.'}"  # type: ignore[attr-defined]
            if command.epilog is not None:
                command.epilog = f"Example: axbridge {inside}{name} {command.epilog}".rstrip()
            if not inside:
                command.rich_help_panel = PANELS[name]  # type: ignore[attr-defined]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a verb and its arguments; a rig may be given with or without --rig."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else _with_rig(command, rest)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb; its flags show no type in the help."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _without_types(command.get_params(ctx))
            if self.name == "axbridge":  # python -OO drops the docstrings
                command.help = command.help or _flowing(_summary(cmd_name))
        return command

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the group's own options."""
        return _without_types(super().get_params(ctx))


def file_of(verb: str) -> str:
    """Return the module name of a verb; keywords and builtins get an underscore."""
    return verb + "_" * (verb in {"import", "list"})


def _summary(verb: str) -> str:
    """Return the docstring of a verb that is not imported: of its function, or of the file for a group."""
    file = ast.parse(Path(__file__).with_name(f"{file_of(verb)}.py").read_text(encoding="utf-8"))
    functions = (node for node in file.body if isinstance(node, ast.FunctionDef) and node.name == file_of(verb))
    return ast.get_docstring(next(functions, file)) or ""


def _arguments(command: Any) -> list[Any]:
    return [param for param in command.params if param.param_type_name == "argument"]


def _may_omit(command: Any) -> bool:
    """Return whether a word after all arguments of a verb can only be its rig."""
    own = command.context_settings.get("allow_extra_args")  # `run` passes extra words to its script
    return not own and all(argument.nargs == 1 and argument.required for argument in _arguments(command))


def _with_rig(command: Any, words: list[str]) -> list[str]:
    """Move the rig to the place that the verb declares: its first argument, or after --rig."""
    kinds = {param.name: param.param_type_name for param in command.params}
    at = next((place for place, word in enumerate(words) if word.partition("=")[0] == "--rig"), None)
    if kinds.get("rig") == "argument" and at is not None:
        _, joined, rig = words[at].partition("=")
        end = at + 1 if joined else at + 2
        return [*([rig] if joined else words[at + 1 : end]), *words[:at], *words[end:]]
    if kinds.get("rig") != "option" or at is not None or not _may_omit(command):
        return words
    options = [param for param in command.params if param.param_type_name == "option"]
    valued = {word for param in options if not param.is_flag for word in param.opts}
    places, value = [], False  # indices of words that are neither options nor their values
    for place, word in enumerate(words):
        if not value and (word[:1] != "-" or word[1:2].isdigit()):
            places.append(place)
        value = not value and word in valued
    if len(places) != len(_arguments(command)) + 1:
        return words
    return [*words[: places[-1]], "--rig", *words[places[-1] :]]


def _flowing(text: str | None) -> str | None:
    return text and "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _without_types(options: list[Any]) -> list[Any]:
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options
