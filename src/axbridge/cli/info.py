"""`axbridge info`: what a recording holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axbridge.cli.app import app, emit_json
from axbridge.cli.options import JsonOption
from axbridge.cli.progress import progress
from axbridge.reading import printable

if TYPE_CHECKING:
    from axbridge.recording.sample_facts import ServoFacts


@app.command()
def info(
    recording: Annotated[Path, typer.Argument(metavar="FILE.mcap", help="A recording.")],
    *,
    json: JsonOption = False,
) -> None:
    """Say what is in a recording: servos, samples, segments, its source, and whether it is whole."""
    from axbridge.recording.recording import TOO_BUSY
    from axbridge.recording.soundness import suspicions
    from axbridge.recording.stored import open_recording

    with progress("reading", quiet=json):  # one that was cut off is read from its first byte on
        found = open_recording(recording)
    servos = {name: found.facts(name) for name in found}
    facts: dict[str, Any] = {
        "path": str(recording),
        "complete": found.complete,
        "servos": {name: _document(name, known) for name, known in servos.items()},
        "lost": list(found.lost),
        "segments": [{**s.data, "name": s.name, "start_s": s.start, "end_s": s.end} for s in found.segments],
        "events": [{**e.data, "time_s": e.time, "name": e.name} for e in found.events if e.name != "segment"],
        "stood_still": [{"start_s": begin, "end_s": end} for begin, end in found.stood_still],
        "cycles": found.cycle_count,
        "metadata": found.metadata,
    }
    if json:
        emit_json("info-1", facts)
        return
    meta = found.metadata
    rig = meta.get("rig", {})
    print(f"{recording} {found.flaw}" if found.flaw else f"{recording}: whole")
    origin = [meta.get("experiment"), meta.get("backend"), rig.get("name") if rig else meta.get("source")]
    print("  " + ", ".join(printable(part) for part in (*origin, meta.get("recorded")) if part))
    for name, known in servos.items():
        print(f"  {printable(name)}: {_line(known)}")
        for finding in suspicions(name, known):
            print(f"    odd: {finding.what} (probably {finding.cause})")
    for segment in found.segments[:20]:
        print(f"  segment {printable(segment.name)}: {segment.start:.3f} to {segment.end:.3f} s")
    if len(found.segments) > 20:
        print(f"  and {len(found.segments) - 20} more segments (--json lists them)")
    for begin, end in found.stood_still:
        print(f"  {TOO_BUSY}: {begin:.3f} to {end:.3f} s tell nothing")
    for event in facts["events"]:
        print(f"  {printable(event['name'])} at {event['time_s']:.3f} s")


def _document(name: str, known: ServoFacts) -> dict[str, Any]:
    from axbridge.recording.soundness import suspicions

    return {
        "samples": known.samples,
        "rate_hz": known.rate,
        "start_s": known.start,
        "end_s": known.end,
        "lowest_rad": known.lowest,
        "highest_rad": known.highest,
        "gaps": known.gaps,
        "longest_gap_s": known.longest_gap,
        "longest_gap_at_s": known.longest_gap_at,
        "jumps": known.jumps,
        "first_jump_at_s": known.first_jump_at,
        "backwards": known.backwards,
        "odd": [{"what": odd.what, "cause": odd.cause} for odd in suspicions(name, known)],
        "columns": list(known.columns),
    }


def _line(known: ServoFacts) -> str:
    """A servo's samples in one line: how many, from where to where, and what is odd about them."""
    if not known.samples:
        return "no samples"
    parts = [f"{known.samples} samples at {known.rate:.0f} Hz, {known.start:.3f} to {known.end:.3f} s"]
    if known.lowest == known.lowest:
        parts.append(f"{math.degrees(known.lowest):.1f} to {math.degrees(known.highest):.1f}°")
    else:
        parts.append("no positions")
    if known.gaps:
        gaps = "1 gap" if known.gaps == 1 else f"{known.gaps} gaps"
        parts.append(f"{gaps}, the longest {known.longest_gap:.3f} s at {known.longest_gap_at:.3f} s")
    if known.jumps:
        jumps = "1 jump" if known.jumps == 1 else f"{known.jumps} jumps"
        parts.append(f"{jumps} faster than a servo turns, first at {known.first_jump_at:.3f} s")
    if known.backwards:
        parts.append(f"time goes back {known.backwards} times")
    return f"{', '.join(parts)}: {printable(', '.join(known.columns))}"
