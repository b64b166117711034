"""The sensors of a rig on a backend: simulated where the robot is, on their own lines where it is real."""

from __future__ import annotations

from contextlib import ExitStack

from axbridge.config.rig import Rig
from axbridge.robot.backends.backend import Backend
from axbridge.robot.sensors.sensor import Sensor
from axbridge.robot.sensors.simulated import SimulatedSensor


def open_sensors(rig: Rig, backend: Backend, seed: int, closing: ExitStack) -> dict[str, Sensor]:
    """Those that the backend has, by name: in the simulator all, on a real robot those with a port.

    `closing` closes each that was opened.

    Raises:
        RigError: a sensor sits on a link that the robot does not have.
        PortError: a real one does not answer.
    """
    world = backend.simulated
    sensors: dict[str, Sensor] = {}
    for config in rig.sensors:
        if world is not None and world.engine is not None:
            sensors[config.name] = SimulatedSensor(rig, config, world.engine, world.now, seed)
        elif world is None and config.port is not None:
            from axbridge.robot.sensors.serial_imu import SerialImu

            sensors[config.name] = sensor = SerialImu(config.port, config.baud, backend.clock)
            closing.callback(sensor.close)
    return sensors
