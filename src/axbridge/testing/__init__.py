"""The contracts that every `Bus` and every physics `Engine` fulfil, as functions: run them on your own.

>>> from axbridge import Rig
>>> from axbridge.virtual.bus import VirtualBus
>>> from axbridge.virtual.world import World
>>> kept = check_bus(lambda: VirtualBus(World(Rig.load("bench_arm"))), id=1)  # or your own bus
>>> kept[0]
'a servo that is there answers a ping'

`check_bus` needs one servo that answers writes, and a bus that knows its protocol. It switches the servo's LED (of a
Feetech servo, its acceleration) and puts it back; it moves nothing. No test framework is needed: a broken promise is an
`AssertionError` that says which one.
"""

from axbridge.testing.bus_contract import check_bus
from axbridge.testing.engine_contract import check_engine

__all__ = ["check_bus", "check_engine"]
