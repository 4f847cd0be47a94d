"""Answer calls of a Python function: the script that runs in the candidate's own sandbox.

    python3 -I -B serve.py program.py:solve

The evaluator trusts nothing here: a candidate can change all of it.
"""

from __future__ import annotations

import importlib
import importlib.machinery as machinery
import importlib.util
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST_MESSAGE = 500


def main(target: str) -> None:
    # Loaded by file name, because only the candidate's own files may be on the import path.
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs a third of the start
    frames, values = (_load_file(f"loopty_{name}", f"{here}/{name}.py") for name in ("frames", "values"))
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(0), "wb")
    # From here on the candidate's output goes to stderr, and its input is empty.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    function: Any = None
    while len(head := questions.read(frames.HEAD.size)) == frames.HEAD.size:
        size, nonce, kind = frames.HEAD.unpack(head)
        content = questions.read(size)
        try:
            if kind == frames.LOAD:
                function, result = _load(target), None
            else:
                args, named = values.decode(content)
                result = function(*args, **named)
            kind, answer = frames.VALUE, values.encode(result)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an exception is an answer, too
            sys.excepthook(type(error), error, error.__traceback__)
            kind, answer = frames.RAISED, values.encode(_one_line(error))
        sys.stdout.flush()
        answers.write(frames.frame(nonce, kind, answer))
        answers.flush()


def _load(target: str) -> Any:
    """Load the function that `FILE.py:NAME` or `package.module:NAME` names in the current directory."""
    tree = os.getcwd()  # noqa: PTH109
    place, _, name = target.rpartition(":")
    sys.path_hooks.insert(0, lambda path: _finder(path, tree))
    sys.path.insert(0, tree)
    if place.endswith(".py"):
        path = os.path.join(tree, place)  # noqa: PTH118
        if os.path.dirname(path) != tree:  # noqa: PTH120
            sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120
        loaded = _load_file(os.path.basename(place)[:-3], path)  # noqa: PTH119
    else:
        loaded = importlib.import_module(place)
    for part in name.split("."):
        loaded = getattr(loaded, part)
    return loaded


class _SourceOnlyLoader(machinery.SourceFileLoader):
    """Always compiles the source, so that bytecode planted beside it is never run."""

    def path_stats(self, path: Any) -> Any:  # noqa: ARG002
        raise OSError("no bytecode")


def _finder(path: str, tree: str) -> machinery.FileFinder:
    if path != tree and not path.startswith(f"{tree}/"):
        raise ImportError("not in the candidate's tree")
    extensions = (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES)
    return machinery.FileFinder(path, extensions, (_SourceOnlyLoader, machinery.SOURCE_SUFFIXES))


def _load_file(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceOnlyLoader(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _one_line(error: BaseException) -> str:
    message = " ".join(str(error).encode(errors="replace").decode().split())
    return f"{type(error).__name__}: {message}"[:_LONGEST_MESSAGE] if message else type(error).__name__


if __name__ == "__main__":
    main(sys.argv[1])
