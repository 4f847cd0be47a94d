"""A patch that is made in this process applies, and is the one of git wherever lines match in one way only."""

from __future__ import annotations

import hashlib
import random
import subprocess
from pathlib import Path

import pytest

from loopty.git.patches import FileVersion, file_patch

from .conftest import User

LINES = (b"def f():", b"    x = 1", b"    return x", b"", b"class A:", b"_z = 3")


def version(content: bytes | None) -> FileVersion | None:
    if content is None:
        return None
    name = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return FileVersion("100644", name, content)


def applied(folder: Path, before: bytes | None, patch: bytes) -> bytes | None:
    """The file after `git apply` in an empty folder."""
    file = folder / "src/f.py"
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    if before is not None:
        file.write_bytes(before)
    subprocess.run(["git", "apply", "-"], cwd=folder, input=patch, check=True)
    return file.read_bytes() if file.exists() else None


def changed(rng: random.Random, lines: list[bytes]) -> list[bytes]:
    new = list(lines)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(new) + 1)
        match rng.randrange(3):
            case 0:
                new[at:at] = rng.choices(LINES, k=rng.randrange(1, 4))
            case 1:
                del new[at : at + rng.randrange(1, 4)]
            case _:
                new[at : at + 1] = [b"    q = %d" % rng.randrange(1000)]
    return new


def text(rng: random.Random, lines: list[bytes]) -> bytes:
    return b"\n".join(lines) + (b"\n" if lines and rng.random() < 0.8 else b"")


@pytest.mark.parametrize("seed", range(40))
def test_any_patch_applies(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lines = rng.choices(LINES, k=rng.choice([0, 1, 2, 5, 20, 60]))
    before, after = text(rng, lines), text(rng, changed(rng, lines))
    for old, new in ((before, after), (None, after), (before, None)):
        patch = file_patch("src/f.py", version(old), version(new))
        assert patch is not None
        if old == new or not (old or new):
            continue
        assert applied(tmp_path, old, patch) == new


def test_a_patch_is_that_of_git(user: User) -> None:
    lines = [b"def f%d():\n    return %d\n\n" % (number, number) for number in range(30)]
    old = b"".join(lines)
    for edits in ({0: b"new\n"}, {3: b"a\n", 5: b"b\nc\n"}, {2: b"a\n", 20: b"b\n"}, {29: b"the end"}):
        new = b"".join(edits.get(number, line) for number, line in enumerate(lines))
        before, after = (user.commits({"src/f.py": content.decode()}) for content in (old, new))
        patches = user.repository.patches
        own = patches.between(before, after)
        assert own == patches._patch_by_git(user.repository.tree(before), user.repository.tree(after))
        assert own.count(b"@@ -") == len(edits) - (edits.keys() == {3, 5})


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("f", b"a\0b", b"c"),
        ("f", b"a\r\n", b"b\n"),
        ("with space", b"a", b"b"),
        ("ü", b"a", b"b"),
        ("f", b"%d\n" * 600, b"%d\nx\n" * 600),
    ],
)
def test_what_is_unusual_is_left_to_git(path: str, old: bytes, new: bytes) -> None:
    assert file_patch(path, version(old), version(new)) is None


def test_a_change_of_the_mode_is_left_to_git() -> None:
    assert file_patch("f", FileVersion("100644", "0" * 40, b"a"), FileVersion("100755", "0" * 40, b"a")) is None
