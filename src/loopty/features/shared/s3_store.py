"""A store in a bucket of S3, or of a server that speaks its protocol: its address, and five signed requests."""

from __future__ import annotations

import calendar
import configparser
import contextlib
import hashlib
import hmac
import html
import http.client
import os
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from loopty.domain.errors import Misuse
from loopty.domain.shared_store import StoredEntry, StoreFault
from loopty.features.shared.directory_store import MARK, MARK_TEXT, is_store_name, require_name
from loopty.kit.records import Record

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"(?:[A-Za-z0-9._-]+/)*")
_HERE = ("localhost", "127.0.0.1", "::1")
_FORM = "s3://BUCKET/PREFIX, with ?endpoint=https://HOST for a server other than Amazon's"


class S3Keys(Record):
    """Who asks."""

    access: str
    secret: str
    session: str = ""

    def __repr__(self) -> str:
        return f"S3Keys(access={self.access!r})"  # never in a log


class S3Address(Record):
    """Where a store is."""

    is_encrypted: bool
    host: str
    """With its port, where it has one."""
    path: str
    """Of the bucket: `/` where the host names it."""
    prefix: str
    """Of all names in the store; empty, or with a slash at its end."""
    region: str
    shown: str

    @classmethod
    def parse(cls, url: str, environ: Mapping[str, str]) -> S3Address:
        """Parse the URL. Raises Misuse if it cannot be that of a store."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        prefix = f"{parts.path.strip('/')}/".lstrip("/")
        unknown = set(options) - {"endpoint", "region"}
        if parts.scheme != "s3" or not _BUCKET.fullmatch(parts.netloc) or unknown or not _PREFIX.fullmatch(prefix):
            raise Misuse(f"{url!r} names no store: write {_FORM}")
        region = options.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
        given = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
        place, known_region = options.get("endpoint") or given, region or "us-east-1"
        if not place:
            host = f"{parts.netloc}.s3.{known_region}.amazonaws.com"
            return cls(True, host, "/", prefix, known_region, url)
        server = urlsplit(place)
        if server.scheme not in ("http", "https") or not server.hostname or server.username or server.query:
            raise Misuse(f"{place!r} is no endpoint: write https://HOST or https://HOST:PORT")
        if server.scheme == "http" and server.hostname not in _HERE:
            raise Misuse(f"{place} is not encrypted, and files would leave this machine: use https")
        path = f"{server.path.rstrip('/')}/{parts.netloc}/"
        return cls(server.scheme == "https", server.netloc, path, prefix, known_region, url)


def find_keys(environ: Mapping[str, str], home: Path) -> S3Keys:
    """Find the keys of the user: in the environment, else in ~/.aws/credentials. Raises StoreFault."""
    if access := environ.get("AWS_ACCESS_KEY_ID", ""):
        return S3Keys(access, environ.get("AWS_SECRET_ACCESS_KEY", ""), environ.get("AWS_SESSION_TOKEN", ""))
    file = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials")
    profile, parser = environ.get("AWS_PROFILE", "default"), configparser.ConfigParser(interpolation=None)
    try:
        parser.read(file)
        found = parser[profile]
        return S3Keys(
            found["aws_access_key_id"], found["aws_secret_access_key"], found.get("aws_session_token", "")
        )
    except (configparser.Error, KeyError, OSError, UnicodeDecodeError):
        raise StoreFault(
            "the store in S3 needs keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them to "
            f"{file} (profile {profile})"
        ) from None


_METHOD = "AWS4-HMAC-SHA256"
_SERVICE = "s3"


def query_text(query: Mapping[str, str]) -> str:
    """Write the query as it is sent and signed: in order, with everything but plain characters quoted."""
    return "&".join(f"{quote(name, safe='~')}={quote(query[name], safe='~')}" for name in sorted(query))


def signed_headers(
    method: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    content: bytes,
    keys: S3Keys,
    region: str,
    at: float,
) -> dict[str, str]:
    """Sign the headers of this request; `path` is quoted already, `at` are seconds since the epoch."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    digest = hashlib.sha256(content).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": moment}
    if keys.session:
        headers["x-amz-security-token"] = keys.session
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = "\n".join((method, path, query_text(query), lines, names, digest))
    scope = f"{moment[:8]}/{region}/{_SERVICE}/aws4_request"
    text = "\n".join((_METHOD, moment, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    proof = f"Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "authorization": f"{_METHOD} {proof}"}


# A client library would bring a dozen packages for them. An object is there as a whole or not at all: S3 promises
# that, and that who reads after a write sees it.


_CONNECT_SECONDS, _TIMEOUT_SECONDS = 10.0, 60.0
_SLOWEST_BYTES = 1 << 18
"""A second: slower servers are given up, because one that sends a byte a minute meets every other time limit."""
_LARGEST_ANSWER = 16 << 20
_LONGEST_TEXT = 2_000
"""Characters of a name, a time or a token in an answer."""
_MOST_NAMES, _NAMES_OF_PAGE = 5_000_000, 1_000
_REMEDIES = {
    "NoSuchBucket": "make the bucket, or correct its name",
    "InvalidAccessKeyId": "check AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "check AWS_SECRET_ACCESS_KEY",
    "ExpiredToken": "get new keys",
    "RequestTimeTooSkewed": "set the clock of this machine",
    "AccessDenied": "check the keys, and that they may read, write and list this prefix",
    "QuotaExceeded": "free some space there",
    "XMinioStorageFull": "free some space there",
    "MethodNotAllowed": "see that the bucket can be written",
}
_BROKEN = (OSError, http.client.HTTPException, ValueError)
"""What comes of a connection or a server that is broken; the last one of a wrong size of a part."""


class _Answer(Record):
    status: int
    content: bytes


def open_place(place: str) -> S3Store:
    """Open the store at this URL, with the keys of the user. Raises Misuse where it can be none."""
    return S3Store(S3Address.parse(place, os.environ), lambda: find_keys(os.environ, Path.home()))


class S3Store:
    """The objects below one prefix of a bucket."""

    def __init__(self, address: S3Address, find_keys: Callable[[], S3Keys]) -> None:
        """Find the keys for each request: they change, and a verb that needs none asks for none."""
        self._address = address
        self._find_keys = find_keys
        self._idle: list[http.client.HTTPConnection] = []
        """Connections that nobody uses now: each is used by one thread at a time."""
        self.shown = address.shown
        weakref.finalize(self, _close_all, self._idle)

    def prepare(self) -> None:
        self.put(MARK, MARK_TEXT)

    def put(self, name: str, content: bytes) -> None:
        answer = self._ask("PUT", require_name(name), content=content)
        if answer.status != 200:
            raise self._fault(answer)

    def get(self, name: str, limit_bytes: int) -> bytes | None:
        answer = self._ask("GET", require_name(name), limit_bytes=limit_bytes)
        if answer.status == 404 and _text(answer.content, "Code") != "NoSuchBucket":
            return None
        if answer.status != 200:
            raise self._fault(answer)
        return answer.content

    def has(self, name: str) -> bool:
        answer = self._ask("HEAD", require_name(name))
        if answer.status not in (200, 404):
            raise self._fault(answer)
        return answer.status == 200

    def entries(self, prefix: str) -> Iterator[StoredEntry]:
        top, go_on = f"{self._address.prefix}{require_name(prefix.rstrip('/'))}/", ""
        left = _MOST_NAMES
        while left > 0:
            query = {"list-type": "2", "prefix": top} | ({"continuation-token": go_on} if go_on else {})
            answer = self._ask("GET", "", query)
            if answer.status != 200:
                raise self._fault(answer)
            found = answer.content.decode(errors="replace").split("<Contents>")[1:]
            left -= max(len(found), _NAMES_OF_PAGE)
            for entry in found:
                name = _text(entry, "Key").removeprefix(self._address.prefix)
                if is_store_name(name) and name.startswith(prefix):
                    yield StoredEntry(name, _seconds(_text(entry, "LastModified")))
            go_on = _text(answer.content, "NextContinuationToken")
            if not go_on:
                return
        raise StoreFault(f"the list of names in the store {self.shown} does not end: see what its server says")

    def remove(self, name: str) -> None:
        answer = self._ask("DELETE", require_name(name))
        if answer.status not in (200, 204, 404):
            raise self._fault(answer)

    def _ask(
        self,
        method: str,
        name: str,
        query: Mapping[str, str] | None = None,
        content: bytes = b"",
        limit_bytes: int = _LARGEST_ANSWER,
    ) -> _Answer:
        """Return the answer to a request; replace a connection that the server has closed meanwhile."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            with contextlib.suppress(*_BROKEN), self._in_use(connection):
                return self._exchange(connection, method, name, query or {}, content, limit_bytes)
        try:
            connection = self._connect()
            with self._in_use(connection):
                return self._exchange(connection, method, name, query or {}, content, limit_bytes)
        except _BROKEN as error:
            words = str(error) if isinstance(error, OSError) else ""  # others quote the server
            raise StoreFault(
                f"the store {self.shown} cannot be reached ({words or type(error).__name__}): see that its "
                "server runs, and that this machine may connect to it"
            ) from None

    @contextlib.contextmanager
    def _in_use(self, connection: http.client.HTTPConnection) -> Iterator[None]:
        """Keep the connection for the next request, unless this one fails."""
        try:
            yield
        except BaseException:
            connection.close()
            raise
        if connection.sock:  # else the server wished to close it
            self._idle.append(connection)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        name: str,
        query: Mapping[str, str],
        content: bytes,
        limit_bytes: int,
    ) -> _Answer:
        address = self._address
        path = quote(f"{address.path}{address.prefix}{name}" if name else address.path, safe="/~")
        headers = signed_headers(
            method=method,
            host=address.host,
            path=path,
            query=query,
            content=content,
            keys=self._find_keys(),
            region=address.region,
            at=time.time(),
        )
        seconds = _TIMEOUT_SECONDS + max(limit_bytes, len(content)) / _SLOWEST_BYTES
        with _ended_after(seconds, connection.sock):
            connection.request(method, f"{path}?{query_text(query)}" if query else path, content or None, headers)
            return self._read(connection, name, limit_bytes)

    def _read(self, connection: http.client.HTTPConnection, name: str, limit_bytes: int) -> _Answer:
        with connection.getresponse() as response:
            limit = limit_bytes if response.status == 200 else _LARGEST_ANSWER
            found = response.read(limit + 1)
            if len(found) > limit:
                raise StoreFault(f"{name} in the store {self.shown} is too large: it is none of loopty's files")
            return _Answer(response.status, found)

    def _connect(self) -> http.client.HTTPConnection:
        host = self._address.host
        connection = (
            http.client.HTTPSConnection(host, timeout=_CONNECT_SECONDS, context=ssl.create_default_context())
            if self._address.is_encrypted
            else http.client.HTTPConnection(host, timeout=_CONNECT_SECONDS)
        )
        connection.connect()
        connection.sock.settimeout(_TIMEOUT_SECONDS)
        return connection

    def _fault(self, answer: _Answer) -> StoreFault:
        code = _text(answer.content, "Code")
        name = f"{answer.status} {code}".strip()
        remedy = _REMEDIES.get(code, "see what its server says, and check the keys and the bucket")
        return StoreFault(f"the store {self.shown} refuses ({name}): {remedy}")


@contextlib.contextmanager
def _ended_after(seconds: float, connection: socket.socket) -> Iterator[None]:
    """Break the connection after so long."""
    timer = threading.Timer(seconds, _break_off, [connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _break_off(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # not TLS's own, which others may not call


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _text(content: bytes | str, tag: str) -> str:
    """Find what stands between this tag, the first time; empty if it is missing or too long."""
    text = content if isinstance(content, str) else content[:_LARGEST_ANSWER].decode(errors="replace")
    found = re.search(rf"<{tag}>([^<]{{,{_LONGEST_TEXT}}})</{tag}>", text)
    return html.unescape(found[1]) if found else ""


def _seconds(moment: str) -> float:
    """Parse a time of S3 to seconds since the epoch; an unreadable one counts as now, which keeps it."""
    try:
        return float(calendar.timegm(time.strptime(moment[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return time.time()
