"""`axbridge info`: what a recording holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from axbridge.cli.app import app, emit_json
from axbridge.cli.options import JsonOption


@app.command()
def info(
    recording: Annotated[Path, typer.Argument(metavar="FILE.mcap", help="A recording.")],
    *,
    json: JsonOption = False,
) -> None:
    """Say what a recording holds: servos, samples, segments, where it comes from, and whether it is whole."""
    import numpy as np

    from axbridge.record.mcap_file import SERVO_FIELDS
    from axbridge.record.recording import open_recording

    found = open_recording(recording)
    servos: dict[str, Any] = {}
    for name, track in found.items():
        span = float(track.time[-1] - track.time[0]) if len(track) > 1 else 0.0
        servos[name] = {
            "samples": len(track),
            "rate_hz": (len(track) - 1) / span if span else 0.0,
            "start_s": float(track.time[0]),
            "end_s": float(track.time[-1]),
            "columns": [key for key in SERVO_FIELDS if not np.isnan(getattr(track, key)).all()],
        }
    facts: dict[str, Any] = {
        "path": str(recording),
        "complete": found.complete,
        "servos": servos,
        "segments": [{"name": s.name, "start_s": s.start, "end_s": s.end, **s.data} for s in found.segments],
        "events": [{"time_s": e.time, "name": e.name, **e.data} for e in found.events if e.name != "segment"],
        "cycles": len(found.cycles.get("time", ())),
        "metadata": found.metadata,
    }
    if json:
        emit_json(facts)
        return
    meta = found.metadata
    rig = meta.get("rig", {})
    print(f"{recording}: {'whole' if found.complete else 'cut off; everything up to the cut was read'}")
    origin = [meta.get("experiment"), meta.get("backend"), rig.get("name") if rig else meta.get("source")]
    print("  " + ", ".join(str(part) for part in (*origin, meta.get("recorded")) if part))
    for name, servo in servos.items():
        times = f"{servo['start_s']:.3f} to {servo['end_s']:.3f} s"
        print(
            f"  {name}: {servo['samples']} samples at {servo['rate_hz']:.0f} Hz, {times}: {', '.join(servo['columns'])}"
        )
    for segment in found.segments[:20]:
        print(f"  segment {segment.name}: {segment.start:.3f} to {segment.end:.3f} s")
    if len(found.segments) > 20:
        print(f"  and {len(found.segments) - 20} more segments (--json lists them)")
    for event in facts["events"]:
        print(f"  {event['name']} at {event['time_s']:.3f} s")
