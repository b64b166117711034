"""`axbridge convert`: a recording as CSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from axbridge.cli.app import app
from axbridge.cli.options import ForceOption
from axbridge.errors import UsageError


@app.command()
def convert(
    recording: Annotated[Path, typer.Argument(metavar="FILE.mcap", help="A recording.")],
    table: Annotated[Path, typer.Argument(metavar="FILE.csv", help="The table to write; .parquet for Parquet.")],
    *,
    wide: Annotated[
        bool, typer.Option("--wide", help="One row a moment, one column a servo and quantity: shoulder.position_rad.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Of a wide table: rows a second; default: a row at each sample.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write a recording as a table: one row a sample and servo, SI units, unknown values empty.

    At a --rate measurements are interpolated, though not over gaps; goals hold until the next.
    """
    from axbridge.files import check_new
    from axbridge.record.csv_parquet import write_csv, write_parquet
    from axbridge.record.recording import open_recording

    if table.suffix not in {".parquet", ".csv", ""}:
        raise UsageError(f"{table}: no such kind of table", "name it .csv or .parquet")
    if rate is not None and not wide:
        raise UsageError("--rate is for a wide table: servos are sampled each at its own times", "add --wide")
    check_new(table, force=force, sources=(recording,))
    found = open_recording(recording)
    write = write_parquet if table.suffix == ".parquet" else write_csv
    written = write(found, table, wide=wide, rate=rate)
    servos, rows = f"{len(found)} servo{'s' * (len(found) != 1)}", f"{written.rows} rows of {written.columns} columns"
    at = f" at {rate:g} Hz" if rate is not None else ""
    # A pipe has the table on it: there the line goes beside it.
    typer.echo(f"wrote {table}: {servos}, {rows}{at}, {found.end - found.start:.1f} s", err=not table.is_file())
    if not found.complete:
        typer.echo(f"note: {recording} was cut off; everything up to the cut was converted", err=True)
