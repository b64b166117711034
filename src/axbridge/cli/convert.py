"""`axbridge convert`: a recording as CSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from axbridge.cli.app import app
from axbridge.cli.options import ForceOption
from axbridge.cli.progress import progress
from axbridge.errors import UsageError


@app.command()
def convert(
    recording: Annotated[Path, typer.Argument(metavar="FILE.mcap", help="A recording.")],
    table: Annotated[Path, typer.Argument(metavar="FILE.csv", help="The table to write; .parquet for Parquet.")],
    *,
    force: ForceOption = False,
) -> None:
    """Write a recording as a table: one row a sample and servo, SI units, unknown values empty."""
    from axbridge.files import check_new
    from axbridge.record.csv_parquet import write_csv, write_parquet
    from axbridge.record.recording import open_recording

    if table.suffix not in {".parquet", ".csv", ""}:
        raise UsageError(f"{table}: no such kind of table", "name it .csv or .parquet")
    check_new(table, force=force, sources=(recording,))
    with progress("reading") as show:
        found = open_recording(recording)
        show("writing the table")
        if table.suffix == ".parquet":
            write_parquet(found, table)
        else:
            write_csv(found, table)
    if not found.complete:
        typer.echo(f"note: {recording} was cut off; everything up to the cut was converted", err=True)
