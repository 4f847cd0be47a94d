"""What a warm process has imported, what imports may not leave behind, and the state in which each of its copies
begins.
"""

# Without pathlib: a command finds loaded what this process has loaded. For Python 3.9 and newer.
# ruff: noqa: PTH109, PTH115, PTH123, PTH208

from __future__ import annotations

import _signal
import os
import sys

from loopty.sandboxes.namespaces.launch_order import WarmOrder

_PLACE = "/loopty-search-folder"
"""Stands in the search path where the folder of the command's script will be."""
_MAX_PRINTED = 1 << 20
_STDOUT, _STDERR = 1, 2


class WarmImports:
    """The modules that a warm process has imported."""

    def __init__(self, known: set[str], order: WarmOrder) -> None:
        """`known` are the modules of an interpreter that has just started."""
        self._known = known
        self._order = order
        self._printed: dict[int, bytes] = {}
        self._changed_variables: frozenset[str] = frozenset()
        self._names: frozenset[str] = frozenset()
        self.module_identities: frozenset[int] = frozenset()
        """Which modules a command finds loaded."""

    def load(self) -> str:
        """Import the modules; returns why they cannot be shared, or an empty text."""
        if has_first_folder():
            sys.path[0] = _PLACE
        leftovers = ImportLeftovers()
        if failure := self._import_all():
            return failure
        # The interpreter itself may set one, too: LC_CTYPE.
        before, after = self._order.variables, dict(os.environ)
        self._changed_variables = frozenset(
            name for name in {*before, *after} if before.get(name) != after.get(name)
        )
        imported = (name for name in sys.modules if name not in self._known and not _is_own(name))
        self._names = frozenset(name.partition(".")[0] for name in imported)
        # Nothing that a candidate wrote may run here, and such a file may be its own.
        if shared := sorted(self._names & frozenset(self._order.names)):
            return f"the repository has a module named like one that is imported ({', '.join(shared[:3])})"
        return leftovers.find()

    def finish(self) -> None:
        """Do what is the same for all copies: whatever a copy looks at becomes memory of its own."""
        for name in [name for name in sys.modules if _is_own(name)]:
            del sys.modules[name]
        self.module_identities = frozenset(map(id, sys.modules.values()))
        # Outside the installation there may be other files in a trial than when the search path was read.
        installation = (sys.prefix, sys.base_prefix, sys.exec_prefix)
        for path in [path for path in sys.path_importer_cache if not path.startswith(installation)]:
            del sys.path_importer_cache[path]

    def _import_all(self) -> str:
        """Import the modules and keep what that prints; returns which one failed, and why, or an empty text."""
        usual = {stream: os.dup(stream) for stream in (_STDOUT, _STDERR)}
        outputs = {stream: os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600) for stream in usual}
        for stream, output in outputs.items():
            os.dup2(output, stream)
        failure = _import_modules(self._order)
        sys.stdout.flush()
        sys.stderr.flush()
        for stream, output in outputs.items():
            self._printed[stream] = os.pread(output, _MAX_PRINTED, 0)
            os.dup2(usual[stream], stream)
            os.close(usual[stream])
            os.close(output)
        return failure

    def set_environment(self, different: dict[str, str], unset: tuple[str, ...]) -> None:
        """Set the variables of a command that are different there, but those that the imports have changed."""
        for name, value in different.items():
            if name not in self._changed_variables:
                os.environ[name] = value
        for name in unset:
            if name not in self._changed_variables:
                del os.environ[name]

    def is_covered(self, folder: str | None) -> bool:
        """Say whether a file in the first folder to import from has the name of an imported module."""
        if folder is None:
            return False
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            return False
        return any(entry.partition(".")[0] in self._names for entry in entries)

    def prepare(self, folder: str | None) -> None:
        """Bring the interpreter to the state in which it begins a command that is in this folder."""
        if folder is not None:
            sys.path[sys.path.index(_PLACE)] = folder
        # The standard library seeds `random` anew after every fork. By itself numpy takes three times as long.
        if (numbers := sys.modules.get("numpy.random")) is not None:
            numbers.seed(int.from_bytes(os.urandom(4), "little"))
        for stream, text in self._printed.items():
            os.write(stream, text)


def has_first_folder() -> bool:
    """Say whether this interpreter imports first from the folder of its script, or from the current one."""
    return not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))


def _import_modules(order: WarmOrder) -> str:
    for module, names, attributes in order.imports:
        try:
            __import__(module, {}, {}, list(names), 0)
            for name in attributes:
                # Packages such as numpy load some of their parts when these are used first.
                getattr(sys.modules[module], name, None)
        except ModuleNotFoundError:
            continue  # it may be the repository's, or be imported only if it is there
        except BaseException as error:  # noqa: BLE001 - a package may raise anything
            return f"importing {module} fails ({type(error).__name__}: {error})"
    return ""


def _is_own(name: str) -> bool:
    return name == "loopty" or name.startswith("loopty.")


_TEMPORARY = ("/tmp", "/tmp/home", "/dev/shm")
_STANDARD = (0, 1, 2)


class ImportLeftovers:
    """Compares what a process has with what it had before its imports."""

    def __init__(self) -> None:
        self._files = _temporary_files()
        self._descriptors = _open_descriptors()
        self._folder = os.getcwd()

    def find(self) -> str:
        """Say what is left that cannot be shared; empty if nothing is."""
        # Packages with threads of their own, such as OpenBLAS, end them before a fork and start them when needed.
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
        # Copies may share nothing but memory that is copied on write; otherwise commands start by themselves.
        if len(os.listdir("/proc/self/task")) > 1:
            return "an import starts a thread"
        if {int(name) for name in os.listdir("/proc") if name.isdecimal()} - {1, os.getpid()}:
            return "an import starts a process"
        if opened := sorted(_open_descriptors() - self._descriptors):
            return f"an import leaves a file open ({os.readlink(f'/proc/self/fd/{opened[0]}')})"
        if made := sorted(_temporary_files() - self._files):
            return f"an import writes a file ({made[0]})"
        with open("/proc/self/maps", "rb") as maps:
            if any(line.split(maxsplit=2)[1][1:4:2] == b"ws" for line in maps):
                return "an import shares memory between processes"
        if _signal.getsignal(_signal.SIGCHLD) != _signal.SIG_DFL:
            return "an import handles the signal SIGCHLD"
        return "" if os.getcwd() == self._folder else "an import changes the current folder"


def _open_descriptors() -> set[int]:
    """Return the open descriptors besides the standard ones."""
    opened = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue  # the descriptor of the list itself
        opened.add(int(name))
    return opened - set(_STANDARD)


def _temporary_files() -> set[str]:
    return {f"{folder}/{name}" for folder in _TEMPORARY for name in os.listdir(folder)}
