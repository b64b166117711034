"""What clients of a virtual bus connect to: the seam between the server and pseudo-terminals or sockets."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Arrival(NamedTuple):
    """Bytes from a client.

    Attributes:
        data: The bytes.
        time: When the client sent them, s on the monotonic clock.
        baud: Bits per second that the client had set; None where it cannot.
    """

    data: bytes
    time: float
    baud: float | None


class Channel(Protocol):
    """What clients connect to.

    Attributes:
        address: Where they find it.
        transit: How long bytes take from `write` to the client, s: the channel's own time, no part of the wire's.
    """

    address: str
    transit: float

    def descriptors(self) -> tuple[int, ...]:
        """What to wait on; nothing while it is unplugged."""

    def receive(self) -> list[Arrival]:
        """What has come since the last call; called when a descriptor is readable."""

    def write(self, data: bytes) -> None:
        """Hand bytes to the client."""

    def plug(self) -> None:
        """Be there, again after `unplug`."""

    def unplug(self) -> None:
        """Be gone, as an adapter that was pulled."""

    def close(self) -> None:
        """Let go; may be called twice."""
