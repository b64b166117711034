"""A robot as a gymnasium environment on any backend: observations are positions and speeds, actions are goals.

Each episode begins with a newly built simulated robot, held up if it could fall, or with a real one moved to its start.
"""

from __future__ import annotations

import math
import time
import warnings
from abc import abstractmethod
from typing import Any, ClassVar, SupportsFloat

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.config.rig import Rig
from axbridge.errors import ControlWarning, SimulationDiverged, UsageError, nearest, plural, require
from axbridge.learn.randomise import Randomisation, is_amount
from axbridge.robot.backend import BackendName
from axbridge.robot.open import chosen_backend, open_robot
from axbridge.robot.robot import Robot
from axbridge.robot.simulation import hold_up
from axbridge.robot.trajectory_time import REPLY_TIMEOUT
from axbridge.rotations import matrix
from axbridge.servo.checks import is_no_angle

require("an environment", "gymnasium")
import gymnasium  # noqa: E402
from gymnasium import spaces  # noqa: E402

Observation = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]

_FASTEST = 20.0  # rad/s; bound of speeds in the observation space: an AX-12 reaches 6, a falling arm 17
_STALE = 500.0  # ms without a step after which a real robot's motors go off: learning may take time between steps
_RETURN_TIME = 1.0  # s in which a real robot moves back to its start
_HOLD_TIME = 0.5  # s in which a free-standing simulated robot is held, until its motors have torque
_ROUNDING = 1e-5  # rad; rounding error of an action in 32 bits


