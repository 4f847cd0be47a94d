"""What the head of a GGUF file says of its model."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from loopty.domain.errors import Misuse

_MAGIC = b"GGUF"
_TEXT, _ARRAY, _UNSIGNED = 8, 9, 4
# The bytes of a value, by the number of its type.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_LONGEST_TEXT = 1 << 20


def context_length(file: Path) -> int | None:
    """How many tokens the model was trained to see at once, where the file says so."""
    try:
        with file.open("rb") as head:
            if head.read(len(_MAGIC)) != _MAGIC:
                raise Misuse(f"{file} is no GGUF file: `file` names the weights of a model in that format")
            return _read_context(head)
    except OSError as error:
        raise Misuse(f"{file} cannot be read: {error.strerror}") from error
    except (struct.error, KeyError, ValueError):
        return None  # the library that loads it says what is wrong


def _read_context(head: BinaryIO) -> int | None:
    _, _, facts = _read(head, "<IQQ")
    for _ in range(facts):
        name = _read_text(head)
        (kind,) = _read(head, "<I")
        if name.endswith(b".context_length") and kind == _UNSIGNED:
            return int(_read(head, "<I")[0])
        _skip(head, kind)
    return None


def _skip(head: BinaryIO, kind: int) -> None:
    if kind == _TEXT:
        _read_text(head)
    elif kind == _ARRAY:
        inner, count = _read(head, "<IQ")
        if inner in _SIZES:
            head.seek(_SIZES[inner] * count, 1)
        else:
            for _ in range(count):
                _skip(head, inner)
    else:
        head.seek(_SIZES[kind], 1)


def _read_text(head: BinaryIO) -> bytes:
    (size,) = _read(head, "<Q")
    if size > _LONGEST_TEXT:
        raise ValueError("a text too long to be one")
    return head.read(size)


def _read(head: BinaryIO, form: str) -> tuple[int, ...]:
    return struct.unpack(form, head.read(struct.calcsize(form)))
