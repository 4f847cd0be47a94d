"""Opens a store by its name: a directory, or `s3://BUCKET/PREFIX`."""

from __future__ import annotations

import os
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.shared_store import SharedStore


def open_store(place: str) -> SharedStore:
    """The store at this place. Raises Misuse where it can be none."""
    if place.startswith("s3://"):
        from loopty.stores.s3_address import S3Address, find_keys
        from loopty.stores.s3_store import S3Store

        return S3Store(S3Address.parse(place, os.environ), lambda: find_keys(os.environ, Path.home()))
    from loopty.stores.directory_store import DirectoryStore

    path = Path(place).expanduser()
    if "://" in place or not path.is_absolute():
        raise Misuse(f"{place!r} names no store: write an absolute path, or s3://BUCKET/PREFIX")
    return DirectoryStore(path)
