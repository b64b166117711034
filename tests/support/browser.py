"""Chromium without a window, driven over its DevTools protocol: what a person would see, click and type."""

import base64
import json
import shutil
import subprocess
import time
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from websockets.sync.client import connect

from tests.support.waiting import until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_QUIET = (
    "--headless", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--disable-default-apps", "--mute-audio",
    "--remote-debugging-port=0",
)  # fmt: skip
_DRAWN = "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"
_BLIND = "--disable-gpu", "--disable-3d-apis"

# The place of the first visible element of this selector.
_FIND = """selector => {
  for (const one of document.querySelectorAll(selector)) {
    const box = one.getBoundingClientRect();
    if (box.width && box.height) { one.scrollIntoView({block: "nearest"}); const now = one.getBoundingClientRect();
      return {x: now.x, y: now.y, width: now.width, height: now.height}; }
  }
  return null;
}"""

# The longest of the next frames, ms.
_SLOWEST = """new Promise(done => { let last = performance.now(), worst = 0, left = 6;
  function frame(now) { worst = Math.max(worst, now - last); last = now;
    if (left--) requestAnimationFrame(frame); else done(worst); }
  requestAnimationFrame(frame); })"""


class Tab:
    """One page of the browser."""

    def __init__(self, socket):
        self._socket = socket
        self._count = 0
        self.hosts = set()  # of its requests, host and port
        self.complaints = []  # errors of its console
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            said = json.loads(self._socket.recv(timeout=30))
            if said.get("id") == self._count:
                assert "error" not in said, (method, said["error"])
                return said["result"]
            self._note(said)

    def _note(self, said):
        facts = said.get("params", {})
        if said["method"] == "Network.requestWillBeSent":
            self._ask(facts["request"]["url"])
        elif said["method"] == "Network.webSocketCreated":
            self._ask(facts["url"])
        elif said["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(facts["exceptionDetails"])[:500])
        elif said["method"] == "Runtime.consoleAPICalled" and facts["type"] in {"error", "assert"}:
            self.complaints.append(json.dumps(facts["args"])[:500])
        elif said["method"] == "Log.entryAdded" and facts["entry"]["level"] == "error":
            self.complaints.append(facts["entry"]["text"] + " " + facts["entry"].get("url", ""))

    def _ask(self, url):
        if not url.startswith(("data:", "blob:")):
            self.hosts.add(urlsplit(url).netloc)

    def run(self, script):
        """The value of a JavaScript expression."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_for(self, script, seconds=20):
        """Wait until a JavaScript expression is truthy; its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"not true in {seconds} s: {script}"
            time.sleep(0.05)
        return value

    def settle(self, seconds=40):
        """Wait until it draws fluently: at first it compiles its shaders, which takes seconds without a graphics card."""
        until(lambda: self.run(_SLOWEST) <= 400, seconds)

    def box(self, selector):
        """Where an element is, when it is there."""
        return self.wait_for(f"({_FIND})({json.dumps(selector)})")

    def click(self, selector):
        """Click the middle of an element."""
        box = self.box(selector)
        self.click_at(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def click_at(self, x, y):
        self.point("mousePressed", x, y)
        self.point("mouseReleased", x, y)

    def point(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def key(self, key, code, number):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number)

    def picture(self):
        """A screenshot, PNG bytes."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


@contextmanager
def browsing(folder, width=1500, height=950, *, graphics=True):
    """A browser; yields what opens a page, and its `process`. Without `graphics` it is as on many remote desktops."""
    profile = folder / "profile"
    process = subprocess.Popen(
        [CHROMIUM, *_QUIET, *(_DRAWN if graphics else _BLIND), f"--window-size={width},{height}", f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    sockets = ExitStack()
    try:
        said = profile / "DevToolsActivePort"
        port = until(lambda: said.is_file() and said.read_text(), 30).split()[0]

        def opened(url):
            request = Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
            with urlopen(request, timeout=10) as answer:
                target = json.load(answer)
            settings = {"max_size": None, "proxy": None, "close_timeout": 1, "ping_interval": None}
            tab = Tab(sockets.enter_context(connect(target["webSocketDebuggerUrl"], **settings)))
            tab.call("Page.navigate", url=url)
            return tab

        opened.process = process
        yield opened
    finally:
        process.kill()  # first: a busy page would delay the end of its sockets
        process.wait()
        sockets.close()
