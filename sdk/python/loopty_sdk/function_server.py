"""Answer calls of a Python function, in the candidate's own sandbox.

The evaluator trusts nothing here: a candidate can change all of it.
"""

from __future__ import annotations

import importlib
import importlib.machinery as machinery
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST_MESSAGE = 500


def main(target: str, root: str | None = None) -> None:
    # Loaded by file name, because only the candidate's own files may be on the import path.
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs a third of the start
    frames, values = (
        _load_file(machinery.SourceFileLoader(f"loopty_{name}", f"{here}/{name}.py"))
        for name in ("frames", "values")
    )
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(0), "wb")
    # From here on the candidate's output goes to stderr, and its input is empty.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    function: Any = None
    while len(head := questions.read(frames.HEAD.size)) == frames.HEAD.size:
        size, nonce, kind = frames.HEAD.unpack(head)
        content = questions.read(size)
        for question in values.decode(content) if kind == frames.MANY else (content,):
            try:
                if kind == frames.LOAD:
                    function, result = _load(target, root), None
                else:
                    args, named = values.decode(question)
                    result = function(*args, **named)
                answer_kind, answer = frames.VALUE, values.encode(result)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - an exception is an answer, too
                sys.excepthook(type(error), error, error.__traceback__)
                answer_kind, answer = frames.RAISED, values.encode(_one_line(error))
            sys.stdout.flush()
            answers.write(frames.frame(nonce, answer_kind, answer))
            answers.flush()
            if answer_kind == frames.RAISED:
                break


def _load(target: str, root: str | None) -> Any:
    """Load the function that `FILE.py:NAME` or `package.module:NAME` names below the current directory."""
    tree = os.getcwd()  # noqa: PTH109
    place, _, name = target.rpartition(":")
    sys.path_hooks.insert(0, lambda path: _finder(path, tree))
    roots = [tree, f"{tree}/src"] if root is None else [os.path.normpath(f"{tree}/{root}")]
    if place.endswith(".py"):
        loaded = _load_program(os.path.join(tree, place), roots)  # noqa: PTH118
    else:
        sys.path[:0] = [folder for folder in roots if os.path.isdir(folder)]  # noqa: PTH112
        loaded = _import_module(place, root)
    for part in name.split("."):
        loaded = getattr(loaded, part)
    return loaded


def _load_program(path: str, roots: list[str]) -> Any:
    """Load a file; one inside a package is loaded as its module, so that it can import its neighbours."""
    folder, name = os.path.split(path)
    sys.path[:0] = [folder, *(root for root in roots if root != folder)]
    module = name[:-3]
    while os.path.isfile(f"{folder}/__init__.py"):  # noqa: PTH113
        folder, package = os.path.split(folder)
        module = package if module == "__init__" else f"{package}.{module}"
    if "." not in module and name != "__init__.py":
        return _load_file(_SourceOnlyLoader(module, path))
    sys.path.insert(0, folder)
    return importlib.import_module(module)


def _import_module(place: str, root: str | None) -> Any:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name != place.partition(".")[0]:
            raise
        where = "in the top folder or src of the candidate" if root is None else f"in {root} of the candidate"
        raise ModuleNotFoundError(
            f"no module {error.name} {where}: name the folder that has it with root="
        ) from None


class _SourceOnlyLoader(machinery.SourceFileLoader):
    """Always compiles the source, so that bytecode planted beside it is never run."""

    def path_stats(self, path: Any) -> Any:  # noqa: ARG002
        raise OSError("no bytecode")


def _finder(path: str, tree: str) -> machinery.FileFinder:
    if path != tree and not path.startswith(f"{tree}/"):
        raise ImportError("not in the candidate's tree")
    if path.startswith(f"{sys.prefix}/"):
        raise ImportError("in the environment of the interpreter, which candidates do not write")
    extensions = (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES)
    return machinery.FileFinder(path, extensions, (_SourceOnlyLoader, machinery.SOURCE_SUFFIXES))


def _load_file(loader: machinery.SourceFileLoader) -> Any:
    """Load a module as importlib.util does it, which would take longer to import."""
    spec = machinery.ModuleSpec(loader.name, loader, origin=loader.path)
    spec.has_location = True
    module: Any = type(sys)(loader.name)
    module.__spec__, module.__loader__, module.__file__, module.__package__ = spec, loader, loader.path, ""
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


def _one_line(error: BaseException) -> str:
    message = " ".join(str(error).encode(errors="replace").decode().split())
    return f"{type(error).__name__}: {message}"[:_LONGEST_MESSAGE] if message else type(error).__name__
