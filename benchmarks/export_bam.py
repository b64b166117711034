"""Do BAM's published XL330 parameters err as much here as on BAM's own bench? Prints JSON.

Takes a folder of its logs (`kp100_sin_sin.json`, …). For each friction law: the mean absolute error, degrees, over
whole logs from their first sample on, by BAM's rules (its even grid, its steps of 5 ms) and by axbridge; and the log on
which the two differ most.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from axbridge.comparison.recorded_runs import runs_of
from axbridge.config.rig import Rig
from axbridge.export.bam import ERROR_GAINS, from_bam
from axbridge.recording.import_logs import import_log
from axbridge.servo.columns import pack
from axbridge.sim.rollout import rollouts
from tests.support import bam_bench

PUBLISHED = json.loads((Path(bam_bench.__file__).parent / "bam_xl330.json").read_text())["files"]


def errors_here(paths):
    """Of each law (6,) on each log, (6, m), degrees."""
    rig = Rig.load("xl330_pendulum")
    count = rig.profile_of(rig.servos[0]).units.position
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for law, values in PUBLISHED.items():
            path = Path(folder) / f"{law}.json"
            path.write_text(json.dumps(values))
            rows.append(pack(from_bam(path), count))
    runs = runs_of([import_log(path) for path in paths], rig)
    return np.degrees(runs.means(np.abs(runs.errors(rollouts(np.array(rows), runs)))))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path, help="of the logs")
    paths = sorted(arguments.parse_args().folder.glob("*.json"))
    here, found = errors_here(paths), {}
    logs = [bam_bench.processed(json.loads(path.read_text())) for path in paths]
    for law, ours in zip(PUBLISHED, here, strict=True):
        theirs = np.array([bam_bench.mean_error(PUBLISHED[law], log, ERROR_GAINS["xl330"]) for log in logs])
        most = int(np.argmax(np.abs(ours - theirs)))
        found[law] = {
            "bam_deg": round(float(theirs.mean()), 3),
            "axbridge_deg": round(float(ours.mean()), 3),
            "differs_most": [paths[most].stem, round(float(ours[most] - theirs[most]), 2)],
        }
        print(law, found[law], file=sys.stderr, flush=True)
    print(json.dumps({"logs": len(paths), "laws": found}, indent=2))


if __name__ == "__main__":
    main()
