"""Who may ask what: the token of the printed address, and where a request may come from."""

from __future__ import annotations

import hmac
import secrets

from loopty.kit.records import Record
from loopty.models.endpoint.http_exchange import Request

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
        """The values of the Host header that are answered. Any other name may be an attacker's, rebound to us."""
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
