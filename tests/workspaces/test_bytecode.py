"""The store of byte code: what it keeps, by what it finds it, and how large it grows."""

from pathlib import Path

import pytest

from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.bytecode import Bytecode, copy_into_export

CODE = b"\xa7\r\r\n" + (1).to_bytes(4, "little") + bytes(8) + b"code"


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
    sources = bytecode.sources(benchmark, DIGESTS)
    assert (sources.sdk, sources.benchmark) == (("run.py",), ("evaluate.py", "lib/helper.py"))
    assert bytecode.find(sources) is None
    out = SafeFolder(tmp_path).below("out").make()
    out.write_files({"0.pyc": CODE, "2.pyc": CODE, "tag": b"cpython-399"})
    entry = bytecode.save(sources, out)
    assert entry is not None
    assert entry == bytecode.find(sources)
    assert entry.below("loopty_sdk").names() == ["__pycache__", "run.py"]
    assert entry.below("loopty_sdk", "__pycache__").names() == ["run.cpython-399.pyc"]
    copy_into_export(entry, benchmark)
    assert benchmark.below("lib", "__pycache__").names() == ["helper.cpython-399.pyc"]
    assert "__pycache__" not in benchmark.names(), "number 1 could not be compiled"


def test_another_source_or_interpreter_finds_nothing(tmp_path: Path, sdk: Path, benchmark: SafeFolder) -> None:
    exports = SafeFolder(tmp_path).below("exports").make()
    first = Bytecode(exports, sdk, "python").sources(benchmark, DIGESTS).key
    keys = {
        first,
        Bytecode(exports, sdk, "another").sources(benchmark, DIGESTS).key,
        Bytecode(exports, sdk, "python").sources(benchmark, {**DIGESTS, "evaluate.py": "changed"}).key,
    }
    assert Bytecode(exports, sdk, "python").sources(benchmark, {**DIGESTS, "data.csv": "changed"}).key == first
    (sdk / "run.py").write_text("changed")
    keys.add(Bytecode(exports, sdk, "python").sources(benchmark, DIGESTS).key)
    assert len(keys) == 4


@pytest.mark.parametrize(
    "files",
    [
        {"0.pyc": CODE},
        {"0.pyc": CODE, "tag": b"../../x"},
        {"0.pyc": CODE, "tag": b""},
        {"0.pyc": CODE, "tag": b"x" * 1000},
    ],
)
def test_a_compiler_that_did_not_finish_leaves_nothing(
    tmp_path: Path, sdk: Path, benchmark: SafeFolder, files: dict[str, bytes]
) -> None:
    exports = SafeFolder(tmp_path).below("exports").make()
    bytecode = Bytecode(exports, sdk, "python")
    out = SafeFolder(tmp_path).below("out").make()
    out.write_files(files)
    assert bytecode.save(bytecode.sources(benchmark, DIGESTS), out) is None
    assert exports.names() == []


def test_what_is_no_byte_code_of_frozen_files_is_left_out(
    tmp_path: Path, sdk: Path, benchmark: SafeFolder
) -> None:
    bytecode = Bytecode(SafeFolder(tmp_path).below("exports").make(), sdk, "python")
    sources = bytecode.sources(benchmark, DIGESTS)
    out = SafeFolder(tmp_path).below("out").make()
    timed = CODE[:4] + bytes(12) + b"code"
    out.write_files({"0.pyc": b"short", "1.pyc": timed, "tag": b"cpython-399"})
    (tmp_path / "secret").write_bytes(CODE)
    (tmp_path / "out/2.pyc").symlink_to(tmp_path / "secret")
    entry = bytecode.save(sources, out)
    assert entry is not None
    assert not list((tmp_path / "exports").rglob("*.pyc"))


def test_only_the_entries_that_were_used_last_stay(tmp_path: Path, sdk: Path, benchmark: SafeFolder) -> None:
    exports = SafeFolder(tmp_path).below("exports").make()
    exports.below("an export").make()
    out = SafeFolder(tmp_path).below("out").make()
    out.write_files({"tag": b"cpython-399"})
    first = Bytecode(exports, sdk, "0")
    for number in range(20):
        bytecode = Bytecode(exports, sdk, str(number))
        assert bytecode.save(bytecode.sources(benchmark, DIGESTS), out)
        assert first.find(first.sources(benchmark, DIGESTS)), "it is in use"
    assert len(exports.names()) == 17
