"""Modules that are imported at their first use, and modules that are found with fewer questions."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def printed(code: str, **environ: str) -> str:
    command = (sys.executable, "-W", "error", "-c", code)
    env = {**os.environ, **environ}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env, timeout=120).stdout.strip()


def test_a_later_module_is_imported_when_something_of_it_is_asked_for():
    assert (
        printed("""
import sys
from loopty.kit.later_modules import import_later
import_later("colorsys", "json")
import colorsys
before = "rgb_to_hsv" in vars(colorsys)
print(before, colorsys.rgb_to_hsv(0, 0, 0), "rgb_to_hsv" in vars(sys.modules["colorsys"]))
from json import dumps
print(dumps([1]))
""")
        == "False (0.0, 0.0, 0) True\n[1]"
    )


def test_a_function_of_a_later_module_is_imported_from_it_and_its_first_call_imports_the_module():
    assert (
        printed("""
import sys
from loopty.kit.later_modules import import_functions_later
for name in ("pathlib", "urllib.parse"):
    sys.modules.pop(name, None)  # perhaps Python itself imported them
import_functions_later("urllib", "parse", "quote_from_bytes")
from urllib.parse import quote_from_bytes
from pathlib import Path
print("urlsplit" in vars(sys.modules["urllib.parse"]))
print(Path("/a b").as_uri(), quote_from_bytes(b" "))
import urllib.parse
print(urllib.parse.urlsplit("http://host/path").netloc)
""")
        == "False\nfile:///a%20b %20\nhost"
    )
    assert (
        printed("""
import sys
from loopty.kit.later_modules import import_functions_later
sys.modules.pop("urllib.parse", None)
import_functions_later("urllib", "parse", "quote_from_bytes")
import urllib.parse
print(urllib.parse.urlsplit("http://host/path").netloc)
from urllib.parse import quote
print(quote(" "))
""")
        == "host\n%20"
    )


def test_connections_with_encryption_work_where_ssl_is_imported_later():
    assert (
        printed("""
from loopty.kit.later_modules import import_later
import_later("ssl", "asyncio.sslproto", "inspect")
import asyncio, ssl
print(ssl.create_default_context().check_hostname, asyncio.base_events.sslproto.SSLProtocol.__name__)
print(issubclass(asyncio.base_events.ssl.SSLError, OSError), asyncio.iscoroutinefunction(print))
""")
        == "True SSLProtocol\nTrue False"
    )


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "pack"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "__init__.py").write_text("HERE = __path__[0]")
    (folder / "inner" / "one.py").write_text("VALUE = 1")
    return folder


IMPORT = """
import sys
import pack
from loopty.kit.kept_code import KeptCode
from loopty.kit.quick_import import import_quickly
import_quickly(pack, KeptCode("verb", pack.__path__[0]))
import pack.inner.one as one
print(one.VALUE, type(one.__loader__).__name__, one.__file__[-17:], one.__spec__.parent, pack.inner.HERE[-10:])
"""


def test_a_module_with_byte_code_is_found_quickly_and_is_as_any_other(package):
    subprocess.run((sys.executable, "-m", "compileall", "-q", str(package)), check=True)
    found = printed(IMPORT, PYTHONPATH=str(package.parent))
    assert found == "1 _Loader pack/inner/one.py pack.inner pack/inner"


def test_a_changed_source_is_left_to_python(package):
    subprocess.run((sys.executable, "-m", "compileall", "-q", str(package)), check=True)
    (package / "inner" / "one.py").write_text("VALUE = 222")
    found = printed(IMPORT, PYTHONPATH=str(package.parent))
    assert found == "222 SourceFileLoader pack/inner/one.py pack.inner pack/inner"


@pytest.fixture
def compiled(package, tmp_path):
    """Imports the package as a verb does, with its own cache, and says what it found."""
    subprocess.run((sys.executable, "-m", "compileall", "-q", str(package)), check=True)
    return lambda: printed(IMPORT, PYTHONPATH=str(package.parent), XDG_CACHE_HOME=str(tmp_path / "cache"))


def kept_file(tmp_path):
    (found,) = (tmp_path / "cache" / "loopty" / "modules").iterdir()
    return found


AS_WRITTEN = "1 _Loader pack/inner/one.py pack.inner pack/inner"


def test_the_next_process_has_the_code_of_all_modules_from_one_file(package, compiled, tmp_path):
    assert compiled() == AS_WRITTEN
    for file in package.rglob("*.pyc"):
        file.unlink()
    assert compiled() == AS_WRITTEN
    assert kept_file(tmp_path).stat().st_mode & 0o777 == 0o600


def test_code_of_a_changed_source_is_not_used_again(package, compiled):
    assert compiled() == AS_WRITTEN
    source = package / "inner" / "one.py"
    status = source.stat()
    source.write_text("VALUE = 5")
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # Python's own rule would not see it
    for file in package.rglob("one*.pyc"):
        file.unlink()
    assert compiled().startswith("5 SourceFileLoader")
    source.unlink()
    (package / "inner" / "one").mkdir()
    (package / "inner" / "one" / "__init__.py").write_text("VALUE = 6")
    assert compiled().startswith("6 ")


@pytest.mark.parametrize("length", [0, 5, 30, 200])
def test_a_file_that_was_cut_off_is_passed_over(compiled, tmp_path, length):
    compiled()
    file = kept_file(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:length])
    assert compiled() == AS_WRITTEN
    assert kept_file(tmp_path).read_bytes() == whole, "it is made anew"


def test_code_that_another_user_could_have_written_is_not_executed(package, compiled, tmp_path):
    compiled()
    file = kept_file(tmp_path)
    file.write_bytes(file.read_bytes().replace(b"VALUE", b"VALUF"))
    file.chmod(0o620)
    assert compiled() == AS_WRITTEN, "the file is made anew, with the rights of its owner alone"
    file.unlink()
    file.symlink_to(package / "__init__.py")
    assert compiled() == AS_WRITTEN
    assert (package / "__init__.py").read_text() == ""


def test_a_cache_that_cannot_be_written_changes_nothing(compiled, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "loopty").write_text("a file in the way")
    assert compiled() == AS_WRITTEN


def test_as_many_files_stay_as_were_written_last(compiled, tmp_path):
    folder = tmp_path / "cache" / "loopty" / "modules"
    folder.mkdir(parents=True)
    for number in range(40):
        for name in (f"old-{number:08}", f"{number:02}.txt"):
            (folder / name).write_text("")
            os.utime(folder / name, (number, number))
    compiled()
    names = sorted(path.name for path in folder.iterdir())
    assert len([name for name in names if name.endswith(".txt")]) == 40, "the files of others stay"
    ours = [name for name in names if not name.endswith(".txt")]
    assert len(ours) == 24
    assert ours[0] == "old-00000017"


@pytest.fixture
def script(package, tmp_path):
    """Runs a script, from another folder, that imports modules of the standard library; says what it found."""
    file = package.parent / "script.py"
    file.write_text("""
