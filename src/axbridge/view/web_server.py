"""viser's web server, with a door: who may open the page, and who may talk to it.

A page that moves motors must not take commands from other pages. Any page in a browser may open a websocket to this
machine. So a request must name the host that it came to, and where it comes from must be that host, too. Hosts other
than this machine's own need a token.
"""

from __future__ import annotations

import hmac
import http
import ipaddress
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from axbridge.errors import UsageError

if TYPE_CHECKING:
    import viser

__all__ = ["Door", "need_viser", "start", "stop"]

_FIRST_PORT = 8080
_COOKIE = "axbridge"
_PATIENCE = 1.0  # s for the end of the server


class Door:
    """Whom the page is served to.

    Args:
        host: Address the server listens on.
    """

    def __init__(self, host: str) -> None:
        self._local = _is_loopback(host)
        self.token = "" if self._local else secrets.token_urlsafe(16)

    def refuses(self, path: str, host: str, origin: str | None, cookies: str) -> tuple[int, str, dict[str, str]] | None:
        """What to answer instead of the page; None where the request is welcome.

        Args:
            path: Of the request, with its query.
            host: The header.
            origin: The header, which browsers send with a websocket; None where there is none.
            cookies: The header.

        Returns:
            Status, text and headers.
        """
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
            return 303, "", {"Location": "/", "Set-Cookie": kept}
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
    """Load viser.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import viser  # noqa: F401 - to see whether it is there
    except ImportError as missing:
        raise UsageError("the page needs viser", "install it: pip install 'axbridge[view]'") from missing


def start(port: int | None, host: str, title: str) -> tuple[viser.ViserServer, str]:
    """Start the server in threads of its own, quietly.

    Args:
        port: None: the first free one from 8080 on; 0: any free one.
        host: Address to listen on.
        title: Of the page.

    Returns:
        The server, and the address to open, with the token where one is needed.

    Raises:
        UsageError: viser is not installed, or the port is taken.
    """
    need_viser()
    import viser

    door = Door(host)
    with _quiet(), _guarded(door) as guarded:
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


@contextmanager
def _guarded(door: Door) -> Iterator[Callable[[], bool]]:
    """Have every server that is started in this block ask the door first; yields what says whether one did.

    viser passes no such question on, so it is put in where viser starts its websocket server.
    """
    from websockets.asyncio import server as module
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    plain = module.serve
    used: list[bool] = []

    def serve(*args: Any, process_request: Any = None, **settings: Any) -> Any:
        def ask(connection: Any, request: Any) -> Any:
            headers = request.headers
            refusal = door.refuses(
                request.path, headers.get("Host", ""), headers.get("Origin"), "; ".join(headers.get_all("Cookie"))
            )
            if refusal is None:
                return None if process_request is None else process_request(connection, request)
            status, text, more = refusal
            body = f"{text}\n".encode()
            all_headers = Headers(
                {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body)), **more}
            )
            return Response(status, http.HTTPStatus(status).phrase, all_headers, body)

        used.append(True)
        return plain(*args, process_request=ask, **settings)

    module.serve = serve
    try:
        yield lambda: bool(used)
    finally:
        module.serve = plain
