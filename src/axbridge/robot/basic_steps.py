"""A rig's basic steps inside a step of any length: in each, ideal joints are controlled and a battery is drained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axbridge.config.rig import Rig
from axbridge.robot.backend import Backend
from axbridge.robot.drives.ideal import IdealDrive
from axbridge.robot.joint import Joint
from axbridge.robot.samples import Sampling
from axbridge.virtual.world import World


class BasicSteps:
    """What lives by the basic step of a robot."""

    def __init__(self, rig: Rig, joints: Sequence[Joint], sampling: Sampling) -> None:
        self._basic = rig.control_step_ms
        self._joints, self._sampling = joints, sampling
        self._ideal = any(isinstance(joint.drive, IdealDrive) for joint in joints)
        self._battery = rig.robot.battery
        self.battery_energy: float = -1.0 if rig.robot.battery is None else rig.robot.battery[0]  # J left
        self._computer = rig.robot.cpu_consumption
        self._powered = True
        self._drawn = 0.0  # J, by the simulation's meter at the last look

    def change(self, world: World | None) -> None:
        """Go on with another backend."""
        self._drawn = 0.0 if world is None else world.energy()

    def pass_until(self, end: float, now: float, backend: Backend, start: float) -> Iterator[float]:
        """Let the world go on, a basic step at a time; not at all where nothing lives by it."""
        if self._battery is None and not self._ideal:
            return
        tick = now // self._basic * self._basic
        while now < end:
            tick = tick + self._basic if tick + self._basic < end - 1e-6 else end
            on_time = abs(now / self._basic - round(now / self._basic)) < 1e-9
            if backend.simulated is not None and on_time:
                for joint in backend.simulated.ideal.values():
                    joint.control(self._basic / 1000)
            backend.clock.sleep_until(start + tick / 1000)
            if self._battery is not None:
                self._drain((tick - now) / 1000, backend.simulated)
            self._sampling.measure(start)  # not in the step in which the battery ran empty
            now = tick
            yield now

    def _drain(self, seconds: float, world: World | None) -> None:
        power = self._computer
        for joint in self._joints if self._powered else ():
            if isinstance(joint.drive, IdealDrive):
                power += joint.drive.electrical_power
            elif world is None:
                power += joint.sample("power")
        if world is not None:
            drawn, self._drawn = self._drawn, world.energy()
            power += (self._drawn - drawn) / seconds
        self.battery_energy = max(0.0, self.battery_energy - power * seconds)
        if self.battery_energy == 0.0 and self._powered and world is not None:
            self._powered = False
            self._sampling.freeze()
            for joint in self._joints:
                joint.dead = True
                if joint.setpoints.enabled:
                    joint.drive.power(on=False)