import pack
from loopty.kit.kept_code import KeptCode
from loopty.kit.quick_import import import_quickly
import_quickly(pack, KeptCode("verb", pack.__path__[0]))
import colorsys, xml.dom
print(type(colorsys.__loader__).__name__, xml.dom.Node.ELEMENT_NODE, xml.__path__ == [xml.__file__[:-12]])
""")
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    known["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    (tmp_path / "elsewhere").mkdir()

    def run(folder=tmp_path / "elsewhere", **environ):
        command = (sys.executable, "-W", "error", str(file))
        options = {"check": True, "capture_output": True, "text": True, "timeout": 120}
        return subprocess.run(command, cwd=folder, env={**known, **environ}, **options).stdout.strip()

    run.file, run.env = file, {**known, "PYTHONPATH": str(package.parent)}
    return run


def test_code_of_the_standard_library_is_kept_as_well(script):
    assert script() == "SourceFileLoader 1 True"
    assert script() == "_Loader 1 True"


def test_where_another_module_may_hide_one_of_the_standard_library_python_finds_it(script, package, tmp_path):
    script()
    folder = tmp_path / "elsewhere"
    (folder / "colorsys.py").write_text("")
    assert script(PYTHONPATH=str(folder)) == "SourceFileLoader 1 True"
    assert script(folder=package.parent) == "SourceFileLoader 1 True", (
        "the folder of the script is the current one"
    )


@pytest.mark.parametrize("at", ["cache", "cache/loopty", "cache/loopty/modules"])
def test_nothing_is_written_or_removed_behind_a_link_or_in_a_folder_of_others(compiled, tmp_path, at):
    elsewhere = tmp_path / "theirs"
    elsewhere.mkdir()
    for number in range(40):
        (elsewhere / f"old-{number:08}").write_text("")
    place = tmp_path / at
    place.parent.mkdir(parents=True, exist_ok=True)
    if at.endswith("modules"):
        place.symlink_to(elsewhere)
    elif os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    else:
        place.mkdir(mode=0o777)
        os.chown(place, 65534, 65534)
    assert compiled() == AS_WRITTEN
    assert len(list(elsewhere.iterdir())) == 40
    assert at.endswith("modules") or list(place.iterdir()) == []


def test_a_folder_with_the_name_of_the_file_is_passed_over(compiled, tmp_path):
    compiled()
    file = kept_file(tmp_path)
    file.unlink()
    file.mkdir()
    assert compiled() == AS_WRITTEN


def test_code_whose_source_changed_without_a_new_date_is_not_used_again(package, compiled):
    source = package / "inner" / "one.py"
    status = source.stat()
    assert compiled() == AS_WRITTEN
    source.write_text("VALUE = 7")
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    subprocess.run((sys.executable, "-m", "compileall", "-f", "-q", str(package)), check=True)
    assert compiled() == AS_WRITTEN.replace("1 ", "7 ", 1)


def test_a_removed_current_folder_hinders_no_import(script, tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    code = f"import os, runpy; os.rmdir({str(folder)!r}); runpy.run_path({str(script.file)!r})"
    done = subprocess.run((sys.executable, "-c", code), cwd=folder, env=script.env, capture_output=True, text=True)
    assert "SourceFileLoader 1 True" in done.stdout, done.stderr
