"""The URL with which workers join: where the driver listens, a token, and the digest of its certificate."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from loopty.domain.errors import Misuse
from loopty.kit.records import Record

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
        """Raises Misuse when this is no such URL."""
        try:
            parts = urlsplit(text.strip())
            digest = parse_qs(parts.query).get("certificate", [""])[0]
            if parts.scheme != SCHEME or not (parts.hostname and parts.port and parts.username):
                raise ValueError
            if not re.fullmatch(r"[0-9a-f]{64}", digest):
                raise ValueError
        except ValueError:
            raise Misuse(
                f"this is not the URL of a driver: copy the whole line that `loopty optimize --listen` shows, "
                f"as in {SCHEME}://TOKEN@HOST:PORT/?certificate=DIGEST"
            ) from None
        return cls(parts.hostname, parts.port, parts.username, digest)


def parse_address(text: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`; a missing port is 0, which means any. Raises Misuse."""
    try:
        parts = urlsplit(f"//{text}")
        if parts.hostname and not parts.path and not parts.username:
            return parts.hostname, parts.port or 0
    except ValueError:
        pass
    raise Misuse(f"cannot listen at {text!r}: name an address and a port of this machine, as in 0.0.0.0:7700")
