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
from loopty.kit.quick_import import import_quickly
import_quickly(pack)
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
