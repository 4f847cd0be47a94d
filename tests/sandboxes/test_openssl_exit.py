"""OpenSSL does not give back its memory in a copy of a warm process, and works as before."""

from __future__ import annotations

import _hashlib
import subprocess
import sys

import pytest

PROGRAM = """
import contextlib, ctypes, os, sys
from loopty.sandboxes.namespace_launcher.openssl_exit import OpenSslExit

process = ctypes.PyDLL(None)


@ctypes.PYFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)
def say_whether_openssl_works(_code, _argument):
    os.write(1, b"%d" % ctypes.CDLL(_hashlib.__file__).OPENSSL_init_crypto(ctypes.c_uint64(0), None))


process.on_exit(say_whether_openssl_works, None)  # before OpenSSL's own, so it runs after that
finders = list(sys.meta_path)
with OpenSslExit() if sys.argv[1] == "kept" else contextlib.nullcontext():
    import _hashlib
assert sys.meta_path == finders
assert _hashlib.new("sha256", b"text").hexdigest().startswith("982d9e3eb996f559")
process.exit(0)
"""


@pytest.mark.skipif(not hasattr(_hashlib, "__file__"), reason="OpenSSL is a part of this interpreter")
@pytest.mark.parametrize(("mode", "works"), [("usual", b"0"), ("kept", b"1")])
def test_openssl_works_until_the_process_is_gone(mode: str, works: bytes) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, mode], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, works, b"")


def test_without_openssl_imports_go_on() -> None:
    program = """
import sys
from loopty.sandboxes.namespace_launcher import openssl_exit
openssl_exit._USERS = ("colorsys", "itertools", "there_is_no_such_module")


class OldFinder:
    def find_module(self, name, path=None):
        return None


if sys.version_info < (3, 12):
    sys.meta_path.insert(0, OldFinder())
for number in range(3):
    with openssl_exit.OpenSslExit():
        if number == 2:
            sys.meta_path.pop(0)  # as odd imports leave it
        try:
            __import__(openssl_exit._USERS[number])
        except ModuleNotFoundError:
            print("not found")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"not found\n", b"")
