"""`axbridge plot`: draw a recording as a page or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from axbridge.cli.options import RecordingArgument, Result, opened, verb
from axbridge.cli.progress import progress
from axbridge.comparison.comparison import following
from axbridge.comparison.html import write_html
from axbridge.comparison.png import write_png
from axbridge.errors import UsageError
from axbridge.files import check_new


@verb("step.mcap --out step.png")
def plot(
    recording: RecordingArgument,
    *,
    out: Annotated[Path | None, "Default: FILE.plot.html.", "PAGE.html|PICTURE.png"] = None,
    force: bool = False,
) -> Result:
    """Draw a recording: goals, positions and how far they are apart, and what else was sampled."""
    path = recording.with_suffix(".plot.html") if out is None else out
    if path.suffix not in {".html", ".png"}:
        raise UsageError(f"{path}: a plot is a page or a picture", "name it .html or .png")
    check_new(path, force=force, sources=(recording,))
    with progress("reading") as show:
        comparison = following(opened(recording), progress=show)
        show("drawing")
        if path.suffix == ".png":
            write_png(comparison, path)
        else:
            write_html(comparison, path, progress=show)
    return Result({"recording": str(recording), "out": str(path)}, [f"wrote {path}"])