class ServoEnv(gymnasium.Env[Observation, Observation]):  # type: ignore[misc]  # gymnasium is skipped
    """One robot, one action a control period: a goal for each servo, rad, within the rig's limits.

    An observation is the positions (rad), the speeds (rad/s) and the task's values. An episode is terminated when the
    robot fails: a servo reports overload, overheating or a wrong supply, is missing, or was switched off by
    the watchdog or a limit; ``info["fault"]`` says which.

    Args:
        rig: A name, a path or a `Rig`.
        backend: As for `axbridge.open`; likewise `port`.
        step_ms: Control period; the rig's by default.
        randomise: Distribution of the robots that episodes draw; only on ``sim``.
        render_mode: ``rgb_array``: `render` returns a picture, (360, 480, 3); it needs PyBullet and no display.

    Attributes:
        robot: The robot of this episode; None before the first.
        rig: The rig.
        start: Positions at the begin of an episode, (n,), rad.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(
        self,
        rig: str | Rig,
        backend: BackendName | None = None,
        *,
        port: str | None = None,
        step_ms: float | None = None,
        randomise: Randomisation | None = None,
        render_mode: str | None = None,
        **others: Any,
    ) -> None:
        if others:
            known = ("backend", "port", "step_ms", "randomise", "render_mode")
            name = next(iter(others))
            raise UsageError(f"there is no option {name!r}", f"{nearest(name, known)}known: {', '.join(known)}")
        if randomise is not None and not isinstance(randomise, Randomisation):
            why = f"randomise is a Randomisation, not {type(randomise).__name__}"
            raise UsageError(why, "write randomise=axbridge.learn.randomise.Randomisation(ranges={...})")
        if render_mode not in {None, *self.metadata["render_modes"]}:
            raise UsageError(f"there is no render_mode {render_mode!r}", 'take "rgb_array", or leave it out')
        self.render_mode = render_mode
        self._camera: Camera | None = None
        self.rig = rig if isinstance(rig, Rig) else Rig.load(rig)
        self._backend = chosen_backend(backend, port)
        if randomise is not None and self._backend != "sim":
            why = f"backend {self._backend} has a real robot, whose parameters cannot be drawn"
            raise UsageError(why, "leave randomise out")
        if self._backend != "sim" and self.rig.safety.stale_command_ms is None:
            self.rig = self.rig.overridden({"safety": {"stale_command_ms": _STALE}})
        self.robot: Robot | None = None
        self._port, self._randomise = port, randomise
        self._step_ms = self.rig.robot.basic_time_step_ms if step_ms is None else step_ms
        if not is_amount(self._step_ms) or not self._step_ms:
            raise UsageError(f"a step_ms of {step_ms!r}", "give ms, such as 20")
        self.start = np.array([servo.position for servo in self.rig.servos])
        profiles = {servo.name: self.rig.specs[servo.name].profile for servo in self.rig.dynamixels}
        self._fault_masks = {name: PROTOCOLS[own.protocol].fault_mask for name, own in profiles.items()}
        self._lost: dict[str, tuple[float, str]] = {}
        self._stepped = 0.0
        low, high = self._low, self._high = _limits(self.rig)
        more_low, more_high = self.bounds()
        speeds = np.full(len(low), _FASTEST)
        self.action_space = spaces.Box(low.astype(np.float32), high.astype(np.float32))
        beyond = 0.2  # rad: an arm may swing past its soft limits
        lowest = np.concatenate([low - beyond, -speeds, more_low])
        highest = np.concatenate([high + beyond, speeds, more_high])
        self.observation_space = spaces.Box(lowest.astype(np.float32), highest.astype(np.float32))

    # ---- methods of a task

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and highest values that the task adds to the observation."""
        return np.empty(0), np.empty(0)

    def begin(self, robot: Robot) -> None:
        """Begin an episode: draw its random values from `self.np_random`."""

    def seen(self) -> FloatArray:
        """Return the values that the task adds to the observation."""
        return np.empty(0)

    @abstractmethod
    def judge(self, robot: Robot) -> tuple[float, bool, dict[str, Any]]:
        """Return a step's reward, whether the task has ended, and further information."""

    # ---- methods of gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; on ``sim`` the same seed gives exactly the same episode."""
        super().reset(seed=seed, options=options)
        self._lost = {}
        if self._backend == "sim":
            self._build()
        else:
            self._return_to_start()
        robot = self._opened()
        self._stepped = time.monotonic()
        self.begin(robot)
        return self._observe(robot), {}

    def step(self, action: npt.ArrayLike) -> tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]:
        """Send the goals, wait for a control period, observe.

        Raises:
            UsageError: goals that are not finite, out of the action space, or not one for each servo.
        """
        robot = self._opened()
        try:
            goals = np.asarray(action, dtype=float)
        except (TypeError, ValueError) as failure:
            raise UsageError(f"{action!r} are no goals", "give one number for each servo, rad") from failure
        self._refuse(goals)
        try:
            if not self._tripped():  # a goal would switch the motors on again, although the robot may have sunk
                robot.set_positions(np.clip(goals, self._low, self._high))
            late = robot.step(self._step_ms)
        except SimulationDiverged as failure:
            return self._observe(robot), 0.0, True, False, {"fault": failure.message}
        self._stepped = time.monotonic()
        info: dict[str, Any] = {"late_ms": max(late, 0.0), "time": robot.time}
        fault = self._fault(robot)
        if self._backend == "twin" and robot.simulation is not None:
            info["shadow"] = {name: state.position for name, state in robot.simulation.shadow().items()}
        reward, over, more = self.judge(robot)
        if fault:
            info["fault"] = fault
        return self._observe(robot), reward, over or bool(fault), False, info | more

    def render(self) -> Picture | None:
        """Return a picture of the robot, (360, 480, 3), with ``render_mode="rgb_array"``; else None.

        Raises:
            UsageError: `reset` was not called yet, or PyBullet is not installed.
        """
        if self.render_mode is None:
            return None
        if self._camera is None:
            self._camera = Camera(self.rig)
        return self._camera.picture(self._opened())

    def close(self) -> None:
        """Close the robot, with the rig's exit policy."""
        if self._camera is not None:
            self._camera.close()
            self._camera = None
        if self.robot is not None:
            self.robot.close()
            self.robot = None

    # ---- implementation

    def _refuse(self, goals: FloatArray) -> None:
        """Raise UsageError for goals that are not one for each servo, not finite, or not in the action space."""
        if goals.shape != self._low.shape:
            given = goals.size if goals.ndim == 1 else f"an array of shape {goals.shape}"
            raise UsageError(f"expected {plural(len(self._low), 'goal')}, got {given}", "give one for each servo, rad")
        if not np.isfinite(goals).all():
            raise UsageError(f"{goals} are not all finite", "give each servo a number, rad")
        out = (goals < self._low - _ROUNDING) | (goals > self._high + _ROUNDING)
        for servo, goal, low, high, beyond in zip(self.rig.servos, goals, self._low, self._high, out, strict=True):
            if beyond:
                problem = f"goal {goal:g} rad of {servo.name!r} is outside of {low:.3f} to {high:.3f} rad"
                hint = "clip it: numpy.clip(action, space.low, space.high), or gymnasium's ClipAction"
                degrees = is_no_angle(float(goal), float(low), float(high))
                raise UsageError(problem, f"radians? {goal:g}° is {math.radians(goal):.4g}" if degrees else hint)

    def _opened(self) -> Robot:
        if self.robot is None:
            raise UsageError("there is no robot yet", "call reset first")
        return self.robot

    def _tripped(self) -> bool:
        """Return whether a real robot's watchdog has switched its motors off since the last step."""
        patience = self.rig.safety.stale_command_ms
        if self._backend == "sim" or patience is None:
            return False
        return (time.monotonic() - self._stepped) * 1000 > patience

    def _build(self) -> None:
        self.close()
        seed = int(self.np_random.integers(2**31))
        rig = self.rig if self._randomise is None else self._randomise.drawn(self.rig, self.np_random)
        robot = self.robot = open_robot(rig, "sim", seed=seed)
        simulation = robot.simulation
        assert simulation is not None
        if self._randomise is not None:
            simulation.inject(self._randomise.faults())
        steps = 1 if simulation.gantry is None else math.ceil(_HOLD_TIME * 1000 / self._step_ms)
        for count in range(steps):
            robot.set_positions(np.clip(self.start, self._low, self._high))  # switches them on
            hold_up(simulation, (count + 1) / steps)
            robot.step(self._step_ms)

    def _return_to_start(self) -> None:
        if self.robot is None:
            self.robot = open_robot(self.rig, self._backend, port=self._port)
        with warnings.catch_warnings():
            # A path that starts a count beyond a limit is clipped, with a warning.
            warnings.simplefilter("ignore", ControlWarning)
            self.robot.goto(dict(zip(self.robot, self.start.tolist(), strict=True)), _RETURN_TIME)

    def _observe(self, robot: Robot) -> Observation:
        seen = np.concatenate([robot.positions, robot.velocities, self.seen()])
        box = self.observation_space
        assert isinstance(box, spaces.Box)
        observation: Observation = np.clip(np.nan_to_num(seen), box.low, box.high).astype(np.float32)
        return observation

    def _fault(self, robot: Robot) -> str:
        """Return why the episode must end; empty without a fault."""
        for event in robot.last_step.events:
            if event.kind in {"missing", "port lost"}:
                self._lost[event.name] = robot.time, event.error.message if event.error is not None else event.kind
            elif event.kind in {"returned", "port back"}:
                self._lost.pop(event.name, None)
        for name, (since, why) in self._lost.items():
            if robot.time - since > REPLY_TIMEOUT:
                return f"{name or 'the port'} is lost: {why}"
        for name, servo in robot.items():
            alarms = servo.state.errors & self._fault_masks.get(name, 0)
            if alarms:
                return f"{name} reports {alarms.describe()}"
            if not servo.torque_enabled:
                return f"{name} was switched off"
        return ""


