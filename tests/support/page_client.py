"""A client of the live page without a browser: it says what a browser would say, and what somebody else might."""

import json
import struct
import time
from contextlib import contextmanager

from websockets.sync.client import connect


class PageClient:
    """Hears what the page is told, and asks as its buttons and sliders do."""

    def __init__(self, socket):
        self._socket = socket
        self.news, self.frames = {}, []  # the latest words; times and numbers

    def hear(self):
        """Take in what has come."""
        while True:
            try:
                data = self._socket.recv(timeout=0.01)
            except TimeoutError:
                return
            if isinstance(data, bytes):
                numbers = struct.unpack(f"<{(len(data) - 8) // 4}f", data[8:])
                self.frames.append((struct.unpack("<d", data[:8])[0], numbers))
            else:
                self.news = json.loads(data)

    def wait_for(self, true, seconds=20):
        """Wait until this is true of the page."""
        until = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < until
            self.hear()

    def ask(self, what, **values):
        self.send(json.dumps({"ask": what, **values}))

    def send(self, text):
        self._socket.send(text)

    @property
    def text(self):
        """All that the page says."""
        self.hear()
        return json.dumps(self.news, ensure_ascii=False)


@contextmanager
def page_client(page):
    """A client of a `axbridge.view.page.LivePage` that is counted as there."""
    url, before = page.url, page.server.watched
    with connect(url.replace("http", "ws") + "live", origin=url.rstrip("/"), proxy=None, max_size=None) as socket:
        client = PageClient(socket)
        client.wait_for(lambda: page.server.watched > before)
        yield client
