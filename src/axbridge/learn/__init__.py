"""Reinforcement learning: gymnasium environments, randomisation and sweeps of parameters.

>>> import gymnasium
>>> import axbridge.learn
>>> environment = gymnasium.make("axbridge/Reach-v0", rig="bench_arm", backend="sim")
>>> environment.action_space.shape
(1,)
>>> environment.close()
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("gymnasium") is not None:
    import gymnasium

    for _name, _task, _rig, _steps in (  # longest episode, steps
        ("axbridge/Reach-v0", "axbridge.learn.servo_env:Reach", "bench_arm", 100),
        ("axbridge/BioloidStand-v0", "axbridge.learn.servo_env:BioloidStand", "bioloid", 250),
    ):
        if _name not in gymnasium.registry:
            gymnasium.register(_name, entry_point=_task, max_episode_steps=_steps, kwargs={"rig": _rig})