def _limits(rig: Rig) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and highest goals within the rig's limits and the registers' ranges, (n,) each, rad."""
    ends = []
    for servo in rig.servos:
        spec = rig.specs[servo.name]
        low, high = np.clip(servo.soft_limits, *spec.stops)
        if servo.drive == "dynamixel":
            lowest, highest = spec.calibration.range
            low, high = max(low, lowest), min(high, highest)
        ends.append((low, high))
    low_ends, high_ends = np.array(ends).T
    return low_ends, high_ends


_FALLEN = 0.7  # share of its height below which a simulated robot has fallen


class Reach(ServoEnv):
    """Task: each joint must reach an angle that is drawn for each episode, at most `span` rad from the start.

    The observation adds the targets, rad. The reward is minus the mean distance from them, rad.
    """

    def __init__(
        self, rig: str | Rig, backend: BackendName | None = None, *, span: float = 1.2, **options: Any
    ) -> None:
        if not is_amount(span):
            raise UsageError(f"a span of {span!r}", "give rad, such as 1.2")
        self._span = span
        super().__init__(rig, backend, **options)
        self.targets = self.start.copy()

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and highest targets, rad."""
        return np.maximum(self._low, self.start - self._span), np.minimum(self._high, self.start + self._span)

    def begin(self, robot: Robot) -> None:  # noqa: ARG002 - the task is the same for every robot
        """Draw the targets."""
        self.targets = self.np_random.uniform(*self.bounds())

    def seen(self) -> FloatArray:
        """Return the targets, rad, one for each servo."""
        return self.targets

    def judge(self, robot: Robot) -> tuple[float, bool, dict[str, Any]]:
        """Return minus the mean distance as reward, and the largest distance from a target, rad."""
        distance = np.abs(robot.positions - self.targets)
        return -float(distance.mean()), False, {"distance": float(distance.max())}


