"""Contents of any size come back, and no small one gets longer for it."""

import zlib

import pytest

from loopty.kit.contents import deflate

TEXT = b"".join(b"line %d of a file\n" % (number * number % 977) for number in range(2000))


@pytest.mark.parametrize("size", [0, 1, 300, 8191, 8192, 8193, len(TEXT)])
@pytest.mark.parametrize("level", [1, 6])
def test_what_is_compressed_comes_back_and_is_short(size: int, level: int) -> None:
    content = TEXT[:size]
    made = deflate(content, level)
    assert zlib.decompress(made) == content
    assert len(made) <= len(zlib.compress(content, level)) * 1.05 + 8


def test_git_takes_the_first_byte_for_that_of_a_loose_object() -> None:
    first, second = deflate(b"tree 0\0", 1)[:2]
    assert first & 0x8F == 0x08
    assert (first * 256 + second) % 31 == 0
