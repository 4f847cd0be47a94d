"""Where workers join: a port behind TLS, with a certificate that the driver signs itself and its URL names."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

from loopty.domain.errors import Misuse
from loopty.features.fleet.messages import Link, LinkLost
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder

SCHEME = "loopty"


class WorkerUrl(Record):
    """Everything that a worker needs to know of a driver. Who has it may join."""

    host: str
    port: int
    token: str
    certificate: str
    """SHA-256 of the driver's certificate: the worker trusts no other."""

    def __repr__(self) -> str:
        return f"WorkerUrl(host={self.host!r}, port={self.port})"  # the token is for no log

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}://{self.token}@{host}:{self.port}/?certificate={self.certificate}"

    @classmethod
    def parse(cls, text: str) -> WorkerUrl:
        """Parse the URL. Raises Misuse when this is no such URL."""
        try:
            parts = urlsplit(text.strip())
            digest = parse_qs(parts.query).get("certificate", [""])[0]
            if parts.scheme != SCHEME or not (parts.hostname and parts.port and parts.username):
                raise ValueError
            if not re.fullmatch(r"[0-9a-f]{64}", digest):
                raise ValueError
        except ValueError:
            raise Misuse(
                f"this is not the URL of a driver: copy the whole line that `loopty run --listen` shows, "
                f"as in {SCHEME}://TOKEN@HOST:PORT/?certificate=DIGEST"
            ) from None
        return cls(parts.hostname, parts.port, parts.username, digest)


def parse_address(text: str) -> tuple[str, int]:
    """Parse the host and the port of `HOST:PORT`; a missing port is 0, which means any. Raises Misuse."""
    try:
        parts = urlsplit(f"//{text}")
        if parts.hostname and not parts.path and not parts.username:
            return parts.hostname, parts.port or 0
    except ValueError:
        pass
    raise Misuse(f"cannot listen at {text!r}: name an address and a port of this machine, as in 0.0.0.0:7700")


_TOKEN, _CERTIFICATE, _KEY, _PORT = "token", "certificate.pem", "key.pem", "port"
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_REQUEST = ("req", "-x509", *_CURVE, "-days", "36500", "-subj", "/CN=loopty")
_CONNECT_SECONDS = 20.0

Admit = Callable[[Link, str], Awaitable[str]]


class WorkerDoor:
    """Listens for workers. Token, certificate and port stay the same, so that workers find a restarted driver."""

    def __init__(self, folder: SafeFolder, admit: Admit) -> None:
        self._folder = folder.make()
        self._admit = admit
        self._server: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    def token(self) -> str:
        """Return what a worker has to show."""
        if not (file := self._folder.file(_TOKEN)).exists():
            file.write(secrets.token_urlsafe(24).encode(), mode=0o600)
        return file.read(200).decode()

    async def open(self, address: str) -> WorkerUrl:
        """Listen at `HOST:PORT`; returns the URL to join by. Raises Misuse when that is not possible."""
        host, port = parse_address(address)
        digest = self._make_certificate()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        certificate, key = (self._folder.file(name).path_for_programs() for name in (_CERTIFICATE, _KEY))
        context.load_cert_chain(certificate, key)
        last = self._folder.file(_PORT)
        known = int(last.read(10)) if not port and last.exists() else port
        try:
            self._server = await self._listen(host, known, context)
        except OSError as error:
            if port or not known:
                raise Misuse(
                    f"cannot listen at {address} ({error.strerror or error}): name an address and a free port of "
                    "this machine, as in 0.0.0.0:7700"
                ) from None
            self._server = await self._listen(host, 0, context)
        port = self._server.sockets[0].getsockname()[1]
        last.write(str(port).encode())
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
        return WorkerUrl(shown, port, self.token(), digest)

    async def _listen(self, host: str, port: int, context: ssl.SSLContext) -> asyncio.Server:
        return await asyncio.start_server(
            self._visit, host, port, ssl=context, ssl_handshake_timeout=_CONNECT_SECONDS, backlog=256
        )

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link, task = Link(reader, writer), asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        peer = writer.get_extra_info("peername")
        try:
            await self._admit(link, str(peer[0]) if peer else "unknown")
        except asyncio.CancelledError:
            pass  # the session ends
        finally:
            self._visits.discard(task)
            link.close()

    async def close(self) -> None:
        """Listen no longer, and send everybody away."""
        if self._server is not None:
            self._server.close()
        for visit in self._visits:
            visit.cancel()
        if self._visits:
            await asyncio.wait(self._visits)

    def _make_certificate(self) -> str:
        """Return the digest of the certificate, which is made if there is none."""
        certificate, key = (self._folder.file(name) for name in (_CERTIFICATE, _KEY))
        if not (certificate.exists() and key.exists()):
            program = shutil.which("openssl")
            if program is None:
                raise Misuse(
                    "workers join through TLS, and `openssl`, which makes its certificate, is not installed: "
                    "install it, or name directories and ssh hosts under [executor] hosts"
                )
            self._folder.make()
            before = os.umask(0o077)
            try:
                made = subprocess.run(
                    [program, *_REQUEST, "-keyout", str(key.shown_path), "-out", str(certificate.shown_path)],
                    capture_output=True,
                    text=True,
                )
            finally:
                os.umask(before)
            if made.returncode:
                raise Misuse(f"openssl made no certificate ({made.stderr.strip()[-200:]}): check its installation")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read().decode())).hexdigest()


async def connect(url: WorkerUrl) -> Link:
    """Connect to the driver with this URL. Raises LinkLost, and Misuse when somebody else answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the digest says more than a name
    context.verify_mode = ssl.CERT_NONE  # no authority knows the driver: its certificate is pinned below
    try:
        opening = asyncio.open_connection(url.host, url.port, ssl=context)
        reader, writer = await asyncio.wait_for(opening, _CONNECT_SECONDS)
    except (OSError, TimeoutError) as error:
        raise LinkLost(f"nobody answers at {url.host}:{url.port} ({error or 'no answer in time'})") from None
    link, found = Link(reader, writer), writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    if hashlib.sha256(found or b"").hexdigest() != url.certificate:
        link.close()
        raise Misuse(f"{url.host}:{url.port} shows another certificate than the URL names: copy the URL again")
    return link
