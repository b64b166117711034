"""All protocols that axbridge speaks, as profiles name them."""

from __future__ import annotations

from collections.abc import Mapping

from axbridge.bus.protocols.dynamixel import FIRST, SECOND
from axbridge.bus.protocols.feetech import SCS, STS
from axbridge.bus.protocols.protocol import Protocol
from axbridge.config.instructions import Version

PROTOCOLS: Mapping[Version, Protocol] = {one.name: one for one in (FIRST, SECOND, STS, SCS)}
