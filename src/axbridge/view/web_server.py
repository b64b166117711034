"""viser's web server, with a door: who may open the page, and who may talk to it; and with what axbridge serves itself.

A page that moves motors must not take commands from other pages. Any page in a browser may open a websocket to this
machine. So a request must name the host that it came to, and where it comes from must be that host, too. Hosts other
than this machine's own need a token.

axbridge puts a script of its own (`page.js`) before viser's, and serves a plain page that stops the robot without it.
"""

from __future__ import annotations

import asyncio
import hmac
import http
import ipaddress
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from html import escape
from http.cookies import SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, urlsplit

from axbridge.errors import UsageError

if TYPE_CHECKING:
    import viser


_log = logging.getLogger(__name__)
_FIRST_PORT = 8080
_COOKIE = "axbridge"
_PATIENCE = 1.0  # s for the end of the server
_OWN_PAGES = {"same-origin", "none"}  # Sec-Fetch-Site of what our page sends, and of an address that somebody typed
_STOP_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>stop: {name}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>body {{ font: 16px sans-serif; max-width: 34em; margin: 2em auto; padding: 0 1em }}
button {{ font: 600 1.6em sans-serif; width: 100%; padding: 1em; color: white; background: #c92a2a; border: 0 }}</style>
<script>{script}</script></head><body><h1>{name}</h1><p role="status">{state}</p>
<form action="/stop/now"><button autofocus>ALL OFF (space)</button></form>
<p>This page stops the robot and does no more. It needs neither 3D graphics nor a script.
<a href="/">The live page</a> needs WebGL: switch on hardware acceleration, or use another browser.</p></body></html>
"""


class Stoppable(Protocol):
    """A robot that the plain page stops."""

    @property
    def state(self) -> str:
        """Its motors, in a sentence."""

    def all_off(self) -> None:
        """Switch every motor off."""

    def note_nonsense(self, kind: str) -> None:
        """Count what somebody has sent that is no request."""


class Door:
    """Whom the page is served to.

    Args:
        host: Address the server listens on.
    """

    def __init__(self, host: str) -> None:
        self._local = _is_loopback(host)
        self.token = "" if self._local else secrets.token_urlsafe(16)

    def refuses(self, path: str, host: str, origin: str | None, cookies: str) -> tuple[int, str, dict[str, str]] | None:
        """What to answer instead of the page; None where the request is welcome."""
        if self._local and not _is_loopback(urlsplit(f"//{host}").hostname or ""):
            return 403, "this page is for this machine alone", {}
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "another page may not talk to this robot", {}
        if self._local:
            return None
        cookie = f"{_COOKIE}{urlsplit(f'//{host}').port or 80}"  # cookies know no ports
        given = parse_qs(urlsplit(path).query).get("token", [""])[0]
        if given and self._fits(given):
            kept = f"{cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return 303, "", {"Location": urlsplit(path).path, "Set-Cookie": kept}
        known = SimpleCookie(cookies).get(cookie)
        if known is not None and self._fits(known.value):
            return None
        return 401, "open the address with the token, as it was printed where this page was started", {}

    def _fits(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def need_viser() -> None:
    """Load viser."""
    loading = threading.Thread(target=_load_viser, daemon=True)
    loading.start()
    loading.join()
    try:
        import viser  # noqa: F401 - to see whether it is there
    except ImportError as missing:
        raise UsageError("the page needs viser", "python -m pip install viser") from missing


def _load_viser() -> None:
    """For a thread of its own: packages that come with viser swallow, while they are loaded, what Ctrl-C raises."""
    with suppress(Exception):
        import viser  # noqa: F401


def start(port: int | None, host: str, title: str, robot: Stoppable | None = None) -> tuple[viser.ViserServer, str]:
    """Start the server in threads of its own, quietly."""
    need_viser()
    import viser

    door = Door(host)
    with _quiet(), _guarded(door, _Own(title, robot)) as guarded:
        server = viser.ViserServer(host=host, port=_FIRST_PORT if port is None else port, label=title, verbose=False)
    found = server.get_port()
    if not guarded():
        stop(server)
        raise UsageError("this viser lets nobody guard its door", "install viser 1.1")
    if port and found != port:
        stop(server)
        raise UsageError(
            f"port {port} of {host} is taken, or none of yours", "leave --page-port out, or choose another"
        )
    name = "[::1]" if host == "::1" else host
    return server, f"http://{name}:{found}/" + (f"?token={door.token}" if door.token else "")


def stop(server: viser.ViserServer) -> None:
    """End it, quietly. A browser's idle connection may hold it up for seconds: it gets one, the rest passes aside."""

    def end() -> None:
        with _quiet():
            server.stop()

    ending = threading.Thread(target=end, daemon=True)
    ending.start()
    ending.join(timeout=_PATIENCE)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without viser's own words on the terminal: ours say what matters."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


class _Own:
    """What axbridge answers itself.

    Args:
        title: Of the page.
        robot: As of `start`.
    """

    def __init__(self, title: str, robot: Stoppable | None) -> None:
        self._title, self._robot = title, robot
        script = Path(__file__).with_name("page.js").read_text(encoding="utf-8").rstrip()
        self._script = f"{script}({'false' if robot is None else 'true'});"

    async def answer(self, path: str, headers: Mapping[str, str]) -> tuple[int, str, dict[str, str]] | None:
        """Status, text and headers; None for what is viser's."""
        if path == "/alive":
            return 200, "", {}
        if self._robot is None or path not in {"/stop", "/stop/now"}:
            return None
        if path == "/stop":
            page = _STOP_PAGE.format(name=escape(self._title), state=escape(self._robot.state), script=self._script)
            return 200, page, {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}
        if headers.get("Sec-Fetch-Site", "none") not in _OWN_PAGES or "Sec-Purpose" in headers:
            return 403, "another page may not stop this robot", {}
        await asyncio.get_running_loop().run_in_executor(None, self._robot.all_off)
        return 303, "", {"Location": "/stop"}

    def note_nonsense(self, error: BaseException | None) -> None:
        """Count on the page, and keep off the terminal, what failed because of what somebody has sent."""
        _log.debug("the page was sent what makes no sense", exc_info=error)
        if self._robot is not None:
            self._robot.note_nonsense(type(error).__name__)

    def before(self, page: bytes) -> bytes:
        """The page of viser with our script before its own, and with our title."""
        title = f"<title>{escape(self._title)}</title>".encode()
        page = re.sub(rb"<title>.*?</title>", lambda _: title, page, count=1)
        return page.replace(b"<head>", b"<head><script>" + self._script.encode() + b"</script>", 1)


@contextmanager
def _guarded(door: Door, own: _Own) -> Iterator[Callable[[], bool]]:
    """Have every server that is started in this block ask the door first; yields what says whether one did.

    viser passes no such question on, so it is put in where viser starts its websocket server.
    """
    import msgspec
    import viser
    from websockets.asyncio import server as module
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    plain = module.serve
    used: list[bool] = []

    def respond(status: int, body: bytes, more: Mapping[str, str]) -> Response:
        usual = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
        return Response(status, http.HTTPStatus(status).phrase, Headers({**usual, **more}), body)

    def hear(record: logging.LogRecord) -> bool:
        own.note_nonsense(record.exc_info[1] if record.exc_info else None)
        return False

    logger = logging.Logger(__name__, logging.ERROR)  # noqa: LOG001 - each server counts for itself
    logger.addFilter(hear)

    def serve(handler: Any, *args: Any, process_request: Any = None, **settings: Any) -> Any:
        async def talk(connection: Any) -> None:
            if connection.subprotocol != f"viser-v{viser.__version__}":  # viser would print a line for each
                own.note_nonsense(ConnectionError())
                await connection.close(1002, f"Version mismatch: this is viser {viser.__version__}")
                return
            receive = connection.recv

            async def checked() -> bytes:
                """A message. Browsers change values alone; viser would set whatever an element has."""
                data: bytes = await receive()
                message = msgspec.msgpack.decode(data)
                if message["type"] == "GuiUpdateMessage" and set(message["updates"]) != {"value"}:
                    raise ValueError
                return data

            connection.recv = checked
            await handler(connection)

        async def ask(connection: Any, request: Any) -> Any:
            headers, path = request.headers, urlsplit(request.path).path
            refusal = door.refuses(
                request.path, headers.get("Host", ""), headers.get("Origin"), "; ".join(headers.get_all("Cookie"))
            )
            found = refusal or await own.answer(path, headers)
            if found is not None:
                status, text, more = found
                return respond(status, f"{text}\n".encode(), more)
            if process_request is None:
                return None
            headers.pop("Accept-Encoding", None)  # viser packs its page once, without our script
            response = process_request(connection, request)
            if response is not None and (kind := response.headers.get("Content-Type", "")).startswith("text/html"):
                return respond(response.status_code, own.before(response.body), {"Content-Type": kind})
            return response

        used.append(True)
        asyncio.get_running_loop().set_exception_handler(lambda _, context: own.note_nonsense(context.get("exception")))
        return plain(talk, *args, process_request=ask, logger=logger, **settings)

    module.serve = serve
    try:
        yield lambda: bool(used)
    finally:
        module.serve = plain
