"""Compile files, so that later starts need not: the script that loopty runs in a sandbox without a candidate.

    python3 -I -S compile_files.py LIST OUT FOLDER...

LIST has the files with a NUL after each: the number of its folder, a slash, its path there. OUT/N.pyc is the byte
code of file number N, where it could be compiled; OUT/tag, written last, is the part of the names by which this
interpreter finds byte code. The files of the first folder, the SDK, never change: an interpreter loads their byte
code without a look at them. That of others counts only as long as a file has the content that was compiled.
"""

from __future__ import annotations

import os
import py_compile
import sys

_MODES = py_compile.PycInvalidationMode


def main(listing: str, out: str, *folders: str) -> None:
    with open(listing, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        names = file.read().split("\0")[:-1]
    os.mkdir(out)  # noqa: PTH102
    for number, name in enumerate(names):
        folder, _, path = name.partition("/")
        mode = _MODES.CHECKED_HASH if int(folder) else _MODES.UNCHECKED_HASH
        try:
            py_compile.compile(
                f"{folders[int(folder)]}/{path}",
                f"{out}/{number}.pyc",
                doraise=True,
                invalidation_mode=mode,
            )
        except (py_compile.PyCompileError, OSError, ValueError, RecursionError, MemoryError):
            continue  # it is compiled when it is imported, or never
    with open(f"{out}/tag", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(sys.implementation.cache_tag or "")


if __name__ == "__main__":
    main(*sys.argv[1:])
