"""Calls are archived exactly, durably, and without keys."""

import errno
import os

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Message, Prompt, Reply, Speaker, Usage
from loopty.kit.safe_folder import SafeFolder
from loopty.models.archive import Archive

PROMPT = Prompt(
    "Sei knapp. 🙂\n",
    (
        Message(Speaker.ASKER, 'tabs\t "quotes" \\ \udcff'),
        Message(Speaker.MODEL, "yes"),
        Message(Speaker.ASKER, "and?"),
    ),
    {"type": "object", "properties": {"x": {"type": "number", "maximum": 1}}},
    512,
)
REPLY = Reply("so\n", Usage(10, 20, 5, 15), whole=False)
CALL = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def archive(tmp_path):
    return Archive(SafeFolder(tmp_path, ("calls",)), lambda: 12.5)


def test_a_call_is_read_back_unchanged(archive):
    archive.keep(CALL, PROMPT, REPLY, model="openai:m", role="evolver", operator="guess", node=NodeId("1.2"))
    record = archive.record(CALL)
    assert (record.prompt, record.reply, record.failure) == (PROMPT, REPLY, "")
    assert (record.call, record.at, record.model, record.role, record.operator, record.node) == (
        CALL,
        12.5,
        "openai:m",
        "evolver",
        "guess",
        "1.2",
    )
    assert archive.reply(CALL) == REPLY


def test_a_failure_is_kept_with_its_prompt(archive):
    archive.keep(CALL, PROMPT, None, "503: down")
    assert archive.record(CALL).failure == "503: down"
    with pytest.raises(Misuse, match="no longer in"):
        archive.reply(CALL)


def test_another_process_finds_the_call(archive, tmp_path):
    archive.keep("first", Prompt('"call":"second"', (), {"call": "second"}), REPLY)
    archive.keep("second", PROMPT, Reply("the second", Usage()))
    Archive(SafeFolder(tmp_path, ("calls",))).keep("third", PROMPT, Reply("the third", Usage()))
    other = Archive(SafeFolder(tmp_path, ("calls",)))
    assert [other.reply(call).text for call in ("third", "second", "first", "third")] == [
        "the third",
        "the second",
        "so\n",
        "the third",
    ]
    assert archive.reply("third").text == "the third"


@pytest.mark.parametrize(
    "content", [b"", b'{"call":"x"', b"[]", b"{}", b"\xff\xfe", b'{"prompt": 3}', b"[" * 10**5]
)
def test_a_torn_or_missing_line_gives_no_record(archive, tmp_path, content):
    assert archive.record(CALL) is None
    archive.keep(CALL, PROMPT, REPLY)
    (tmp_path / "calls" / f"{CALL}.jsonl").write_bytes(content)
    assert archive.record(CALL) is None
    assert list(archive.records()) == []
    with pytest.raises(Misuse, match=r"restore the files, or start a new run"):
        archive.reply(CALL)


def test_several_calls_are_read_in_one_pass(archive, tmp_path):
    for call in ("first", "second", "third"):
        archive.keep(call, Prompt("", (), {"call": "missing"}), Reply(call, Usage()))
    other = Archive(SafeFolder(tmp_path, ("calls",)))
    records = other.records_of(["third", "missing", "first"])
    assert {call: record.reply.text for call, record in records.items()} == {"first": "first", "third": "third"}
    assert other.records_of([]) == {}


def test_a_torn_line_leaves_other_lines_readable(archive, tmp_path):
    for call in ("first", "second", "third"):
        archive.keep(call, PROMPT, Reply(call, Usage()))
    file = tmp_path / "calls" / "first.jsonl"
    file.write_bytes(file.read_bytes().replace(b'{"call":"second"', b'\xff"call":"second"')[:-5])
    archive.keep("fourth", PROMPT, REPLY)
    other = Archive(SafeFolder(tmp_path, ("calls",)))
    assert other.reply("first").text == "first"
    assert [other.record(call) for call in ("second", "third")] == [None, None]


def test_after_a_full_disk_the_next_call_is_recorded_whole(archive, monkeypatch):
    archive.keep("first", PROMPT, REPLY)
    real = os.write

    def half(file: int, content: bytes) -> int:
        monkeypatch.setattr(os, "write", full)
        return real(file, content[: len(content) // 2])

    def full(_file: int, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(Misuse, match="No space left"):
        archive.keep("second", PROMPT, REPLY)
    monkeypatch.setattr(os, "write", real)
    archive.keep("third", PROMPT, REPLY)
    assert (archive.reply("first"), archive.record("second"), archive.reply("third")) == (REPLY, None, REPLY)
    assert [record.call for record in archive.records()] == ["first", "third"]


def test_unknown_fields_of_a_later_version_are_ignored(archive, tmp_path):
    archive.keep(CALL, PROMPT, REPLY)
    file = tmp_path / "calls" / f"{CALL}.jsonl"
    file.write_bytes(file.read_bytes().replace(b'{"call"', b'{"colour":"blue","call"'))
    assert archive.reply(CALL) == REPLY


def test_a_call_is_on_disk_before_keep_returns(archive, tmp_path, monkeypatch):
    steps = []
    real = os.write, os.fdatasync, os.fsync
    monkeypatch.setattr(os, "write", lambda *arguments: (steps.append("write"), real[0](*arguments))[1])
    monkeypatch.setattr(os, "fdatasync", lambda file: (steps.append("content"), real[1](file)))
    monkeypatch.setattr(os, "fsync", lambda folder: (steps.append("name"), real[2](folder)))
    archive.keep(CALL, PROMPT, REPLY)
    archive.keep("another", PROMPT, REPLY)
    assert steps == ["name", "write", "content", "write", "content"]
    assert [path.name for path in (tmp_path / "calls").iterdir()] == [f"{CALL}.jsonl"]


def test_no_call_name_leads_out_of_the_folder(archive):
    for name in ("../ledger", "a/b", "", ".."):
        assert archive.record(name) is None
        with pytest.raises(Misuse, match="not the name of a call"):
            archive.keep(name, PROMPT, REPLY)


def test_keys_are_removed_and_placeholders_are_not(archive, tmp_path):
    for key in ("secret-secret", "secret-secret-longer", "x", None):
        archive.hide(key)
    archive.keep(
        CALL, Prompt("secret-secret-longer x", (), {"secret-secret": ["secret-secret"]}), Reply("x", Usage())
    )
    assert archive.record(CALL).prompt == Prompt("[key] x", (), {"[key]": ["[key]"]})
    assert "secret" not in (tmp_path / "calls" / f"{CALL}.jsonl").read_text()


def test_records_come_oldest_first(tmp_path):
    now = iter((3.0, 1.0, 2.0))
    archive = Archive(SafeFolder(tmp_path), lambda: next(now))
    for name in ("a", "b", "c"):
        archive.keep(name, PROMPT, REPLY)
    assert [record.call for record in archive.records()] == ["b", "c", "a"]
