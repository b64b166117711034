"""The pytest plug-in: the fixture `servo_bus`, its marker and its option."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from axbridge.errors import UsageError
from axbridge.testing.servo_bus import ServoBus, serve

_MARKER = "servo_bus(rig, *, faults='', timing='none', seed=0): which virtual servos the fixture serves, and how"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the default rig."""
    group = parser.getgroup("axbridge")
    group.addoption("--servo-bus", metavar="RIG", default="bench_arm", help="Rig of the fixture servo_bus.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture(scope="session")
def _servo_buses() -> Iterator[tuple[ExitStack, dict[str, ServoBus]]]:
    """Yield the servers of this process, one per rig; they run until the last test."""
    with ExitStack() as servers:
        yield servers, {}


@pytest.fixture
def servo_bus(
    request: pytest.FixtureRequest, _servo_buses: tuple[ExitStack, dict[str, ServoBus]]
) -> Iterator[ServoBus]:
    """Yield virtual servos on a serial port, reset for each test; see `axbridge.testing.ServoBus`."""
    marker = request.node.get_closest_marker("servo_bus")
    options: dict[str, Any] = dict(marker.kwargs) if marker else {}
    named = marker.args[0] if marker and marker.args else options.pop("rig", None)
    if unknown := sorted(options.keys() - {"faults", "timing", "seed"}):
        raise UsageError(
            f"the marker servo_bus has no option {', '.join(unknown)}", f"it is {_MARKER.partition(': ')[0]}"
        )
    rig = str(named or request.config.getoption("--servo-bus"))
    servers, known = _servo_buses
    bus = known.get(rig)
    if bus is None or not bus.running:
        bus = known[rig] = servers.enter_context(serve(rig))
    bus.reset(**{"timing": "none", **options})
    yield bus
    if not bus.running:
        pytest.fail(f"the server of {rig} ended in {request.node.nodeid}; the next test gets another", pytrace=False)
