"""`axbridge demo`: the whole loop. The paper's experiment on the real bus and on the simulator, compared."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axbridge.cli.app import app, emit_json
from axbridge.cli.options import JsonOption, PortOption, RigOption, SeedOption
from axbridge.cli.progress import Show, progress

if TYPE_CHECKING:
    from axbridge.compare.comparison import Comparison


@app.command()
def demo(
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for recordings, report and picture.")] = Path(
        "axbridge-demo"
    ),
    rig: RigOption = "bench_arm",
    port: PortOption = None,
    servo: Annotated[str | None, typer.Option("--servo", help="Which servo of the rig; default: the first.")] = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Record a 0 to 90 degree step and a fall on the real bus and on the simulator, compare them, write a report.

    Without --port the real bus is a virtual AX-12 arm on a pseudo-terminal, driven by the code that drives copper.
    """
    from axbridge.compare.comparison import compare, summary
    from axbridge.compare.html import write_html
    from axbridge.compare.png import write_png
    from axbridge.config.rig import Rig
    from axbridge.record.recording import open_recording
    from axbridge.serve.background import serving

    loaded = Rig.load(rig)
    out.mkdir(parents=True, exist_ok=True)
    recordings = {"real": out / "real.mcap", "sim": out / "sim.mcap"}
    hardware = serving(rig, "--seed", str(seed)) if port is None else nullcontext(port)
    with progress("starting the real bus", quiet=json) as show, hardware as device:
        _record(loaded, "real", recordings["real"], servo, seed, device, show)
    with progress("starting the simulator", quiet=json) as show:
        _record(loaded, "sim", recordings["sim"], servo, seed, None, show)
    with progress("writing the report", quiet=json):
        real, sim = (open_recording(path) for path in recordings.values())
        comparison = compare(real, sim, labels=("real bus", "simulator"))
        report, picture = out / "report.html", out / "report.png"
        write_html(comparison, report)
        write_png(comparison, picture)
    if json:
        files = {**recordings, "report": report, "picture": picture}
        emit_json({**summary(comparison), "files": {name: str(path) for name, path in files.items()}})
        return
    _print_table(comparison)
    for label, path in (
        ("real bus", recordings["real"]),
        ("simulator", recordings["sim"]),
        ("report", report),
        ("picture", picture),
    ):
        print(f"{label:<10} {path}")


def _record(rig: Any, backend: str, path: Path, servo: str | None, seed: int, port: str | None, show: Show) -> None:
    """Run the paper's experiment once and record it."""
    import axbridge
    from axbridge.record.experiments import step_and_fall
    from axbridge.record.provenance import describe
    from axbridge.record.recorder import Recorder

    with (
        axbridge.open(rig, backend=backend, port=port, seed=seed) as robot,
        Recorder(path, describe(rig, backend=backend, seed=seed, experiment="step and fall")) as recorder,
        robot,  # motors are off before the recorder takes its time to compress
    ):
        side = "real bus" if backend == "real" else "simulator"
        step_and_fall(
            robot, servo or next(iter(robot)), recorder, progress=lambda part, share: show(f"{side}: {part}", share)
        )


def _print_table(comparison: Comparison) -> None:
    """Step and fall of both sides, and how far apart they are."""
    from rich.console import Console
    from rich.table import Table

    from axbridge.compare.comparison import lacks, shift_text
    from axbridge.compare.tables import figure_rows

    pair = comparison.pairs[0]
    table = Table(title=f"{pair.name}: 0 to 90 degrees, then torque off", title_justify="left")
    table.add_column("")
    for label in comparison.labels:
        table.add_column(label, justify="right")
    for part in pair.parts:
        for name, *cells in figure_rows(part):
            table.add_row(name, *cells)
    table.add_section()
    table.add_row("RMSE", "", f"{pair.plain.rmse:.2f} deg")
    table.add_row("mean squared error", "", f"{pair.plain.mse:.2f} deg²")
    if pair.shift is not None and pair.aligned is not None:
        table.add_row(f"RMSE aligned by {pair.shift * 1000:+.0f} ms", "", f"{pair.aligned.rmse:.2f} deg")
    else:
        table.add_row("later by, ms", "", shift_text(comparison, pair))
    Console().print(table)
    for line in lacks(comparison):
        typer.echo(f"note: {line}", err=True)
