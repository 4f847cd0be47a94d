"""Who may ask what: the token of the printed address, the cookie for it, and where a request may come from."""

from __future__ import annotations

import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping

from loopty.kit.dataclass import Record, dataclass
from loopty.models.endpoint.http_exchange import Request

_WRONG_TOKENS = 20
_WRONG_TOKEN_SECONDS = 60.0
CSRF_HEADER = "x-loopty-csrf"


class NotAllowed(Exception):  # noqa: N818 - it is an answer, not an error of ours
    """A request that is refused, with the status and the code of the answer."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
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
        return f"{scheme}://{shown}/?token={token}"


class PageAccess:
    """The secrets of one server, and the checks of every request."""

    def __init__(self, address: Address, clock: Callable[[], float] = time.monotonic) -> None:
        self.address = address
        self.token = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._clock = clock
        self._wrong: deque[float] = deque(maxlen=_WRONG_TOKENS)

    @property
    def cookie_name(self) -> str:
        return f"loopty-{self.address.port}"

    @property
    def set_cookie(self) -> str:
        """The header that logs a browser in."""
        secure = "; Secure" if self.address.is_secure else ""
        return f"{self.cookie_name}={self._cookie}; HttpOnly; SameSite=Strict; Path=/{secure}"

    def check_place(self, request: Request) -> None:
        """Refuse a request under a foreign name, or from a foreign page."""
        if request.headers.get("host", "").lower() not in self.address.hosts:
            raise NotAllowed(403, "host", "this name is not the dashboard's: open the address as it was printed")
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in self.address.origins:
            raise NotAllowed(403, "csrf", "this request comes from another site")
        if request.headers.get("sec-fetch-site", "none") == "cross-site" and request.path.startswith("/api/"):
            raise NotAllowed(403, "csrf", "this request comes from another site")

    def check_token(self, token: str) -> None:
        """Refuse a wrong token; many wrong ones in a minute are not even compared."""
        now = self._clock()
        if len(self._wrong) == _WRONG_TOKENS and now - self._wrong[0] < _WRONG_TOKEN_SECONDS:
            raise NotAllowed(429, "limit", "there were many wrong tokens: wait a minute")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            self._wrong.append(now)
            raise NotAllowed(403, "login", "the token is wrong: open the address that `loopty dashboard` printed")

    def check_login(self, request: Request) -> None:
        given = _cookies(request.headers).get(self.cookie_name, "")
        if not hmac.compare_digest(given.encode(), self._cookie.encode()):
            text = "this browser is not logged in: open the address that `loopty dashboard` printed"
            raise NotAllowed(401, "login", text)

    def check_action(self, request: Request) -> None:
        """Refuse an action unless this very page asks for it."""
        if request.headers.get("origin", "").lower() not in self.address.origins:
            raise NotAllowed(403, "csrf", "an action must come from the dashboard's own page")
        if not hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), self.csrf.encode()):
            raise NotAllowed(403, "csrf", "the page is out of date: load it again")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise NotAllowed(403, "csrf", "an action is sent as application/json")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _cookies(headers: Mapping[str, str]) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return {name: value for name, _, value in pairs}
