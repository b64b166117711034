"""`axbridge convert`: write a recording as CSV, Parquet or a ROS 2 bag."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from axbridge.cli.options import RecordingArgument, opened, verb
from axbridge.cli.progress import progress
from axbridge.errors import RecordingError, UsageError, plural
from axbridge.files import check_new
from axbridge.recording.convert import check_bag, write_csv, write_parquet, write_ros2


@verb("step.mcap step.csv --wide --rate 50")
def convert(
    recording: RecordingArgument,
    table: Annotated[Path, "A .csv or .parquet; with --ros2 a folder.", "FILE.csv"],
    *,
    wide: Annotated[bool, "A row for each moment, a column such as s1.position_rad."] = False,
    rate: Annotated[float | None, "Rows a second; default: a row at each sample."] = None,
    ros2: Annotated[bool, "Write a bag of ROS 2: needs rosbags, and no ROS."] = False,
    force: bool = False,
) -> None:
    """Write a recording as a table: one row for each sample and servo, in SI units.

    With --rate, measurements are interpolated, but not over gaps. Goals hold until the next one.
    """
    if not ros2 and table.suffix not in {".parquet", ".csv", ""}:
        raise UsageError(f"{table}: no such kind of table", "name it .csv or .parquet")
    if wide and ros2:
        raise UsageError("--wide is for tables, and this is none", "leave it out, or name a .csv")
    if rate is not None and not wide:
        raise UsageError("--rate is for a wide table: servos are sampled each at its own times", "add --wide")
    if ros2:
        check_bag(table, force=force)
    else:
        check_new(table, force=force, sources=(recording,))
    with progress("reading") as show:
        loaded = opened(recording)
        if not loaded.spans():
            raise RecordingError(recording, loaded.flaw or "holds no samples", "record it again")
        show("writing")
        if ros2:
            counts = write_ros2(loaded, table, force=force)
            text = f"wrote {table}: {', '.join(f'{count} {topic}' for topic, count in counts.items())}"
        else:
            rows = (write_parquet if table.suffix == ".parquet" else write_csv)(loaded, table, wide=wide, rate=rate)
            servos = plural(len(loaded), "servo")
            at = f" at {rate:g} Hz" if rate is not None else ""
            text = f"wrote {table}: {servos}, {plural(rows, 'row')}{at}, {loaded.end - loaded.start:.1f} s"
    print(text)
