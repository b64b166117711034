"""`axbridge conformance`: test how a program that drives servos behaves under faults."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from axbridge.cli.app import DONE, FAILED_CHECK
from axbridge.cli.options import WRITES, Result, RigOption, lined_up, verb
from axbridge.cli.progress import progress
from axbridge.config.rig import Rig
from axbridge.robot.rig_check import refuse_unsound
from axbridge.testing.conformance import BAD, check_driver, write_junit
from axbridge.testing.servo_bus import Timing


@verb("--rig koch -- python my_driver.py {port}")
def conformance(
    command: Annotated[list[str], "The program, {port} for its port.", "-- COMMAND…"],
    *,
    rig: RigOption,
    timing: str = "none",
    junit: Annotated[Path | None, "Write a JUnit file, too.", "FILE.xml", WRITES] = None,
    seed: int = 0,
) -> Result:
    """Run a program on virtual servos, each time with another fault, and print what it does.

    goes on: it prints the same numbers as without a fault, and ends well. reports: it ends with an error. wrong value:
    it ends well, with other numbers. motor left on: it ends, and a motor has torque. hangs: it does not end. The last
    three are failures: exit code 1.
    """
    refuse_unsound(Rig.load(rig))
    with progress("running the program") as show:
        pace: Timing = "wire" if timing == "wire" else "none"
        findings = list(check_driver(command, rig, timing=pace, seed=seed, report=show))
    if junit is not None:
        write_junit(findings, junit, Path(command[-1] if "{port}" not in command[-1] else command[0]).name)
    rows = [("fault", "outcome", "packet", "what it said")]
    rows += [(run.case, run.outcome, run.packet or "-", run.note[:80]) for run in findings]
    failed = sum(run.outcome in BAD for run in findings)
    lines = [*lined_up(rows), f"{len(findings)} runs, {failed} harmful"]
    facts = {"rig": rig, "findings": list(map(asdict, findings))}
    return Result(facts, lines, FAILED_CHECK if failed else DONE)