class BioloidStand(ServoEnv):
    """Task: a Bioloid must stand in its start pose, with little load on its servos.

    The reward of a step is 1 minus terms for the error of the pose and for the load. Only the simulator detects a
    fall, because no servo measures it.
    """

    def judge(self, robot: Robot) -> tuple[float, bool, dict[str, Any]]:
        """Return the reward, whether the robot has fallen, and the height of its base, m."""
        error = float(np.mean((robot.positions - self.start) ** 2))
        load = float(np.mean(np.nan_to_num(robot.loads) ** 2))
        reward = 1.0 - 10.0 * error - 0.5 * load
        base = robot.simulation.base if robot.simulation is not None else None
        first = robot.simulation.base_start if robot.simulation is not None else None
        if base is None or first is None:
            return reward, False, {}
        fallen = base[0][2] < _FALLEN * first[0][2]
        return reward - (10.0 if fallen else 0.0), fallen, {"height": base[0][2]}


# ---- pictures, by PyBullet's software renderer, which needs no display

_WIDTH, _HEIGHT = 480, 360  # pixels
_FIELD = 45.0  # degrees
_YAW, _PITCH = 50.0, -20.0  # degrees: from the front right, slightly above
_AWAY = 2.2  # distance in robot sizes


class Camera:
    """Draws a rig's robot in its reported pose; the viewpoint is that of the first picture.

    Raises:
        UnsupportedOperation: PyBullet is not installed.
        RigError: PyBullet cannot load the rig.
    """

    def __init__(self, rig: Rig) -> None:
        require("drawing a picture", "pybullet")
        import pybullet

        from axbridge.sim.engine import Scene
        from axbridge.sim.engines.bullet.engine import BulletEngine

        self._bullet = pybullet
        self._model = BulletEngine(Scene.of(rig, ()))
        self._row = {name: row for row, name in enumerate(self._model.joints)}
        self._joints = [servo.joint for servo in rig.servos]
        self._shapes = rig.shapes("visual")
        self._view: list[float] | None = None

    def picture(self, robot: Robot) -> Picture:
        """Return a picture of the robot, (360, 480, 3)."""
        for joint, position in zip(self._joints, robot.positions.tolist(), strict=True):
            self._model.place_joint(self._row[joint], position)
        base = robot.simulation.base if robot.simulation is not None else None
        if base is not None:
            self._model.place_base(base)
        lens = self._bullet.computeProjectionMatrixFOV(_FIELD, _WIDTH / _HEIGHT, 0.01, 20.0)
        how = {"renderer": self._bullet.ER_TINY_RENDERER, "physicsClientId": self._model.client}
        _, _, pixels, *_ = self._bullet.getCameraImage(_WIDTH, _HEIGHT, self._look(), lens, **how)
        picture: Picture = np.reshape(np.asarray(pixels, dtype=np.uint8), (_HEIGHT, _WIDTH, 4))[..., :3].copy()
        return picture

    def close(self) -> None:
        """Release PyBullet; may be called twice."""
        self._model.close()

    def _look(self) -> list[float]:
        """Return the view matrix, by the robot's size and place in the first picture."""
        if self._view is None:
            poses = self._model.poses()
            places = {link: np.array(place) for link, (place, _) in poses.items()}
            shown = [places[shape.link] + matrix(poses[shape.link][1]) @ shape.place for shape in self._shapes]
            points = np.array([*places.values(), *shown])
            low, high = points.min(axis=0), points.max(axis=0)
            distance = max(_AWAY * float(np.linalg.norm(high - low)), 0.1)
            middle = ((low + high) / 2).tolist()
            self._view = self._bullet.computeViewMatrixFromYawPitchRoll(middle, distance, _YAW, _PITCH, 0.0, 2)
        return self._view
