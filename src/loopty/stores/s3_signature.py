"""Signs requests to S3, version 4: a hash of the request, keyed by the secret, the day and the region."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from urllib.parse import quote

from loopty.stores.s3_address import S3Keys

_METHOD = "AWS4-HMAC-SHA256"
_SERVICE = "s3"


def query_text(query: Mapping[str, str]) -> str:
    """The query as it is sent and signed: in order, with everything but plain characters quoted."""
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
    """The headers of this request; `path` is quoted already, `at` are seconds since the epoch."""
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
