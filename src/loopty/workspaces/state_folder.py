"""The state folder of loopty: `.loopty/` at the top of the repository."""

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
        """The directories of trials, each removed when its trial ends."""
        return self.folder / "trials"

    @property
    def artifacts(self) -> Path:
        """Packed winners. Not in the working tree, because its files are part of the next baseline."""
        return self.folder / "artifacts"

    @property
    def probes(self) -> Path:
        """Results of the probes of sandboxes."""
        return self.folder / "probes.json"

    @property
    def owners(self) -> Path:
        """Locks of the processes that work on this repository."""
        return self.folder / "owners"

    @property
    def calls(self) -> Path:
        """Prompts and replies of the models."""
        return self.folder / "calls"

    @property
    def replies(self) -> Path:
        """Cached replies of the user role's model, for equal requests."""
        return self.folder / "replies"

    def node_folder(self, node: NodeId) -> Path:
        """A node's folder: description, diff, parameters, metrics, result, logs, traces, analysis."""
        return self.folder / "nodes" / node.name

    def audit_folder(self, node: NodeId, number: int) -> Path:
        """The files of an audit: outside the node's folder, which the search reads."""
        return self.folder / "audits" / f"{node.name}-{number}"

    def draft_folder(self, node: NodeId) -> Path:
        """Where a node that is made by hand is edited until it runs."""
        return self.folder / "drafts" / node.name

    def prepare(self) -> None:
        """Create the folder with a .gitignore of its own: the user's .gitignore stays unchanged. Raises Misuse."""
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise Misuse(f"{self.folder} is not a directory: move it away, because loopty keeps its state there")
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise Misuse(f"cannot create {self.folder} ({error.strerror}): check space and permissions") from None
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
