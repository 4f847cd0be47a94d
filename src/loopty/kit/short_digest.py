"""Digests of short texts by Python's own code: the standard `hashlib` loads OpenSSL, which takes 4 ms of a verb.

They are the same digests. For megabytes, `hashlib` is faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b, sha1, sha256
else:
    try:
        from _blake2 import blake2b
        from _sha1 import sha1

        try:
            from _sha2 import sha256
        except ImportError:  # Python 3.11
            from _sha256 import sha256
    except ImportError:  # a Python that was built without them
        from hashlib import blake2b, sha1, sha256

__all__ = ["blake2b", "sha1", "sha256"]
