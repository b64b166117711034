"""A client of the live page without a browser: it says what a browser would say, and what somebody else might."""

import time
from contextlib import contextmanager
from html import unescape

from websockets.sync.client import connect


class PageClient:
    """Hears the page's elements, and sets their values.

    Attributes:
        elements: Properties and value of each element, by its uuid.
    """

    def __init__(self, socket):
        self._socket = socket
        self.elements = {}

    def look(self):
        """Say where the camera is: viser counts no one as there before."""
        turn, place = (1.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        camera = {"type": "ViewerCameraMessage", "wxyz": turn, "position": place, "fov": 1.0, "near": 0.01}
        size = {"far": 100.0, "image_height": 100, "image_width": 100}
        self._send({**camera, **size, "look_at": (0.0, 0.0, 0.0), "up_direction": (0.0, 0.0, 1.0)})

    def hear(self):
        """Take in what has come."""
        import msgspec
        import zstandard

        while True:
            try:
                packet = self._socket.recv(timeout=0.01)
            except TimeoutError:
                return
            size = int.from_bytes(packet[8:16], "little")
            for message in msgspec.msgpack.decode(zstandard.decompress(packet[16 : 16 + size]))["messages"]:
                self._take(message)

    def _take(self, message):
        if message["type"] == "GuiUpdateMessage":
            self.elements.setdefault(message["uuid"], {}).update(message["updates"])
        elif message["type"].startswith("Gui") and "props" in message:
            facts = {**message["props"], "value": message.get("value"), "type": message["type"]}
            self.elements.setdefault(message["uuid"], {}).update(facts)

    def wait_for(self, true, seconds=20):
        """Wait until this is true of the page."""
        until = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < until
            self.hear()

    def find(self, label, kind=""):
        """The uuids of the elements with this label, and of a kind (as ``Slider``)."""

        def found():
            return [
                uuid
                for uuid, facts in self.elements.items()
                if facts.get("label") == label and kind in facts.get("type", "")
            ]

        self.wait_for(found)
        return found()

    def value(self, label, kind=""):
        return self.elements[self.find(label, kind)[0]]["value"]

    def set(self, label, value, kind=""):
        """Give these elements a value, as a hand at them does."""
        for uuid in self.find(label, kind):
            self.set_one(uuid, value)

    def set_one(self, uuid, value):
        self.elements[uuid]["value"] = value  # as a browser shows it; nobody tells it
        self._send({"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"value": value}})

    def press(self, label):
        """Press a button."""
        self.set(label, True, "Button")

    def _send(self, message):
        import msgspec

        self._socket.send(msgspec.msgpack.encode(message))

    @property
    def text(self):
        """All that stands on the page as HTML."""
        self.hear()
        return unescape(" ".join(facts["content"] for facts in self.elements.values() if facts.get("content")))


@contextmanager
def page_client(page):
    """A client of a `axbridge.view.page.LivePage` that is counted as there."""
    import viser

    url = page.url
    protocol = f"viser-v{viser.__version__}"
    socket = connect(
        url.replace("http", "ws"), origin=url.rstrip("/"), proxy=None, subprotocols=[protocol], max_size=None
    )
    with socket:
        client = PageClient(socket)
        before = set(page.server.get_clients())
        client.look()
        client.wait_for(lambda: set(page.server.get_clients()) - before)
        yield client
