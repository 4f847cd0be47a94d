"""The layout of a call and of its answer on the channel."""

from __future__ import annotations

import struct

# The number of bytes that follow, the nonce that the answer must repeat, and the kind of the frame.
HEAD = struct.Struct("<Q16sc")
LOAD, CALL, MANY, VALUE, RAISED = b"l", b"c", b"m", b"v", b"r"


def frame(nonce: bytes, kind: bytes, content: bytes) -> bytes:
    return HEAD.pack(len(content), nonce, kind) + content
