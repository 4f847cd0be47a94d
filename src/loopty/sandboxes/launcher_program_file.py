"""The compiled launcher, and the library by which a warm process copies itself.

They are built once for each user where there is a compiler, and used by later launchers.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

from loopty.kit.user_cache import make_own_folder, open_own, user_cache

_SOURCES = Path(__file__).with_name("compiled_launcher")
# Not by the search path, which may name folders of a repository.
_COMPILERS = ("/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang", "/usr/local/bin/cc")
_LIBRARY = ".so"
_BUILD_SECONDS = 120
_BUILD = "build-"
# The program is static, because in the launcher's root there are no libraries; the user of trials executes it.
# What is renamed is whole. Where only the program can be built, warm processes copy themselves in Python.
_SCRIPT = """
scratch=$1 program=$2 library=$3 compiler=$4
shift 4
build() {
    nice "$compiler" -O2 -w "$@" -o "$scratch/made" && chmod 755 "$scratch/made"
}
build -shared -fPIC -fvisibility=hidden "$@" && mv "$scratch/made" "$library"
build -static "$@" && mv "$scratch/made" "$program"
cd / && rm -rf "$scratch"
"""


def open_program() -> int | None:
    """The compiled launcher, opened; None where it has not been built, or where others could have changed it."""
    return _open("")


def open_library() -> int | None:
    """The library by which a warm process copies itself, opened; None as for the program."""
    return _open(_LIBRARY)


def _open(ending: str) -> int | None:
    if (folder := user_cache("launcher")) is None:
        return None
    try:
        return open_own(str(folder), f"{_name()}{ending}")
    except OSError:
        return None


def build_program() -> bool:
    """Build the program, unless it is there; whether it is there now. Without a compiler nothing happens."""
    _build("")
    if (descriptor := open_program()) is None:
        return False
    os.close(descriptor)
    return True


def start_build() -> None:
    """Build the program in a process of its own, which outlives this one, for the launchers that start later."""
    _build("&")


def _build(after: str) -> None:
    compiler = next((path for path in _COMPILERS if os.access(path, os.X_OK)), None)
    if (folder := user_cache("launcher")) is None or compiler is None:
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        make_own_folder(str(folder))
        name = _name()
        if (folder / name).exists():
            return
        _remove_leftovers(folder)
        scratch = folder / f"{_BUILD}{name}"
        scratch.mkdir(mode=0o700)  # where another process builds it, this raises
        made = (str(scratch), str(folder / name), str(folder / f"{name}{_LIBRARY}"))
        subprocess.run(
            ("/bin/sh", "-c", f"{{ {_SCRIPT} }} {after}", "sh", *made, compiler, *map(str, _parts())),
            timeout=_BUILD_SECONDS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=scratch,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": str(scratch), "LC_ALL": "C"},
            start_new_session=True,
        )


def _remove_leftovers(folder: Path) -> None:
    """Remove what builds left behind that were killed."""
    for left in folder.glob(f"{_BUILD}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > 2 * _BUILD_SECONDS:
                import shutil

                shutil.rmtree(left)


def _name() -> str:
    """By the content of all that it is made from."""
    from loopty.kit.short_digest import sha256

    texts = b"\0".join(part.read_bytes() for part in (*_parts(), _SOURCES / "launcher.h"))
    words = os.uname().machine + _SCRIPT
    return sha256(texts + words.encode()).hexdigest()[:32]


def _parts() -> list[Path]:
    return sorted(path for path in _SOURCES.iterdir() if path.suffix == ".c")
