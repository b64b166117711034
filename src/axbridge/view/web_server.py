"""The page's web server, with access control for the page and its websocket.

Any page in a browser may open a websocket to this machine. So a request must have this host as Host and as Origin. A
page gets the latest message of each topic when it has received the one before, so a slow page delays no other.
"""

from __future__ import annotations

import asyncio
import hmac
import http
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from axbridge.errors import UsageError, require
from axbridge.view.description import stop_script
from axbridge.virtual.channel import is_loopback

_log = logging.getLogger(__name__)
_FIRST_PORT, _PORTS = 8080, 100  # first port that is tried, and the number of ports
_COOKIE = "axbridge"
_PATIENCE = 1.0  # s for the end of the server
_LARGEST = 100_000  # bytes of a message from a page
_OWN_PAGES = {"same-origin", "none"}  # Sec-Fetch-Site of requests from this page, and of a typed address
_PATHS = {"/", "/alive", "/stop", "/stop/now"}  # a browser takes /\\host for an address elsewhere
_STOP_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>stop: {name}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>body {{ font: 16px sans-serif; max-width: 34em; margin: 2em auto; padding: 0 1em }}
button {{ font: 600 1.6em sans-serif; width: 100%; padding: 1em; color: white; background: #c92a2a; border: 0 }}</style>
<script>{script}</script></head><body><h1>{name}</h1><p role="status">{state}</p>
<form action="/stop/now"><button autofocus>ALL OFF (space)</button></form>
<p>This page only stops the robot, and needs no script. <a href="/">The live page</a> releases it.</p></body></html>
"""


class AccessControl:
    """Access control of a server that listens on this host."""

    def __init__(self, host: str) -> None:
        self._local = is_loopback(host)
        self.token = "" if self._local else secrets.token_urlsafe(16)

    def refuses(self, path: str, host: str, origin: str | None, cookies: str) -> tuple[int, str, dict[str, str]] | None:
        """Return status, text and headers of a refusal, or None. ValueError, CookieError: a bad header."""
        address = urlsplit(f"//{host}")
        port = address.port or 80  # ValueError if it is no number
        if self._local and not is_loopback(address.hostname or ""):
            return 403, "this page is for this machine alone", {}
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "another page may not talk to this robot", {}
        if self._local:
            return None
        cookie = f"{_COOKIE}{port}"  # a cookie is valid for all ports of a host
        given = parse_qs(urlsplit(path).query).get("token", [""])[0]
        if given and self._fits(given):
            new_cookie = f"{cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            wanted = urlsplit(path).path
            return 303, "", {"Location": wanted if wanted in _PATHS else "/", "Set-Cookie": new_cookie}
        known = SimpleCookie(cookies).get(cookie)
        if known is not None and self._fits(known.value):
            return None
        return 401, "open the address with the token, as it was printed where this page was started", {}

    def _fits(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())


class WebServer:
    """Serves one page, and messages to its clients; `robot` is its `LivePage`, None for recordings."""

    def __init__(self, port: int | None, host: str, title: str, robot: Any = None) -> None:
        require("the page", "websockets")
        self.page, self._title, self._robot, self._access = "", title, robot, AccessControl(host)
        self._latest: dict[str, str | bytes] = {}  # message of each topic
        self.past: Callable[[], list[bytes]] = list  # returns the frames that a new client gets first
        self._pages: dict[object, asyncio.Event] = {}
        self._loop, self._server = asyncio.new_event_loop(), None
        self._requests = ThreadPoolExecutor(1)  # handles requests in order, without delaying a stop
        self._loop.set_exception_handler(lambda _, context: self._report_invalid(context.get("exception")))
        self._thread = threading.Thread(target=self._run, name="axbridge web", daemon=True)
        self._thread.start()
        wanted = [port] if port is not None else [*range(_FIRST_PORT, _FIRST_PORT + _PORTS), 0]
        for candidate in wanted:
            with suppress(OSError, OverflowError):  # no such port number
                self._server = asyncio.run_coroutine_threadsafe(self._listen(host, candidate), self._loop).result()
                break
        if self._server is None:
            self.stop()
            if port is None:
                raise UsageError(f"{host} is no address of this computer", "give one of its addresses, or leave it out")
            hint = "leave --page-port out, or choose another"
            raise UsageError(f"port {port} of {host} is taken, or none of yours", hint)
        bound_port = next(iter(self._server.sockets)).getsockname()[1]
        name = "[::1]" if host == "::1" else host
        self.url = f"http://{name}:{bound_port}/" + (f"?token={self._access.token}" if self._access.token else "")

    @property
    def watched(self) -> int:
        """Return the number of open pages."""
        return len(self._pages)

    def publish(self, topic: str, what: str | bytes) -> None:
        """Send every page the latest message of a topic; from any thread."""
        self._latest[topic] = what
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wake)

    def stop(self) -> None:
        """Stop the server; may be called twice."""

        async def end() -> None:
            if self._server is not None:
                self._server.close(close_connections=True)
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._server.wait_closed(), _PATIENCE)

        if self._loop.is_running():
            with suppress(TimeoutError, asyncio.TimeoutError):
                asyncio.run_coroutine_threadsafe(end(), self._loop).result(timeout=2 * _PATIENCE)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=_PATIENCE)
            self._requests.shutdown(wait=False, cancel_futures=True)

    # ---- in the loop

    def _run(self) -> None:
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                self._loop.run_until_complete(task)
        self._loop.close()

    async def _listen(self, host: str, port: int) -> Any:
        from websockets.asyncio.server import serve

        def log_filter(record: logging.LogRecord) -> bool:
            self._report_invalid(record.exc_info[1] if record.exc_info else None)
            return False

        logger = logging.Logger(__name__, logging.ERROR)  # noqa: LOG001 - each server counts for itself
        logger.addFilter(log_filter)
        return await serve(
            self._talk, host, port, process_request=self._answer, logger=logger, compression=None, max_size=_LARGEST
        )

    def _report_invalid(self, error: BaseException | None) -> None:
        """Show an error caused by an invalid message on the page, and only debug-log it."""
        _log.debug("the page received an invalid message", exc_info=error)
        closed = getattr(error, "sent", 0)  # None, or 1011 after a ping time-out: the browser has just disconnected
        if self._robot is not None and closed is not None and getattr(closed, "code", 0) != 1011:
            what = f"the page received an invalid message ({type(error).__name__})"
            self._robot.events.note(self._robot.robot.time, what)

    def _receive(self, message: object) -> None:
        if self._robot is None or not isinstance(message, str):
            raise ValueError(message)
        self._robot.commands.receive(message)

    def _wake(self) -> None:
        for page in self._pages.values():
            page.set()

    async def _talk(self, connection: Any) -> None:
        sending = asyncio.ensure_future(self._send(connection))
        try:
            async for message in connection:
                try:
                    await self._loop.run_in_executor(self._requests, self._receive, message)
                except Exception as error:  # noqa: BLE001 - no message may end the page
                    self._report_invalid(error)
        finally:
            self._pages.pop(connection, None)
            sending.cancel()

    async def _send(self, connection: Any) -> None:
        from websockets.exceptions import ConnectionClosed

        fresh = self._pages[connection] = asyncio.Event()
        sent: dict[str, str | bytes] = {}
        with suppress(ConnectionClosed):
            for frame in self.past():
                await connection.send(frame)
            while True:
                fresh.clear()
                for topic, message in list(self._latest.items()):
                    if sent.get(topic) is not message:
                        sent[topic] = message
                        await connection.send(message)
                await fresh.wait()

    async def _answer(self, _connection: Any, request: Any) -> Any:
        """Return the response to a request; None accepts a websocket."""
        headers, path = request.headers, urlsplit(request.path).path
        try:
            refusal = self._access.refuses(
                request.path, headers.get("Host", ""), headers.get("Origin"), "; ".join(headers.get_all("Cookie"))
            )
        except (ValueError, CookieError):  # as a host without its bracket, or a port that is no number
            return _response(400, "the request has an invalid header", {})
        if refusal is not None:
            return _response(*refusal)
        if headers.get("Upgrade", "").lower() == "websocket":
            return None
        html = "text/html; charset=utf-8"
        page = {"Content-Type": html, "Cache-Control": "no-store", "X-Frame-Options": "SAMEORIGIN"}
        if path == "/":
            return _response(200, self.page, page)
        if path == "/alive":
            return _response(200, "", {})
        if self._robot is None or path not in {"/stop", "/stop/now"}:
            return _response(404, "there is no such page", {})
        if path == "/stop":
            name, state = escape(self._title), escape(self._robot.state)
            return _response(200, _STOP_PAGE.format(name=name, state=state, script=stop_script(stops=True)), page)
        if headers.get("Sec-Fetch-Site", "none") not in _OWN_PAGES or "Sec-Purpose" in headers:
            return _response(403, "another page may not stop this robot", {})
        await self._loop.run_in_executor(None, self._robot.all_off)
        return _response(303, "", {"Location": "/stop"})


def _response(status: int, text: str, more: dict[str, str]) -> Any:
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    body = f"{text}\n".encode(errors="replace")
    usual = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
    return Response(status, http.HTTPStatus(status).phrase, Headers({**usual, **more}), body)
