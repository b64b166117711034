"""The command line, one file a verb: a module here registers its verb with `app.app` when it is imported."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

from axbridge.cli.streams import open_streams
from axbridge.memory import ask_before_imports, words


def main() -> None:
    """Entry point of the `axbridge` program."""
    open_streams()
    ask_before_imports()
    try:
        for module in iter_modules(__path__):
            import_module(f"axbridge.cli.{module.name}")
        from axbridge.cli.app import run
    except KeyboardInterrupt:  # a quick hand
        print("stopped: no motor was moved, and files are whole or not there", file=sys.stderr)
        sys.exit(130)
    except MemoryError as failure:
        print(f"axbridge: {words(failure)}", file=sys.stderr)
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))
