"""What a hostile store gives for a commit or a folder costs little, and is refused in one line."""

import json
import zlib

import pytest

from loopty.domain.shared_store import StoreFault
from loopty.git import bundles
from loopty.git.bundles import unpack_bundle_of
from loopty.workspaces.shared_files import decode_folder


def test_bundles_that_build_on_invented_ones_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(bundles, "_LARGEST_CHAIN", 10_000)
    asked = []

    def get(name: str) -> bytes:
        asked.append(name)
        return f"# v2 git bundle\n-{len(asked):040x} base\n{name} refs/loopty/commit\n\nPACK".encode() + bytes(
            1_000
        )

    with pytest.raises(StoreFault, match="builds"):
        unpack_bundle_of(None, "f" * 40, get, lambda _: False)
    assert len(asked) < 12


def folder(head: str, rest: bytes = b"") -> bytes:
    return zlib.compress(head.encode() + b"\n" + rest)


def large(row: str) -> bytes:
    text = f'{{"a": {row}}}'
    return folder(json.dumps({".large-files": len(text)}), text.encode())


@pytest.mark.parametrize(
    "raw",
    [
        b"garbage",
        zlib.compress(bytes(300 << 20), 1),
        folder("[" * 100_000),
        folder('{"a": 4, "b": -4, "c": 4}', b"1234"),
        folder('{"../a": 1}', b"1"),
        folder('{"a": "9"}', b"1"),
        large('["x", 1e999]'),
        large('["x", null]'),
        large('{"x": 1}'),
        large("[" * 100_000),
    ],
)
def test_a_hostile_folder_is_refused(raw):
    with pytest.raises(StoreFault, match="cannot be read"):
        decode_folder(raw)
