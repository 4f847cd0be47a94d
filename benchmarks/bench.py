"""What a measurement needs: loopty and its peers, each in a new repository, and how many repeats to make."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import peers
import repository
from loopty_cli import Loopty
from peers_evo import Evo


@dataclass(frozen=True)
class Bench:
    loopty_executable: Path
    cache: Path
    scratch: Path
    quick: bool
    million: bool = False
    """Whether the long record has a million trials, whose making takes many minutes."""

    @functools.cached_property
    def env(self) -> dict[str, str]:
        return repository.environment(self.scratch / "home")

    @functools.cached_property
    def evo_executable(self) -> Path | None:
        """evo's command; None when evo cannot be installed."""
        folder = peers.install(self.cache, peers.EVO)
        return folder / "evo" if folder else None

    @functools.cached_property
    def openevolve_python(self) -> Path | None:
        """The interpreter of OpenEvolve's environment; None when OpenEvolve cannot be installed."""
        folder = peers.install(self.cache, peers.OPENEVOLVE)
        return folder / "python" if folder else None

    @property
    def repeats(self) -> int:
        return 3 if self.quick else 7

    def repository(self, name: str, files: int) -> Path:
        return repository.create(self.scratch / name, files, self.env)

    def loopty(self, name: str, files: int, attempts: int, sandbox: str = "auto") -> Loopty:
        """loopty in a repository of `files` files, with a budget of `attempts` attempts and a kind of sandbox."""
        loopty = Loopty(self.loopty_executable, self.repository(f"{name}-loopty", files), self.env)
        loopty.init(attempts, sandbox)
        return loopty

    def loopty_with(self, name: str, task: str, files: Mapping[str, str]) -> Loopty:
        """loopty in a repository of these files, with this task."""
        loopty = Loopty(self.loopty_executable, self.repository(f"{name}-loopty", 1), self.env)
        loopty.write({"loopty.toml": task, **files})
        return loopty

    def evo(self, name: str, files: int) -> Evo | None:
        """evo in a repository of `files` files; None when evo cannot be installed."""
        if self.evo_executable is None:
            return None
        evo = Evo(self.evo_executable, self.repository(f"{name}-evo", files), self.env)
        evo.init()
        return evo
