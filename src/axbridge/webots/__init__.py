"""Webots' Python `controller` module on an axbridge robot: controllers run unmodified, simulated or on real servos.

`install` puts a `controller` package (and its submodules) where `import` finds it; ``axbridge run SCRIPT.py --rig R``
does that and runs the script. Names, values and messages follow Webots R2025a, and the `Servo` of releases before 7.2.
"""

from __future__ import annotations

from axbridge.webots.module import install
from axbridge.webots.session import Session

__all__ = ["Session", "install"]
