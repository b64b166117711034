"""The command line, one file a verb: its module registers it with `app.app` when it is imported, as `VERBS` says."""

from __future__ import annotations

import sys
from importlib import import_module

from axbridge.cli.help import VERBS
from axbridge.cli.streams import open_streams
from axbridge.memory import ask_before_imports, words


def main() -> None:
    """Entry point of the `axbridge` program."""
    open_streams()
    ask_before_imports()
    try:
        for verb in (verb for verbs in VERBS.values() for verb in verbs):
            import_module(f"axbridge.cli.{verb}{'_' * (verb in {'import', 'list'})}")
        from axbridge.cli.app import run
    except KeyboardInterrupt:  # a quick hand
        print("stopped: no motor was moved, and files are whole or not there", file=sys.stderr)
        sys.exit(130)
    except MemoryError as failure:
        print(f"axbridge: {words(failure)}", file=sys.stderr)
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))
