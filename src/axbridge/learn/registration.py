"""The names under which gymnasium finds the environments."""

from __future__ import annotations

import gymnasium

__all__ = ["ENVIRONMENTS", "register"]

ENVIRONMENTS = {  # one robot, many of them, steps of an episode
    "axbridge/Reach-v0": ("axbridge.learn.reach:Reach", "axbridge.learn.vector_reach:VectorReach", 100),
    "axbridge/BioloidStand-v0": ("axbridge.learn.stand:BioloidStand", None, 250),
}


def register() -> None:
    """Make the environments known to `gymnasium.make`; may be called twice."""
    for name, (one, many, steps) in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=one, vector_entry_point=many, max_episode_steps=steps)
