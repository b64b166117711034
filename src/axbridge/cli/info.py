"""`axbridge info`: print the contents of a recording."""

from __future__ import annotations

import math
from typing import Any

from axbridge.cli.options import RecordingArgument, Result, verb
from axbridge.cli.progress import progress
from axbridge.errors import plural
from axbridge.file_reading import printable
from axbridge.recording.provenance import origin_in_words
from axbridge.recording.recording import Track
from axbridge.recording.sample_quality import findings
from axbridge.recording.stored import open_recording


@verb("step.mcap")
def info(recording: RecordingArgument) -> Result:
    """Print what a recording holds: servos, samples, segments, its source, and whether it is whole."""
    with progress("reading"):
        loaded = open_recording(recording)
        servos = {name: _facts(name, loaded[name]) for name in loaded}  # holds one track in memory at a time
    facts: dict[str, Any] = {
        "path": str(recording),
        "complete": loaded.complete,
        "servos": servos,
        "lost": list(loaded.lost),
        "segments": [{**s.data, "name": s.name, "start_s": s.start, "end_s": s.end} for s in loaded.segments],
        "events": [{**e.data, "time_s": e.time, "name": e.name} for e in loaded.events if e.name != "segment"],
        "cycles": len(loaded.cycles.get("time", ())),
        "metadata": loaded.metadata,
    }
    meta = loaded.metadata
    rig = meta.get("rig", {})
    lines = [f"{recording} {loaded.flaw}" if loaded.flaw else f"{recording}: whole"]
    origin = [meta.get("experiment"), origin_in_words(meta), rig.get("name") if rig else meta.get("source")]
    lines.append("  " + ", ".join(printable(part) for part in (*origin, meta.get("recorded")) if part))
    for name, known in servos.items():
        lines.append(f"  {printable(name)}: {_line(known)}")
        lines += [f"    odd: {odd['what']} (probably {odd['cause']})" for odd in known["odd"]]
    for segment in loaded.segments[:20]:
        lines.append(f"  segment {printable(segment.name)}: {segment.start:.3f} to {segment.end:.3f} s")
    if len(loaded.segments) > 20:
        lines.append(f"  and {plural(len(loaded.segments) - 20, 'more segment')} (--json lists them)")
    for event in facts["events"]:
        what = " ".join(str(event[key]) for key in ("name", "servo") if event.get(key))
        text = f": {printable(event['text'])}" if event.get("text") else ""  # of a bridge's notice
        lines.append(f"  {printable(what)} at {event['time_s']:.3f} s{text}")
    return Result(facts, lines)


def _facts(name: str, track: Track) -> dict[str, Any]:
    known = track.facts()
    odd = [{"what": odd.what, "cause": odd.cause} for odd in findings(name, track.time, track.columns)]
    return {
        "samples": known.samples, "rate_hz": known.rate, "start_s": known.start, "end_s": known.end,
        "lowest_rad": known.lowest, "highest_rad": known.highest, "gaps": known.gaps,
        "longest_gap_s": known.longest_gap, "longest_gap_at_s": known.longest_gap_at, "jumps": known.jumps,
        "first_jump_at_s": known.first_jump_at, "odd": odd, "columns": list(known.columns),
    }  # fmt: skip


def _line(known: dict[str, Any]) -> str:
    if not known["samples"]:
        return "no samples"
    span = f"{known['start_s']:.3f} to {known['end_s']:.3f} s"
    low, high = math.degrees(known["lowest_rad"]), math.degrees(known["highest_rad"])
    parts = [f"{plural(known['samples'], 'sample')} at {known['rate_hz']:.0f} Hz, {span}"]
    parts.append("no positions" if math.isnan(low) else f"{low:.1f} to {high:.1f}°")
    if gaps := known["gaps"]:
        longest = f"{known['longest_gap_s']:.3f} s at {known['longest_gap_at_s']:.3f} s"
        parts.append(f"{plural(gaps, 'gap')}, the longest {longest}")
    return f"{', '.join(parts)}: {', '.join(known['columns'])}"
