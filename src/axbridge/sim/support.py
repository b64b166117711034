"""A gantry that holds a robot, lowers it onto its soles when its first motor is on, and releases it."""

from __future__ import annotations

import math

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.rotations import Quaternion, matrix, of_axis
from axbridge.servo.columns import Command
from axbridge.sim.bank import ServoBank
from axbridge.sim.body.kinematics import posed, soles_of
from axbridge.sim.engine import Engine

_CLEARANCE = 0.02  # m: initial height above the floor
_LOWERED, _RELEASED = 1.5, 2.0  # s after the first motor is on: the robot is on the floor; the gantry releases it
_UPRIGHT: Quaternion = (0.0, 0.0, 0.0, 1.0)


class Gantry:
    """Holds a free-standing robot with its soles level; upright when it has none.

    In a pose with bent knees the soles may be tilted: with an upright base, the robot would stand on its toes and fall.
    """

    def __init__(self, rig: Rig, engine: Engine) -> None:
        assert rig.world is not None  # a robot without a world does not stand free
        tree = rig.tree()
        pose = tree.pose(rig.start)[None]
        soles = soles_of(rig, tree)
        there = posed(tree, pose, (np.array([[0.0, 0.0, rig.world.base_height]]), np.eye(3)[None]))
        self._engine = engine
        self._soles = [(tree.links[sole.link], sole.corners) for sole in soles]
        self._upright = there.centres[0, 0]  # the base's centre of mass, m
        corners = [there.place[sole.link, 0] + sole.corners @ there.turn[sole.link, 0].T for sole in soles]
        self._feet = np.concatenate(corners) if corners else np.empty((0, 3))

    def put(self, share: float) -> None:
        """Hold the robot 2 cm above the floor at share 0, and with its soles on the floor at share 1."""
        centre, turned = self._level() if self._soles else (self._upright, _UPRIGHT)
        self._place(centre, turned, share)

    def holds(self, since: float) -> bool:
        """Hold, lower or release the robot, `since` s after its first motor is on; return whether it is held."""
        if since >= _RELEASED:
            return False
        if since > 0:
            self.put(min(1.0, since / _LOWERED))
        else:  # limp legs hang, so the soles give no direction
            self._place(self._upright, _UPRIGHT, 0.0)
        return True

    def _place(self, centre: FloatArray, turned: Quaternion, share: float) -> None:
        x, y, z = centre.tolist()
        z += _CLEARANCE * (1 - share)
        base = self._engine.base()
        if share >= 1 and base is not None:
            z = min(z, base[0][2])  # never lift a standing robot: its feet would slip apart, step by step
        self._engine.place_base(((x, y, z), turned))

    def _level(self) -> tuple[FloatArray, Quaternion]:
        """Return the position of the base's centre of mass, m, and the rotation for which the soles are level."""
        base = self._engine.base()
        assert base is not None
        centre, axes = np.array(base[0]), matrix(base[1])
        up, corners = np.zeros(3), []
        for link, sole in self._soles:
            foot = self._engine.motion(link)
            turn = matrix(foot.turned)
            up += axes.T @ turn[:, 2]
            corners.append((foot.place + sole @ turn.T - centre) @ axes)
        turned = _righting(up)
        feet = np.concatenate(corners) @ matrix(turned).T
        place = self._feet.mean(axis=0) - feet.mean(axis=0)
        place[2] = self._feet[:, 2].min() - feet[:, 2].min()
        return place, turned


def _righting(up: FloatArray) -> Quaternion:
    """Return the smallest rotation that makes the direction `up` (3,) point upwards."""
    across = np.array((up[1], -up[0], 0.0))
    length = float(np.hypot(up[0], up[1]))
    axis = across / length if length > 1e-12 else np.array((1.0, 0.0, 0.0))
    return of_axis(axis.tolist(), math.atan2(length, float(up[2])))


def supported(bank: ServoBank, rig: Rig) -> ServoBank:
    """Return the bank of a rig, with a gantry when its robot stands free and could fall."""
    if bank.engine.base() is None:
        return bank
    gantry = Gantry(rig, bank.engine)
    motor_on: float | None = None  # time at which the first motor was switched on, s

    def hold_or_release() -> None:
        nonlocal motor_on
        if not bank.command[:, Command.TORQUE].any():
            motor_on = None
        elif motor_on is None:
            motor_on = bank.time
        gantry.holds(0.0 if motor_on is None else bank.time - motor_on)

    bank.before = hold_or_release
    return bank
