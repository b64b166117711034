"""Does a change keep what simulated robots do, to the last bit? Record before it, record after it, compare.

    python tools/same_behaviour.py record before
    python tools/same_behaviour.py record after
    python tools/same_behaviour.py compare before after

Records a step of `bench_arm`, falls and duties of `pendulum`, a Bioloid that stands for 2 s and one that walks three
steps, each with two servo models and seed 0; and a recorded log through the one-joint reference. A file holds what
the host measured and where the joints really were. `compare` prints a line for each, and how far apart the positions
are where two are not alike; it ends with 1 when any is not. Both must be recorded on the same machine: its compiler
may round as it likes.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

import axbridge
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.motion.experiments import Options, conduct
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk
from axbridge.recording.import_logs import import_log
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.recording.stored import open_recording

Action = Callable[[axbridge.Robot, Recorder], object]
Columns = Mapping[str, npt.NDArray[np.float64]]

MODELS = "lima2009", "ax12"
FIELDS = "time", "position", "velocity", "load", "voltage", "temperature", "true_position", "true_torque"
LOG = Path(__file__).parents[1] / "docs" / "real" / "xl330_pendulum" / "xl330_kp400_lift_and_drop.json"
PLAY = {"motor": {"armature": 0.004, "backlash": 0.01}}  # what the many-at-once kernel of rollouts leaves to the other


def with_model(rig: Rig, model: str, params: Mapping[str, object] | None = None) -> Rig:
    """The rig with this model in all its servos."""
    changed = {"model": model, "params": params or {}}
    return rig.with_servos(lambda _: changed)


def experiment(name: str, options: Options) -> Action:
    """Something that records this experiment with a robot's only servo."""
    return lambda robot, recorder: conduct(name, robot, next(iter(robot)), recorder, options)


def stand(robot: axbridge.Robot, recorder: Recorder) -> None:
    """Hold the rig's pose."""
    for config in robot.rig.servos:
        robot[config.name].set_position(config.position)
    with RobotRecorder(robot, recorder):
        while robot.time < 2.0:
            robot.step()


def robots() -> dict[str, tuple[str, Action]]:
    """Rigs, and what their robots do, by name."""
    falls = Options(angles=(math.radians(90), math.radians(135)), duration=1.5)
    return {
        "step": ("bench_arm", experiment("step", Options(angles=(math.radians(90), math.radians(-60))))),
        "fall": ("pendulum", experiment("fall", falls)),
        "duty": ("pendulum", experiment("duty", Options(duties=(0.3, 1.0), duration=1.0))),
        "stand": ("bioloid", stand),
        "walk": ("bioloid", lambda robot, recorder: walk(robot, Gait(steps=3), recorder)),
    }


def columns(recording: Recording) -> Columns:
    """Its arrays, by servo and quantity."""
    return {f"{track.name}.{field}": getattr(track, field) for track in recording.values() for field in FIELDS}


def record(folder: Path) -> None:
    """Write a file for each thing done, by compiled kernels throughout: as plain Python they round differently."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in MODELS:
        for name, (rig, action) in robots().items():
            with (
                tempfile.TemporaryDirectory() as kept,
                axbridge.open(with_model(Rig.load(rig), model), seed=0) as robot,
            ):
                path = Path(kept, "it.mcap")
                with Recorder(path, {}) as recorder:
                    action(robot, recorder)
                np.savez(folder / f"{name}-{model}.npz", **columns(open_recording(path)))
    log, rig = import_log(LOG), Rig.load("xl330_pendulum")
    for name, params in ("xl330", {}), ("xl330-play", PLAY):
        simulated = simulate(log, with_model(rig, rig.servos[0].model, params))
        np.savez(folder / f"rollout-{name}.npz", **columns(simulated))


def compare(before: Path, after: Path) -> int:
    """Print what is alike, and return how many files are not."""
    names = sorted({path.name for folder in (before, after) for path in folder.glob("*.npz")})
    if not names:
        sys.exit(f"neither {before} nor {after} holds recordings: make them with `record`")
    different = 0
    for name in names:
        if not all((folder / name).is_file() for folder in (before, after)):
            print(f"{name}: only one folder has it")
            different += 1
            continue
        with np.load(before / name) as old, np.load(after / name) as new:
            changed = [key for key in old if key not in new or old[key].tobytes() != new[key].tobytes()]
            changed += [key for key in new if key not in old]
            print(f"{name}: {describe(old, new, changed) if changed else 'the same bytes'}")
        different += bool(changed)
    return different


def describe(old: Columns, new: Columns, changed: list[str]) -> str:
    """What is not alike, in words."""
    both = [key for key in changed if key in old and key in new]
    if len(both) < len(changed):
        return f"not the same columns: {sorted(set(changed) - set(both))}"
    if any(old[key].shape != new[key].shape for key in both):
        return "not as many samples"
    positions = [np.nan_to_num(np.abs(old[key] - new[key])) for key in both if key.endswith("position")]
    apart = max((np.degrees(values.max()) for values in positions), default=0.0)
    first = min(int(np.argmax(~((old[key] == new[key]) | np.isnan(old[key])))) for key in both)
    return f"{len(both)} of {len(old)} columns differ, from sample {first} on; positions by {apart:.3g} degrees at most"


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record", help="write what this source does into a folder")
    recording.add_argument("folder", type=Path)
    comparing = actions.add_parser("compare", help="compare two such folders")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.action == "record":
        record(given.folder)
    elif compare(given.before, given.after):
        sys.exit(1)


if __name__ == "__main__":
    main()
