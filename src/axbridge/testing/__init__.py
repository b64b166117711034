"""For tests: virtual servos for those of a servo driver, and the contracts of every `Bus` and physics `Engine`.

`serve` runs virtual servos beside a test, as `ServoBus`; in pytest the fixture `servo_bus` is one, new for each test
(docs/test-your-driver.md).

The contracts that every `Bus` and every physics `Engine` fulfil, as functions: run them on your own.

>>> from axbridge import Rig
>>> from axbridge.testing import check_bus
>>> from axbridge.virtual.bus import VirtualBus
>>> from axbridge.virtual.world import World
>>> kept = check_bus(lambda: VirtualBus(World(Rig.load("bench_arm"))), id=1)  # or your own bus
>>> kept[0]
'a servo that is there answers a ping'

`check_bus` needs one servo that answers writes, and a bus that knows its protocol. It switches the servo's LED (of a
Feetech servo, its acceleration) and puts it back; it moves nothing. No test framework is needed: a broken promise is an
`AssertionError` that says which one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axbridge.testing.servo_bus import LoggedPacket, ServoBus, serve

if TYPE_CHECKING:
    from axbridge.testing.bus_contract import check_bus
    from axbridge.testing.engine_contract import check_engine

__all__ = ["LoggedPacket", "ServoBus", "check_bus", "check_engine", "serve"]


def __getattr__(name: str) -> Any:
    """The contracts import half of axbridge, which every run of pytest would wait for."""
    if name == "check_bus":
        from axbridge.testing.bus_contract import check_bus

        return check_bus
    if name == "check_engine":
        from axbridge.testing.engine_contract import check_engine

        return check_engine
    raise AttributeError(f"module 'axbridge.testing' has no attribute {name!r}")
