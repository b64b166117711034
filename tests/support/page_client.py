"""A client of the live page without a browser: it sends the messages of a browser, and invalid ones."""

import json
import struct
import time
from contextlib import contextmanager

from websockets.sync.client import connect


class PageClient:
    """Receives the messages to the page, and sends requests as its buttons and sliders do."""

    def __init__(self, socket):
        self._socket = socket
        self.message, self.frames = {}, []  # the latest text message; times and numbers

    def receive(self):
        """Read all messages that have arrived."""
        while True:
            try:
                data = self._socket.recv(timeout=0.01)
            except TimeoutError:
                return
            if isinstance(data, bytes):
                numbers = struct.unpack(f"<{(len(data) - 8) // 4}f", data[8:])
                self.frames.append((struct.unpack("<d", data[:8])[0], numbers))
            else:
                self.message = json.loads(data)

    def wait_for(self, true, seconds=20):
        """Wait until this is true of the page."""
        until = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < until
            self.receive()

    def ask(self, what, **values):
        self.send(json.dumps({"ask": what, **values}))

    def send(self, text):
        self._socket.send(text)

    @property
    def text(self):
        """All that the page says."""
        self.receive()
        return json.dumps(self.message, ensure_ascii=False)


@contextmanager
def page_client(page):
    """A client of a `axbridge.view.page.LivePage` that is counted as there."""
    url, before = page.url, page.server.watched
    with connect(url.replace("http", "ws") + "live", origin=url.rstrip("/"), proxy=None, max_size=None) as socket:
        client = PageClient(socket)
        client.wait_for(lambda: page.server.watched > before)
        yield client
