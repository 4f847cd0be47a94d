"""The URL of a store in S3, or in a server that speaks its protocol: which server, which bucket, which prefix."""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from loopty.domain.errors import Misuse
from loopty.domain.shared_store import StoreFault
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
        """Raises Misuse if the URL cannot be that of a store."""
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
    """The keys of the user: from the environment, else from ~/.aws/credentials. Raises StoreFault."""
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
