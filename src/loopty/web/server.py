"""The dashboard's web server: who may ask what, its built page, and answers with JSON, a file or a live stream."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hmac
import json
import re
import secrets
import ssl
import typing
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from loopty.domain.errors import LooptyError
from loopty.features.endpoint.http_exchange import ClientGone, Exchange, Request, RequestBytes, RequestRefused
from loopty.kit.foreign_text import escape_hidden
from loopty.kit.records import Record
from loopty.web.actions import Actions
from loopty.web.api import DashboardApi, Encoded, Missing, encode
from loopty.web.live_feed import HEARTBEAT_SECONDS, MOST_VIEWERS, LiveFeed, message
from loopty.web.record import RecordFeed

TOKEN_HEADER = "x-loopty-token"


class NotAllowed(Exception):  # noqa: N818 - it is an answer, not an error of ours
    """A request that is refused, with the status and the code of the answer."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class Address(Record):
    """Where the dashboard listens, and by which names it may be reached."""

    host: str
    port: int
    names: tuple[str, ...] = ()
    """Further host names, with a port where that is another: those of a proxy."""
    is_secure: bool = False
    """Whether the browser sees https: TLS here, or at a proxy."""

    @property
    def hosts(self) -> frozenset[str]:
        """Return the Host headers that are answered. Any other name may be an attacker's, rebound to us."""
        own = {"127.0.0.1", "localhost", "[::1]", _bracketed(self.host)}
        named = {name if ":" in name.rpartition("]")[2] else f"{name}:{self.port}" for name in self.names}
        return frozenset({*(f"{name}:{self.port}" for name in own), *named, *self.names})

    @property
    def origins(self) -> frozenset[str]:
        scheme = "https" if self.is_secure else "http"
        return frozenset(f"{scheme}://{host}" for host in self.hosts)

    def url(self, token: str) -> str:
        scheme = "https" if self.is_secure else "http"
        host = _bracketed("127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host)
        shown = self.names[0] if self.names else f"{host}:{self.port}"
        return f"{scheme}://{shown}/#token={token}"


class PageAccess:
    """The secret of one server, and the checks of every request.

    The secret is a header, never a cookie: a browser sends cookies to every port of a host, and other users of the
    machine listen there. It is sent by nobody unasked, so that another site cannot act in the owner's name.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.token = secrets.token_urlsafe(32)

    def check_place(self, request: Request) -> None:
        """Refuse a request under a foreign name, or from a foreign page."""
        if request.headers.get("host", "").lower() not in self.address.hosts:
            raise NotAllowed(403, "host", "this name is not the dashboard's: open the address as it was printed")
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in self.address.origins:
            raise NotAllowed(403, "origin", "this request comes from another site")

    def check_login(self, request: Request) -> None:
        given = request.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            text = "this browser is not logged in: open the address that `loopty dashboard` printed"
            raise NotAllowed(401, "login", text)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
}
_HASHED = re.compile(r"-[A-Za-z0-9]{8,}\.[a-z0-9]+\Z")
_PACKED = (".html", ".js", ".css", ".svg", ".json")
_CLONE = STATIC.parents[3]
_INSTALL_AGAIN = "install loopty again, without LOOPTY_WITHOUT_PAGE in the environment"
_MISSING = """<!doctype html><html lang="en"><meta charset="utf-8"><title>loopty</title>
<p>The dashboard's page is not built: {remedy}, then load this address again.</p></html>
"""


class StaticFile(Record):
    """A file of the page as it is sent."""

    content: bytes
    packed: bytes
    """With gzip; empty where that is of no use."""
    kind: str
    is_lasting: bool
    """Whether its name changes with its content."""


class StaticFiles:
    """All files of the page. A path is only ever looked up among their names, so none leads out of the folder."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._files: dict[str, StaticFile] = {}
        self._read_at = 0.0

    def find(self, path: str) -> StaticFile | None:
        """Find the file at this path of the address; other paths of the page itself are its start."""
        self._refresh()
        name = path.lstrip("/") or "index.html"
        if name in self._files:
            return self._files[name]
        if name != "index.html" and "." in name.rpartition("/")[2]:
            return None
        return self._files.get("index.html") or _explanation()

    def is_built(self) -> bool:
        return (self._folder / "index.html").exists()

    def _refresh(self) -> None:
        try:
            changed_at = (self._folder / "index.html").stat().st_mtime
        except OSError:
            return
        if changed_at != self._read_at:
            self._files = dict(map(self._read, (path for path in self._folder.rglob("*") if path.is_file())))
            self._read_at = changed_at

    def _read(self, path: Path) -> tuple[str, StaticFile]:
        content = path.read_bytes()
        packed = gzip.compress(content, 6, mtime=0) if path.suffix in _PACKED else b""
        kind = _TYPES.get(path.suffix, "application/octet-stream")
        is_lasting = _HASHED.search(path.name) is not None
        return path.relative_to(self._folder).as_posix(), StaticFile(content, packed, kind, is_lasting)


def page_remedy() -> str:
    """Return how to get the page where it is not built."""
    return f"run `make page` in {_CLONE}" if _is_clone() else _INSTALL_AGAIN


def _explanation() -> StaticFile:
    """Return the page that says that there is none. It does not tell strangers where the clone is."""
    remedy = "run <code>make page</code> in the clone of loopty" if _is_clone() else _INSTALL_AGAIN
    return StaticFile(_MISSING.format(remedy=remedy).encode(), b"", _TYPES[".html"], is_lasting=False)


def _is_clone() -> bool:
    return (_CLONE / "page/build.mjs").exists()


_LARGEST_BODY = 1 << 16
_MOST_STRANGERS = 100
"""Connections without the token so far. Beyond, the oldest ends: other users cannot keep the owner out."""
_REQUEST_SECONDS = 30.0
_SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_JSON = {"content-type": "application/json; charset=utf-8", "cache-control": "no-store"}


class DashboardServer:
    """Serves one repository."""

    def __init__(self, top: Path, access: PageAccess, static: StaticFiles | None = None) -> None:
        self.access = access
        self._static = static or StaticFiles()
        self._api = DashboardApi(RecordFeed(top), top.name, top)
        self._actions = Actions(top)
        self._reading = ThreadPoolExecutor(1, "record")
        self._acting = ThreadPoolExecutor(1, "actions")
        self._bytes = RequestBytes()
        self._answering: set[asyncio.Task[None]] = set()
        """A loop holds its tasks only weakly."""
        self._strangers: dict[asyncio.Task[None], None] = {}
        """Those that have not shown the token yet, oldest first."""
        self.feed = LiveFeed(self._api, self._in_thread)

    async def serve(self, listeners: list[Any], tls: ssl.SSLContext | None = None) -> None:
        """Serve on these sockets until this is cancelled."""
        servers = [await asyncio.start_server(self.accept, sock=each, ssl=tls) for each in listeners]
        follow = asyncio.create_task(self.feed.follow())
        try:
            await asyncio.gather(follow, *(server.serve_forever() for server in servers))
        finally:
            follow.cancel()
            for viewer in tuple(self.feed.viewers):
                viewer.put(message("bye", {"reason": "the server ends"}, 0))
                viewer.is_lost = True
            for server in servers:
                server.close()
            self._reading.shutdown(wait=True, cancel_futures=True)  # it closes the ledger only when it is idle
            self._acting.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        """Run it in the thread that owns the record."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, function)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the request that comes over a new connection."""
        task = asyncio.create_task(self._connect(reader, writer))
        self._answering.add(task)
        self._strangers[task] = None
        if len(self._strangers) > _MOST_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()

        def end(_: asyncio.Task[None]) -> None:
            self._answering.discard(task)
            self._strangers.pop(task, None)
            if not writer.is_closing():  # the server has ended before the task began
                writer.transport.abort()

        task.add_done_callback(end)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange, is_gone = Exchange(reader, writer, self._bytes, _LARGEST_BODY), False
        try:
            await self._handle(exchange)
        except (ClientGone, ConnectionError, TimeoutError):
            is_gone = True
        except asyncio.CancelledError:  # the server ends
            is_gone = True
        finally:
            with contextlib.suppress(OSError, RuntimeError):
                exchange.close(at_once=is_gone)

    async def _handle(self, exchange: Exchange) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                request = await exchange.request()
            self.access.check_place(request)
            await self._route(exchange, request)
        except RequestRefused as refusal:
            code = "too-large" if refusal.status == 413 else "misuse"
            await self._refuse(exchange, refusal.status, code, str(refusal))
            await exchange.linger()
        except NotAllowed as refusal:
            await self._refuse(exchange, refusal.status, refusal.code, str(refusal))
        except Missing:
            await self._refuse(exchange, 404, "missing", "there is nothing at this address")
        except LooptyError as fault:
            await self._refuse(exchange, 400, "misuse", str(fault))
        except OSError as fault:
            await self._refuse(exchange, 500, "failed", f"a file could not be read: {fault.strerror}")

    async def _refuse(self, exchange: Exchange, status: int, code: str, text: str) -> None:
        body = encode({"error": escape_hidden(text)[:2_000], "code": code})
        await exchange.answer(status, {**_SECURITY, **_JSON}, body)

    async def _route(self, exchange: Exchange, request: Request) -> None:
        query = dict(parse_qsl(request.query, keep_blank_values=True, max_num_fields=20))
        if not request.path.startswith("/api/"):
            await self._send_page(exchange, request)
            return
        self.access.check_login(request)
        self._strangers.pop(typing.cast("asyncio.Task[None]", asyncio.current_task()), None)
        path = request.path.removeprefix("/api/")
        if request.method == "POST":
            await self._act(exchange, request, path)
        elif request.method not in ("GET", "HEAD"):
            raise NotAllowed(405, "misuse", "only GET and POST are answered")
        elif path == "events":
            await self._stream(exchange, request, query)
        else:
            await self._answer(exchange, request, path, query)

    async def _send_page(self, exchange: Exchange, request: Request) -> None:
        if request.method not in ("GET", "HEAD"):
            raise NotAllowed(405, "misuse", "only GET is answered here")
        found = self._static.find(request.path)
        if found is None:
            raise Missing
        cache = "public, max-age=31536000, immutable" if found.is_lasting else "no-cache"
        headers = {"content-type": found.kind, "cache-control": cache}
        await _send(exchange, request, headers, found.content, found.packed)

    async def _answer(self, exchange: Exchange, request: Request, path: str, query: Mapping[str, str]) -> None:
        self.feed.note_question()
        opening = self._api.feed.opening
        if path == "session":
            names = self._actions.names
            if opening.is_ready:
                await self._in_thread(self._api.feed.open)
                data = await self._in_thread(lambda: self._api.session(names, opening))
            else:
                data = self._api.session(names, opening)
            body = encode(data)
            found = Encoded(body, b"", data["event"])
        elif not opening.is_ready:
            raise NotAllowed(503, "busy", f"the record is read: {opening.done:,} of {opening.total:,} events")
        else:
            found = await self._in_thread(lambda: self._api.answer(path, query))
        headers = {**_JSON, "x-loopty-event": str(found.event)}
        await _send(exchange, request, headers, found.body, found.packed)

    async def _act(self, exchange: Exchange, request: Request, path: str) -> None:
        kind, _, name = path.partition("/")
        if kind != "actions" or not name:
            raise Missing
        try:
            body = json.loads(request.body or b"{}")
        except (ValueError, RecursionError):
            raise NotAllowed(400, "misuse", "the body is not JSON") from None
        if not isinstance(body, dict):
            raise NotAllowed(400, "misuse", "the body is an object")
        loop = asyncio.get_running_loop()
        done = await loop.run_in_executor(self._acting, lambda: self._actions.act(name, body))
        await self._in_thread(self.feed.take_in)
        number = self._api.feed.number
        await exchange.answer(200, {**_SECURITY, **_JSON}, encode({**done, "event": number}))

    async def _stream(self, exchange: Exchange, request: Request, query: Mapping[str, str]) -> None:
        if len(self.feed.viewers) >= MOST_VIEWERS:
            raise NotAllowed(429, "limit", f"more than {MOST_VIEWERS} pages look at it already")
        run = int(query["run"]) if query.get("run", "").isdecimal() and len(query["run"]) < 10 else None
        seen = request.headers.get("last-event-id", "")
        last = int(seen) if seen.isdecimal() and len(seen) < 18 else None
        viewer = await self.feed.join(run, last)
        try:
            headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
            await exchange.begin(200, {**_SECURITY, **headers})
            gone = asyncio.create_task(exchange.wait_for_disconnect())
            try:
                await _push(exchange, viewer, gone)
            finally:
                gone.cancel()
        finally:
            self.feed.leave(viewer)


async def _push(exchange: Exchange, viewer: Any, gone: asyncio.Task[None]) -> None:
    """Send a viewer's messages until it leaves or falls behind."""
    while not viewer.is_lost and not gone.done():
        take = asyncio.create_task(viewer.messages.get())
        await asyncio.wait({take, gone}, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if take.done():
            await exchange.send(take.result())
        else:
            take.cancel()
            await exchange.send(b": still here\n\n")
    while viewer.is_lost and not viewer.messages.empty():
        await exchange.send(viewer.messages.get_nowait())


async def _send(
    exchange: Exchange, request: Request, headers: Mapping[str, str], content: bytes, packed: bytes
) -> None:
    """Send the content, packed where the browser takes it so."""
    if packed and "gzip" in request.headers.get("accept-encoding", ""):
        headers, content = {**headers, "content-encoding": "gzip", "vary": "accept-encoding"}, packed
    await exchange.answer(200, {**_SECURITY, **headers}, content)
