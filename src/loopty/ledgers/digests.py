"""Digests that show whether somebody changed the ledger by hand.

Each event has the digest of itself and of the digest before it. Pages change, so theirs are added up: replacing a
page subtracts its old digest and adds the new one, at the same cost whatever the length of the record. One seal
covers the last event and the sum of the pages. There is no key: whoever computes all of this anew is not noticed.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopty.kit.short_digest import blake2b

NOTHING = b"\0" * 16
"""The digest before the first event, and the sum of no pages."""
_MODULUS = 1 << 128


def event_digest(before: bytes, number: int, at: float, kind: str, body: str) -> bytes:
    text = f"{number} {at!r} {kind}\n{body}"
    return blake2b(before + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def page_digest(key: str, body: str) -> bytes:
    return blake2b(f"{key}\n{body}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def replace_in_sum(total: bytes, old: bytes, new: bytes) -> bytes:
    """The sum after a page with the digest `old` got the digest `new`; a page that was not there has NOTHING."""
    value = int.from_bytes(total, "big") - int.from_bytes(old, "big") + int.from_bytes(new, "big")
    return (value % _MODULUS).to_bytes(16, "big")


def digest_sum(digests: Iterable[bytes]) -> bytes:
    """The sum of these digests."""
    return (sum(int.from_bytes(digest, "big") for digest in digests) % _MODULUS).to_bytes(16, "big")


def seal_digest(last_event: bytes, total: bytes) -> bytes:
    return blake2b(last_event + total, digest_size=16).digest()
