"""What the rules may ask about this machine and this repository."""

from __future__ import annotations

from typing import Protocol

from loopty.kit.records import Record


class Submodule(Record):
    """A repository inside the repository."""

    path: str
    is_checked_out: bool


class HostFacts(Protocol):
    """Facts, looked up only when a rule asks. Names and paths come from output that nobody vouches for."""

    def program(self, name: str) -> str | None:
        """Where the user's shell, or a usual folder of tools, has this program; None where it is not installed."""
        ...

    def is_shown(self, path: str) -> bool:
        """Whether trials see this path of the host anyway."""
        ...

    def has_path(self, path: str) -> bool:
        """Whether the working tree, or the host for an absolute path, has this path."""
        ...

    def memory_mb(self) -> int:
        """How much memory this machine has."""
        ...

    def has_gpu(self) -> bool:
        """Whether this machine has a GPU that trials could use."""
        ...

    def is_executable(self, path: str) -> bool:
        """Whether this file of the working tree is a program."""
        ...

    def outermost_ignored(self, path: str) -> str | None:
        """The outermost part of a path in the working tree that git ignores, or None."""
        ...

    def has_tracked_files(self, folder: str) -> bool:
        """Whether git tracks a file in this folder of the repository."""
        ...

    def is_environment(self, folder: str) -> bool:
        """Whether packages are installed in this folder of the working tree."""
        ...

    def environment_with(self, module: str) -> str | None:
        """The virtual environment in the working tree, ignored by git, that has this Python module, or None."""
        ...

    def source_root(self, module: str) -> str | None:
        """The folder of the repository, below its top, that has this Python module, or None."""
        ...

    def is_node_dependency(self, name: str) -> bool:
        """Whether package.json of the repository names this package among those that it needs."""
        ...

    def go_package(self) -> str:
        """The package of Go at the top of the repository; empty where there is none."""
        ...

    def builds_module(self, name: str) -> bool:
        """Whether setup.py of the repository builds this Python module from sources of another language."""
        ...

    def build_requirements(self) -> tuple[str, ...]:
        """What pyproject.toml wants for a build, each quoted for a shell; empty where it does not say."""
        ...

    def system_options(self) -> tuple[str, ...]:
        """Options of CMake that take a library from the system instead of a copy in the repository."""
        ...

    def submodule(self, path: str) -> Submodule | None:
        """The submodule that this path is in, or None."""
        ...

    def system_package(self, *names: str) -> str | None:
        """The first of these packages that could be installed with apt; None where none is known."""
        ...

    def library(self, name: str) -> str | None:
        """The folder of the host that has this shared library, or None."""
        ...
