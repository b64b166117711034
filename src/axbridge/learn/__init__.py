"""Models that leave the house, and robots to learn on: exports, gymnasium environments, sweeps.

>>> import gymnasium
>>> import axbridge.learn
>>> environment = gymnasium.make("axbridge/Reach-v0", rig="bench_arm", backend="sim")
>>> environment.action_space.shape
(1,)
>>> environment.close()
"""

from __future__ import annotations

from importlib.util import find_spec

__all__: list[str] = []

if find_spec("gymnasium") is not None:
    from axbridge.learn.registration import register

    register()
