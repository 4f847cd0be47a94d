"""Reads a model's context length from the header of a GGUF file."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from loopty.domain.errors import Misuse

_MAGIC = b"GGUF"
_TEXT, _ARRAY, _UNSIGNED = 8, 9, 4
# The size of a value in bytes, by the number of its type.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_LONGEST_TEXT = 1 << 20


def context_length(file: Path) -> int | None:
    """The context length in tokens that the model was trained with, or None when the file does not say."""
    try:
        with file.open("rb") as header:
            if header.read(len(_MAGIC)) != _MAGIC:
                raise Misuse(f"{file} is not a GGUF file: `file` must name the weights of a model in that format")
            return _read_context(header)
    except OSError as error:
        raise Misuse(f"cannot read {file} ({error.strerror}): check `file` and its permissions") from error
    except (struct.error, KeyError, ValueError):
        return None  # the library that loads the file reports what is wrong


def _read_context(header: BinaryIO) -> int | None:
    _, _, count = _read(header, "<IQQ")
    for _ in range(count):
        name = _read_text(header)
        (kind,) = _read(header, "<I")
        if name.endswith(b".context_length") and kind == _UNSIGNED:
            return int(_read(header, "<I")[0])
        _skip(header, kind)
    return None


def _skip(header: BinaryIO, kind: int) -> None:
    if kind == _TEXT:
        _read_text(header)
    elif kind == _ARRAY:
        element_kind, count = _read(header, "<IQ")
        if element_kind in _SIZES:
            header.seek(_SIZES[element_kind] * count, 1)
        else:
            for _ in range(count):
                _skip(header, element_kind)
    else:
        header.seek(_SIZES[kind], 1)


def _read_text(header: BinaryIO) -> bytes:
    (size,) = _read(header, "<Q")
    if size > _LONGEST_TEXT:
        raise ValueError("too long for a text")
    return header.read(size)


def _read(header: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, header.read(struct.calcsize(layout)))
