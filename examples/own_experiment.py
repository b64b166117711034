"""An experiment of your own, recorded: a staircase of goals. Look at it with `axbridge info staircase.mcap`.

$ python examples/own_experiment.py
$ AXBRIDGE_BACKEND=real AXBRIDGE_PORT=/dev/ttyUSB0 python examples/own_experiment.py
"""

import axbridge
from axbridge.recording.provenance import describe

rig = axbridge.Rig.load("bench_arm")
with (
    axbridge.open(rig) as robot,
    axbridge.Recorder("staircase.mcap", describe(rig, backend=robot.backend, experiment="staircase")) as recorder,
    axbridge.RobotRecorder(robot, recorder) as log,  # from now on each step is recorded
):
    for goal in (0.2, 0.4, 0.6, 0.0):  # rad
        log.mark(f"to {goal} rad", servo="shoulder")
        robot["shoulder"].set_position(goal)
        for _ in range(20):
            robot.step(20)  # ms

recording = axbridge.open_recording("staircase.mcap")
print(recording["shoulder"], [segment.name for segment in recording.segments])
