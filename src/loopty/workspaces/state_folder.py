"""Where loopty keeps its state: `.loopty/` at the top of the repository."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The paths below `.loopty/`."""

    top: Path

    @property
    def folder(self) -> Path:
        return self.top / ".loopty"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.sqlite"

    @property
    def ledger_url(self) -> str:
        return f"sqlite://{quote(str(self.ledger))}"

    @property
    def exports(self) -> Path:
        return self.folder / "exports"

    @property
    def trials(self) -> Path:
        return self.folder / "trials"

    @property
    def artifacts(self) -> Path:
        """Winners packed up: here, because what lies in the working tree is part of the next baseline."""
        return self.folder / "artifacts"

    @property
    def probes(self) -> Path:
        """What was found when sandboxes were tried."""
        return self.folder / "probes.json"

    @property
    def owners(self) -> Path:
        """Locks of the processes that work here."""
        return self.folder / "owners"

    @property
    def calls(self) -> Path:
        """What models were asked, and what they answered."""
        return self.folder / "calls"

    @property
    def replies(self) -> Path:
        """Replies of the user role's model that are given again to equal requests."""
        return self.folder / "replies"

    def node_folder(self, node: NodeId) -> Path:
        """A node's folder: description, diff, parameters, metrics, result, logs, traces, analysis."""
        return self.folder / "nodes" / node.name

    def audit_folder(self, node: NodeId, number: int) -> Path:
        """What an audit left: apart from the node's folder, which the search reads."""
        return self.folder / "audits" / f"{node.name}-{number}"

    def draft_folder(self, node: NodeId) -> Path:
        """Where a node made by hand is edited until it runs."""
        return self.folder / "drafts" / node.name

    def trial_folder(self, node: NodeId, number: int) -> Path:
        """A trial's own directory, gone when it ends."""
        return self.trials / f"{node.name}-{number}"

    def prepare(self) -> None:
        """Make the folder, ignored by git from the inside: the user's own .gitignore stays as it is."""
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise Misuse(f"{self.folder} is no directory: move it away, loopty keeps its state there")
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise Misuse(f"cannot make {self.folder}: {error.strerror}") from None
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
