"""Where the centre of mass has to go, so that the zero-moment point goes where the feet stand: preview control.

The robot is taken as a cart of its whole mass on a table: the centre of mass x keeps its height z, and the zero-moment
point (ZMP), where the floor's push acts, is p = x - (z/g)·x''. Preview control is the linear optimal control of x'''
that lets p follow a reference which is known some time ahead: the cart has to set off before the point moves.

Kajita et al., *Biped Walking Pattern Generation by using Preview Control of Zero-Moment Point*, ICRA 2003: the cart on
the table is its section 3, the control its section 4.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_discrete_are

from axbridge.arrays import FloatArray

GRAVITY = 9.81  # m/s²
_AHEAD = 1.6  # s of the reference that the control looks at; at 0.25 m, what comes later weighs less than 1e-4
_ERROR, _JERK = 1.0, 1e-6  # weights of the ZMP's summed error and of x'''


def followed(reference: FloatArray, height: float, step: float) -> tuple[FloatArray, FloatArray]:
    """Let the zero-moment point follow a reference, from rest.

    Args:
        reference: The ZMP wanted at each moment, (n, axes), m; after the last moment it stays.
        height: Of the centre of mass above the floor, m.
        step: From one moment to the next, s.

    Returns:
        The centre of mass and its ZMP, (n, axes) each, m.
    """
    ahead = round(_AHEAD / step)
    feedback, preview = _gains(height, step, ahead)
    a, b, c = _cart(height, step)
    wanted = np.concatenate((reference, np.repeat(reference[-1:], ahead, axis=0)))
    state = np.zeros((3, reference.shape[1]))
    state[0] = reference[0]
    missed = np.zeros(reference.shape[1])
    centre, point = np.empty_like(reference), np.empty_like(reference)
    for k in range(len(reference)):
        centre[k], point[k] = state[0], c @ state
        missed += point[k] - wanted[k]
        jerk = preview @ wanted[k + 1 : k + 1 + ahead] - feedback[0] * missed - feedback[1:] @ state
        state = a @ state + np.outer(b, jerk)
    return centre, point


def _cart(height: float, step: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Position, speed and acceleration (3, 3) on jerk (3,) in steps, and the ZMP they make (3,)."""
    a = np.array(((1.0, step, step**2 / 2), (0.0, 1.0, step), (0.0, 0.0, 1.0)))
    return a, np.array((step**3 / 6, step**2 / 2, step)), np.array((1.0, 0.0, -height / GRAVITY))


def _gains(height: float, step: float, ahead: int) -> tuple[FloatArray, FloatArray]:
    """Feedback of the summed error and the state, (4,), and gains of the reference to come, (ahead,)."""
    a, b, c = _cart(height, step)
    wide = np.zeros((4, 4))  # the summed error beside the cart
    wide[0, 0], wide[0, 1:], wide[1:, 1:] = 1.0, c @ a, a
    push = np.concatenate(([c @ b], b))
    riccati = solve_discrete_are(wide, push[:, None], np.diag((_ERROR, 0.0, 0.0, 0.0)), np.array(((_JERK,),)))
    weight = 1.0 / (_JERK + push @ riccati @ push)
    feedback: FloatArray = weight * (push @ riccati @ wide)
    closed = wide - np.outer(push, feedback)
    preview = np.empty(ahead)
    preview[0] = feedback[0]
    later = closed.T @ riccati[:, 0] * _ERROR
    for k in range(1, ahead):
        preview[k] = weight * (push @ later)
        later = closed.T @ later
    return feedback, preview
