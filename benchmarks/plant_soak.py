"""Ten minutes of simulated use of the Bioloid: does anything leak? `--seconds 60` is a short one. Prints JSON.

Every ten simulated seconds the robot (and a bench arm beside it) is opened, stands, moves, is dropped, goes limp, gets
up and is closed. Resident memory and what is open are told after a tenth and at the end.
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.plant_soak import held, resident, session

SESSION = 10.0  # s


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    sessions = max(10, round(parser.parse_args().seconds / SESSION))
    began = time.perf_counter()
    memory, contacts, before = [], 0, held()
    for number in range(sessions):
        contacts += session(SESSION, number)
        memory.append(resident())
    early = sessions // 10 - 1
    took = time.perf_counter() - began
    result = {
        "simulated_s": sessions * SESSION,
        "robots_opened_and_closed": 2 * sessions,
        "steps_in_contact": contacts,
        "resident_mb_after_the_first": round(memory[0], 1),
        "resident_mb_after_a_tenth": round(memory[early], 1),
        "resident_mb_at_the_end": round(memory[-1], 1),
        "kb_a_session_since": round(1000 * (memory[-1] - memory[early]) / (sessions - 1 - early), 1),
        "descriptors_and_threads_before": before,
        "descriptors_and_threads_after": held(),
        "times_real_time": round(sessions * SESSION / took, 1),
    }
    print(json.dumps(result, indent=2))


main()
