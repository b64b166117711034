"""Virtual servos to test a servo driver, and the contracts of every `Bus` and physics `Engine`.

`serve` runs virtual servos beside a test, as `ServoBus`; the pytest fixture `servo_bus` gives each test a new one
(docs/test-your-driver.md).

`check_bus` and `check_engine` test a `Bus` or an `Engine` of your own:

>>> from axbridge import Rig
>>> from axbridge.testing import check_bus
>>> from axbridge.virtual.bus import VirtualBus
>>> from axbridge.virtual.world import World
>>> kept = check_bus(lambda: VirtualBus(World(Rig.load("bench_arm"))), id=1)  # or your own bus
>>> kept[0]
'a servo that is there answers a ping'

`check_bus` needs one servo that answers writes, and a bus that knows its protocol. It switches the servo's LED (of a
Feetech servo, its acceleration) and restores it; it moves nothing. No test framework is needed: a broken promise raises
an `AssertionError` with its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axbridge.testing.servo_bus import LoggedPacket, ServoBus, serve

if TYPE_CHECKING:
    from axbridge.testing.bus_contract import check_bus
    from axbridge.testing.engine_contract import check_engine

__all__ = ["LoggedPacket", "ServoBus", "check_bus", "check_engine", "serve"]


def __getattr__(name: str) -> Any:
    """Import a contract at its first use: it imports half of axbridge, which would delay every run of pytest."""
    if name == "check_bus":
        from axbridge.testing.bus_contract import check_bus

        return check_bus
    if name == "check_engine":
        from axbridge.testing.engine_contract import check_engine

        return check_engine
    raise AttributeError(f"module 'axbridge.testing' has no attribute {name!r}")
