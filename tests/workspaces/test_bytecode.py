"""The store of byte code: what it keeps, by what it finds it, and how large it grows."""

import os
from pathlib import Path

import pytest

from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.bytecode import Bytecode, bytecode_of, copy_into_export, files_in_limits

MAGIC, REST = b"\xa7\r\r\n", bytes(8) + b"code"
SDK_CODE = MAGIC + (1).to_bytes(4, "little") + REST
CODE = MAGIC + (3).to_bytes(4, "little") + REST
"""Byte code that counts only as long as the file beside it has the content that was compiled."""


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk/run.py").write_text("")
    return tmp_path / "sdk"


@pytest.fixture
def benchmark(tmp_path: Path) -> SafeFolder:
    folder = SafeFolder(tmp_path).below("export")
    for name in ("evaluate.py", "data.csv"):
        folder.file(name).write(b"x = 1\n")
    folder.below("lib").file("helper.py").write(b"y = 1\n")
    return folder


DIGESTS = {"evaluate.py": "a", "lib/helper.py": "b", "data.csv": "c"}


def test_byte_code_is_kept_beside_the_names_of_its_sources(
    tmp_path: Path, sdk: Path, benchmark: SafeFolder
) -> None:
    bytecode = Bytecode(SafeFolder(tmp_path).below("exports").make(), sdk, "python")
    sources = bytecode.sources(DIGESTS)
    assert (sources.sdk, sources.files) == (("run.py",), ("evaluate.py", "lib/helper.py"))
    assert bytecode.find(sources) is None
    out = SafeFolder(tmp_path).below("out").make()
    out.write_files({"0.pyc": SDK_CODE, "2.pyc": CODE, "tag": b"cpython-399"})
    entry = bytecode.save(sources, out)
    assert entry is not None
    assert entry == bytecode.find(sources)
    assert entry.below("loopty_sdk").names() == ["__pycache__", "run.py"]
    assert entry.below("loopty_sdk", "__pycache__").names() == ["run.cpython-399.pyc"]
    copy_into_export(entry, benchmark)
    assert benchmark.below("lib", "__pycache__").names() == ["helper.cpython-399.pyc"]
    assert "__pycache__" not in benchmark.names(), "number 1 could not be compiled"
    assert bytecode_of(["evaluate.py", "lib/helper.py"], benchmark) == ["lib/__pycache__/helper.cpython-399.pyc"]
    assert bytecode_of(["lib/other.py", "lib/data.csv"], benchmark) == []


def test_another_source_or_interpreter_finds_nothing(tmp_path: Path, sdk: Path) -> None:
    exports = SafeFolder(tmp_path).below("exports").make()
    first = Bytecode(exports, sdk, "python").sources(DIGESTS).key
    keys = {
        first,
        Bytecode(exports, sdk, "another").sources(DIGESTS).key,
        Bytecode(exports, sdk, "python").sources({**DIGESTS, "evaluate.py": "changed"}).key,
    }
    assert Bytecode(exports, sdk, "python").sources({**DIGESTS, "data.csv": "changed"}).key == first
    (sdk / "run.py").write_text("changed")
    keys.add(Bytecode(exports, sdk, "python").sources(DIGESTS).key)
    assert len(keys) == 4


def test_byte_code_that_was_found_for_an_origin_is_found_again_without_its_sources(
    tmp_path: Path, sdk: Path
) -> None:
    exports = SafeFolder(tmp_path).below("exports").make()
    bytecode, out = Bytecode(exports, sdk, "python"), SafeFolder(tmp_path).below("out").make()
    assert bytecode.recall("commit 1") is None
    out.write_files({"0.pyc": SDK_CODE, "tag": b"cpython-399"})
    entry = bytecode.save(bytecode.sources(DIGESTS), out)
    assert bytecode.recall("commit 1") is None
    assert bytecode.find(bytecode.sources(DIGESTS), "commit 1") == entry
    assert bytecode.recall("commit 1") == entry
    assert bytecode.recall("commit 2") is None
    assert Bytecode(exports, sdk, "another").recall("commit 1") is None
    (sdk / "run.py").write_text("changed")
    assert Bytecode(exports, sdk, "python").recall("commit 1") is None


@pytest.mark.parametrize(
    "files",
    [
        {"0.pyc": SDK_CODE},
        {"0.pyc": SDK_CODE, "tag": b"../../x"},
        {"0.pyc": SDK_CODE, "tag": b""},
        {"0.pyc": SDK_CODE, "tag": b"x" * 1000},
    ],
)
def test_a_compiler_that_did_not_finish_leaves_nothing(tmp_path: Path, sdk: Path, files: dict[str, bytes]) -> None:
    exports = SafeFolder(tmp_path).below("exports").make()
    bytecode = Bytecode(exports, sdk, "python")
    out = SafeFolder(tmp_path).below("out").make()
    out.write_files(files)
    assert bytecode.save(bytecode.sources(DIGESTS), out) is None
    assert exports.names() == []


@pytest.mark.parametrize("flags", [0, 1])
def test_what_an_interpreter_would_not_compare_with_its_file_is_left_out(
    tmp_path: Path, sdk: Path, flags: int
) -> None:
    bytecode = Bytecode(SafeFolder(tmp_path).below("exports").make(), sdk, "python")
    sources = bytecode.sources(DIGESTS)
    out = SafeFolder(tmp_path).below("out").make()
    unchecked = MAGIC + flags.to_bytes(4, "little") + REST
    out.write_files({"0.pyc": b"short", "1.pyc": unchecked, "tag": b"cpython-399"})
    (tmp_path / "secret").write_bytes(CODE)
    (tmp_path / "out/2.pyc").symlink_to(tmp_path / "secret")
    entry = bytecode.save(sources, out)
    assert entry is not None
    assert not list((tmp_path / "exports").rglob("*.pyc"))


def test_only_the_entries_that_were_used_last_stay(tmp_path: Path, sdk: Path) -> None:
    exports = SafeFolder(tmp_path).below("exports").make()
    exports.below("an export").make()
    out = SafeFolder(tmp_path).below("out").make()
    out.write_files({"tag": b"cpython-399"})
    first = Bytecode(exports, sdk, "0")
    for number in range(20):
        bytecode = Bytecode(exports, sdk, str(number))
        entry = bytecode.save(bytecode.sources(DIGESTS), out)
        assert entry
        os.utime(entry.shown_path, (0, number))  # long ago
        assert first.find(first.sources(DIGESTS)), "it is in use"
    assert len(exports.names()) == 17
    for number in range(20, 40):
        bytecode = Bytecode(exports, sdk, str(number))
        assert bytecode.save(bytecode.sources(DIGESTS), out)
    assert len(exports.names()) == 22, "those of today stay: a session may use them"


def test_files_are_compiled_until_they_are_too_large_together(tmp_path: Path) -> None:
    folder = SafeFolder(tmp_path).below("sources")
    folder.write_files({"a.py": b"#" * (5 << 20), "b.py": b"#" * (5 << 20), "c.py": b"x = 1\n", "empty.py": b""})
    (tmp_path / "sources/link.py").symlink_to("c.py")
    assert files_in_limits(folder, ["a.py", "b.py", "c.py", "empty.py", "gone.py", "link.py"]) == ("a.py", "c.py")
