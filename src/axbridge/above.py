"""What lower rooms ask of higher ones, which they do not know. `axbridge/__init__`, which knows all, fills it in.

Attributes:
    show: Shows a robot on its page: `axbridge.view.attach.attach`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

show: Callable[..., Any]
