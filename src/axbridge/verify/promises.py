"""What docs/safety.md and docs/hardware.md promise, and which steps show it on a robot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from axbridge.verify.outcome import StepOutcome

Facts = Mapping[str, Any]
Verdict = tuple[bool | None, str]  # whether it was kept, None where that cannot be said; and by what

_VERDICTS = "seen", "not kept", "cannot be judged here", "not tried"
_QUICK_SCAN = 1.5  # s: twice what docs/hardware.md says, for a slower adapter
_NEAR_WIRE, _STEADY = 0.88, 1.2  # as docs/hardware.md has them
_KEPT = 0.01  # share of the steps that may be late


@dataclass(frozen=True)
class Promise:
    """One of them.

    Attributes:
        page: Where it stands.
        quote: Words that stand there.
        words: The promise in short.
        step: The step that may show it; "" = none does.
        seen: What its facts say; None = nothing.
    """

    page: str
    quote: str
    words: str
    step: str = ""
    seen: Callable[[Facts], Verdict | None] = lambda _facts: None


@dataclass(frozen=True)
class Judged:
    """A promise on one robot.

    Attributes:
        promise: It.
        verdict: What was seen of it.
        why: By what; or why it was not tried.
    """

    promise: Promise
    verdict: Literal["seen", "not kept", "cannot be judged here", "not tried"]
    why: str


def judged(outcomes: Mapping[str, StepOutcome]) -> list[Judged]:
    """Every promise, by what came of the steps."""
    found = []
    for promise in PROMISES:
        outcome = outcomes.get(promise.step)
        if not promise.step:
            found.append(Judged(promise, "not tried", "this program does not try it"))
        elif outcome is None or outcome.state != "done":
            found.append(Judged(promise, "not tried", f"step {promise.step} was not done"))
        else:
            kept, why = promise.seen(outcome.facts) or (None, "nothing was measured")
            found.append(
                Judged(promise, "cannot be judged here" if kept is None else "seen" if kept else "not kept", why)
            )
    return found


def counted(promises: Sequence[Judged]) -> str:
    """How many promises there are of each verdict, in words."""
    verdicts: list[str] = [one.verdict for one in promises]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in _VERDICTS)


def _ended(name: str) -> Callable[[Facts], Verdict | None]:
    def seen(facts: Facts) -> Verdict | None:
        endings = [one for one in facts["endings"] if one["signal"] == name]
        if not endings:
            return None
        on = [servo for one in endings for servo in one["on"]]
        most, slowest = max(one["servos"] for one in endings), max(one["seconds"] for one in endings)
        return not on, f"{', '.join(on)} stayed on" if on else f"{most} servos, known to be off after {slowest:.2f} s"

    return seen


def _no_snap(facts: Facts) -> Verdict | None:
    moved = max((one["moved_deg"] for one in facts["endings"]), default=None)
    return None if moved is None else (moved < 3.0, f"moved by {moved:.1f}° at most when torque came on")


def _closed(facts: Facts) -> Verdict:
    on = facts["left_on"]
    return not on, f"{', '.join(on)} stayed on" if on else "every servo said so"


def _no_timer(facts: Facts) -> Verdict:
    timers = [line["latency_timer_ms"] for line in facts["lines"]]
    quick = all(line["latency_timer_ms"] in (None, 0, 1) or line["low_latency"] for line in facts["lines"])
    return quick, f"latency timer: {', '.join('none' if timer is None else f'{timer} ms' for timer in timers)}"


def _echo(facts: Facts) -> Verdict:
    echo = any(line["echo"] for line in facts["lines"])
    return (True, "it returns every byte") if echo else (None, "this adapter returns nothing")


def _right(facts: Facts) -> Verdict | None:
    counted = [line for line in facts["lines"] if "wrong" in line]
    wrong, reads = sum(line["wrong"] for line in counted), sum(line["reads"] for line in counted)
    return (not wrong, f"{wrong} of {reads} reads were wrong") if counted else None


def _scanned(facts: Facts) -> Verdict:
    longest = max(line["scan_s"] for line in facts["lines"])
    return longest < _QUICK_SCAN, f"{longest:.2f} s"


def _supplied(facts: Facts) -> Verdict | None:
    volts = [servo["present_voltage"] / 10 for servo in facts["servos"].values() if "present_voltage" in servo]
    return (min(volts) >= 9.0 and max(volts) <= 12.6, f"{min(volts):.1f} to {max(volts):.1f} V") if volts else None


def _talkative(facts: Facts) -> Verdict | None:
    levels = sorted({servo["status_return_level"] for servo in facts["servos"].values()})
    return (levels == [2], f"status return level {', '.join(map(str, levels))}") if levels else None


def _deaf(facts: Facts) -> Verdict:
    deaf, heard, waits = facts["deaf_ms"], facts["heard_ms"], facts["waits_ms"]
    kept = True if heard <= waits else False if deaf >= waits else None  # between the two questions nobody knows
    return kept, f"deaf for {deaf:.1f} to {heard:.1f} ms, axbridge waits {waits:g} ms"


def _spared(facts: Facts) -> Verdict:
    return facts["spared"], (
        f"{facts['writes']} writes of another value; of the value that was there "
        f"{'no byte was sent' if facts['spared'] else 'one more'}"
    )


def _fast(facts: Facts) -> Verdict | None:
    shares = [line["wire_share"] for line in facts["lines"] if "wire_share" in line]
    return (min(shares) >= _NEAR_WIRE, f"{min(shares):.0%}") if shares else None


def _steady(facts: Facts) -> Verdict | None:
    spreads = [line["cycle_p99_ms"] / line["cycle_p50_ms"] for line in facts["lines"] if "cycle_p50_ms" in line]
    return (max(spreads) <= _STEADY, f"{max(spreads):.2f} times the median") if spreads else None


def _kept(facts: Facts) -> Verdict:
    return facts["late"] <= _KEPT * facts["steps"], (
        f"{facts['late']} of {facts['steps']} steps of {facts['period_ms']:g} ms late, by {facts['latest_ms']:.1f} ms "
        "at most"
    )


_SAFETY, _HARDWARE = "safety.md", "hardware.md"

PROMISES: tuple[Promise, ...] = (
    Promise(_SAFETY, "`close()`, end of the `with` block", "the end of a program switches the motors off",
            "motion", _closed),
    Promise(_SAFETY, "SIGINT (Ctrl-C), SIGTERM, SIGHUP", "SIGTERM switches the motors off", "endings",
            _ended("SIGTERM")),
    Promise(_SAFETY, "SIGKILL, a crash", "after SIGKILL the guard process switches the motors off", "endings",
            _ended("SIGKILL")),
    Promise(_SAFETY, "the goal is set to the present position, so nothing snaps",
            "nothing snaps when torque comes on", "endings", _no_snap),
    Promise(_SAFETY, "the controller stops calling `step`", "a controller that hangs is switched off"),
    Promise(_SAFETY, "the adapter is unplugged", "a servo that was away starts softly from where it is"),
    Promise(_SAFETY, "**hold**: the goal of every powered servo becomes its present position",
            "hold keeps the robot where it is"),
    Promise(_SAFETY, "**park**: joints with torque go to `park`", "park leads the robot to its pose"),
    Promise(_SAFETY, "`robot.stop()` is the button for people", "stop() switches the motors off from any thread"),
    Promise(_SAFETY, "A servo above `max_temperature` or outside `voltage`", "a hot servo is switched off"),
    Promise(_SAFETY, "An AX-12 that is overloaded sets its own Torque Limit to 0",
            "a servo that shut itself down stays limp"),
    Promise(_HARDWARE, "FTDI latency timer, 16 ms by default", "the adapter hands answers over at once", "line",
            _no_timer),
    Promise(_HARDWARE, "axbridge notices that when it opens the port, and removes the echo",
            "an adapter's echo is removed", "line", _echo),
    Promise(_HARDWARE, "A reply counts only if its id, its length and its checksum are right", "no value is wrong",
            "line", _right),
    Promise(_HARDWARE, "a scan of all 254 ids at one rate", "a scan takes about a second", "line", _scanned),
    Promise(_HARDWARE, "9 to 12 V (11.1 V is recommended)", "the servos get 9 to 12 V", "servos", _supplied),
    Promise(_HARDWARE, "The status return level (register 16) decides what a servo answers",
            "every servo answers reads and writes", "servos", _talkative),
    Promise(_HARDWARE, "187 Hz is the most", "a cycle takes little more than the wire needs: 88 % or more", "cycle",
            _fast),
    Promise(_HARDWARE, "99 % of them within 1.2 times the median", "cycles are even", "cycle", _steady),
    Promise(_HARDWARE, "a 50 Hz loop over 18 servos", "the control period is kept", "cycle", _kept),
    Promise(_HARDWARE, "a servo hears nothing for 6 ms a byte", "a servo hears again before axbridge goes on",
            "eeprom", _deaf),
    Promise(_HARDWARE, "does not write a value that is there already", "EEPROM is spared", "eeprom", _spared),
    Promise(_HARDWARE, "nobody can write the EEPROM of servo 5 until its supply has been off",
            "a locked servo is not written to"),
    Promise(_HARDWARE, "axbridge sets the limits back at every end", "a wheel becomes a joint again at the end"),
    Promise(_HARDWARE, "Two lines with 9 servos each are twice as fast", "two lines work at the same time"),
)  # fmt: skip
