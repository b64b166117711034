"""`axbridge demo`: the whole loop. The paper's experiment on the real bus and on the simulator, compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axbridge.cli.app import app, emit_json
from axbridge.cli.options import JsonOption, PortOption, RigOption, SeedOption

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
    from axbridge.compare.tables import write_html, write_png
    from axbridge.config.rig import Rig
    from axbridge.record.recording import open_recording
    from axbridge.serve.background import serving

    loaded = Rig.load(rig)
    out.mkdir(parents=True, exist_ok=True)
    recordings = {"real": out / "real.mcap", "sim": out / "sim.mcap"}
    hardware = serving(rig, "--seed", str(seed)) if port is None else nullcontext(port)
    with hardware as device, _progress(f"real bus ({device})", quiet=json):
        _record(loaded, "real", recordings["real"], servo, seed, device)
    with _progress("simulator", quiet=json):
        _record(loaded, "sim", recordings["sim"], servo, seed, None)
    with _progress("report", quiet=json):
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


def _record(rig: Any, backend: str, path: Path, servo: str | None, seed: int, port: str | None) -> None:
    """Run the paper's experiment once and record it."""
    import axbridge
    from axbridge.record.experiments import step_and_fall
    from axbridge.record.provenance import describe
    from axbridge.record.recorder import Recorder

    with (
        axbridge.open(rig, backend=backend, port=port, seed=seed) as robot,
        Recorder(path, describe(rig, backend=backend, seed=seed, experiment="step and fall")) as recorder,
    ):
        step_and_fall(robot, servo or next(iter(robot)), recorder)


@contextmanager
def _progress(what: str, *, quiet: bool) -> Iterator[None]:
    """A spinner while a part runs, on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
    console.print(f"[green]done[/green] {what}")


def _fell(seconds: float) -> str:
    return f"{seconds:.3f} s" if math.isfinite(seconds) else "its friction holds it up"


def _print_table(comparison: Comparison) -> None:
    """Step and fall of both sides, and how far apart they are."""
    from rich.console import Console
    from rich.table import Table

    pair = comparison.pairs[0]
    table = Table(title=f"{pair.name}: 0 to 90 degrees, then torque off", title_justify="left")
    table.add_column("")
    for label in comparison.labels:
        table.add_column(label, justify="right")
    for part in pair.parts:
        if part.steps is not None and part.name == "step":
            a, b = part.steps
            table.add_row("rise time 10-90 %", f"{a.rise:.3f} s", f"{b.rise:.3f} s")
            table.add_row("overshoot", f"{a.overshoot:.2f} deg", f"{b.overshoot:.2f} deg")
            table.add_row("settling time", f"{a.settling:.3f} s", f"{b.settling:.3f} s")
            table.add_row("steady-state error", f"{a.steady_state_error:.2f} deg", f"{b.steady_state_error:.2f} deg")
        if part.falls is not None:
            table.add_row("fall to below 5 deg", *(_fell(seconds) for seconds in part.falls))
    table.add_section()
    table.add_row("RMSE", "", f"{pair.plain.rmse:.2f} deg")
    table.add_row("mean squared error", "", f"{pair.plain.mse:.2f} deg²")
    table.add_row(f"RMSE aligned by {pair.shift * 1000:+.0f} ms", "", f"{pair.aligned.rmse:.2f} deg")
    Console().print(table)
