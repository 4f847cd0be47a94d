"""How a call and its answer are laid out on the channel."""

from __future__ import annotations

import struct

# The bytes that follow, the number that the question carries and its answer must bring back, what it is.
HEAD = struct.Struct("<Q16sc")
LOAD, CALL, VALUE, RAISED = b"l", b"c", b"v", b"r"


def frame(nonce: bytes, kind: bytes, content: bytes) -> bytes:
    return HEAD.pack(len(content), nonce, kind) + content
