"""The data of task files that were read before."""

import os
import tomllib

import pytest

from loopty.taskfile import read, schema
from loopty.taskfile.read import keep_data, known_data

TEXT = """
[benchmark]
command = "./run"
timeout_seconds = 60

[parameters.x]
type = "float"
low = 0.0
high = 1.0
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "loopty" / "tasks"


def kept_file(cache):
    (file,) = cache.iterdir()
    return file


def test_a_task_is_parsed_once(monkeypatch):
    first = read.parse(TEXT)
    monkeypatch.setattr(tomllib, "loads", None)
    assert read.parse(TEXT) == first
    with pytest.raises(TypeError):
        read.parse(f"{TEXT}\n")


@pytest.mark.parametrize(
    "text", ["a = 1\nb = 1.0\nc = true\nd = 'x'\ne = [1, 2.5, [{}]]", "a = inf\nb = -0.0", "'' = ''\n'é\\U' = 'ü'"]
)
def test_the_data_are_the_same_to_the_last_type(text):
    data = tomllib.loads(text)
    keep_data(text, data)
    assert repr(known_data(text)) == repr(data)


@pytest.mark.parametrize("text", ["at = 2026-01-01", "at = 10:00:00", f"text = '{'x' * (1 << 20)}'"])
def test_what_json_cannot_hold_or_is_huge_is_not_kept(text):
    keep_data(text, schema.parse_toml(text, "loopty.toml"))
    assert known_data(text) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"data": {}}', b"\xff", b"[" * 100_000])
def test_a_damaged_entry_is_not_used(cache, content):
    keep_data(TEXT, {"a": 1})
    kept_file(cache).write_bytes(content)
    assert known_data(TEXT) is None


def test_an_entry_of_another_text_under_this_name_is_not_used(cache):
    keep_data("a = 1", {"a": 1})
    other = kept_file(cache)
    keep_data("a = 2", {"a": 2})
    for file in cache.iterdir():
        file.write_bytes(other.read_bytes())
    assert known_data("a = 1") == {"a": 1}
    assert known_data("a = 2") is None


def test_an_entry_that_others_can_write_or_that_is_a_link_is_not_used(cache, tmp_path):
    keep_data(TEXT, {"a": 1})
    file = kept_file(cache)
    file.chmod(0o666)
    assert known_data(TEXT) is None
    file.chmod(0o600)
    assert known_data(TEXT) == {"a": 1}
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert known_data(TEXT) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_entry_of_another_user_is_not_used(cache):
    keep_data(TEXT, {"a": 1})
    os.chown(kept_file(cache), 61_234, 61_234)
    assert known_data(TEXT) is None


def test_a_cache_that_cannot_be_written_changes_nothing(cache):
    cache.parent.mkdir()
    cache.write_text("in the way")
    assert read.parse(TEXT) == read.parse(TEXT)


def test_only_the_newest_are_kept(cache):
    for number in range(40):
        keep_data(f"a = {number}", {"a": number})
        os.utime(max(cache.iterdir(), key=lambda file: file.stat().st_ctime_ns), (number, number))
    assert len(list(cache.iterdir())) <= 33
    assert known_data("a = 39") == {"a": 39}
    assert known_data("a = 0") is None


def test_nothing_is_kept_or_removed_behind_a_link(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for number in range(40):
        (theirs / f"{number:064}").write_text("")
    folder = tmp_path / "loopty" / "tasks"
    folder.parent.mkdir()
    folder.symlink_to(theirs)
    keep_data("a = 1", {"a": 1})
    assert known_data("a = 1") is None
    assert len(list(theirs.iterdir())) == 40
