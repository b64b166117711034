"""Datasets as LeRobot lays them out on disk, v2.1 and v3.0, with the parts that hold joints."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

JOINTS = ["shoulder_pan.pos", "elbow_flex.pos", "gripper.pos"]


def write_dataset(folder, episodes, *, version="v3.0", robot="so101_follower", names=JOINTS, fps=30, **more):
    """Write one; of each episode its states and actions, (n, joints) each, and `more` features."""
    feature = {"dtype": "float32", "shape": [len(names)], "names": names}
    info = {
        "codebase_version": version, "robot_type": robot, "total_episodes": len(episodes), "fps": fps,
        "features": {
            "observation.state": feature,
            "action": feature,
            "observation.images.front": {"dtype": "video", "shape": [480, 640, 3], "names": ["height", "width", "channels"]},
            "timestamp": {"dtype": "float32", "shape": [1], "names": None},
            **more,
        },
    }  # fmt: skip
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info, indent=1))
    chunk = folder / "data" / "chunk-000"
    chunk.mkdir(parents=True)
    tables = [_table(number, states, actions, fps) for number, (states, actions) in enumerate(episodes)]
    if version.startswith("v2"):  # a file an episode
        for number, table in enumerate(tables):
            pq.write_table(table, chunk / f"episode_{number:06d}.parquet")
    else:  # many episodes a file
        pq.write_table(pa.concat_tables(tables), chunk / "file-000.parquet")
    return folder


def _table(number, states, actions, fps):
    frames, width = states.shape

    def vectors(values):
        return pa.FixedSizeListArray.from_arrays(pa.array(values.astype(np.float32).ravel()), width)

    return pa.table(
        {
            "observation.state": vectors(states),
            "action": vectors(actions),
            "timestamp": pa.array((np.arange(frames) / fps).astype(np.float32)),
            "frame_index": pa.array(np.arange(frames)),
            "episode_index": pa.array(np.full(frames, number)),
        }
    )
