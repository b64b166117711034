"""The summary of a bridge's run, in words."""

from __future__ import annotations

from typing import Any

from axbridge.errors import plural

_LOSSES = {"timeouts": "without an answer", "corrupt": "damaged", "late": "late or repeated"}


def in_words(summary: dict[str, Any]) -> list[str]:
    """Return a summary as lines, without servos that have nothing to report."""
    seconds, reply = summary["seconds"], summary["reply_ms"]
    lines = [f"passed {plural(summary['packets'], 'packet')} in {seconds:.1f} s: {summary['rate']:.0f} a second"]
    if reply["p50"] is not None:
        lines.append(f"answers: median {reply['p50']:.2f} ms, 99 % within {reply['p99']:.2f} ms")
    for name, counts in summary["servos"].items():
        parts = [f"{counts[key]} {word}" for key, word in _LOSSES.items() if counts[key]]
        parts += [f"{alarm} in {plural(count, 'answer')}" for alarm, count in counts["alarms"].items()]
        if parts:
            lines.append(f"  {name}: of {plural(counts['asked'], 'question')}: {', '.join(parts)}")
    if summary["rules"]:
        lines.append("rules: " + ", ".join(f"{rule} {count}" for rule, count in summary["rules"].items()))
    return lines
