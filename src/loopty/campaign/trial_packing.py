"""What workers get of a run: the rig, the baseline's files by content, and each trial as data."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loopty.campaign.context import CampaignContext
from loopty.domain.rig import Rig
from loopty.engine.protocols import CommittedFiles, Trial
from loopty.executors.worker_order import FileChange, PackedOrder, RigPackage, WorkerOrder
from loopty.kit.temporary_folder import temporary_folder
from loopty.workspaces.git_bundle import write_bundle
from loopty.workspaces.stages import results_folder


@dataclass(frozen=True)
class TrialPacking:
    """Packs the trials of one run, and keeps what they leave."""

    context: CampaignContext
    run: int
    rig: Rig

    @functools.cached_property
    def _base(self) -> CommittedFiles:
        """The baseline without what no trial sees: a worker gets no hidden and no held-out file."""
        root = self.context.history[self.context.history.runs[self.run].root]
        files = self.context.repository.files(root.commit)
        hidden: dict[str, str | bytes | None] = {path: None for path in files if not self._is_shown(path)}
        if not hidden:
            return CommittedFiles(root.commit, root.tree)
        return self.context.repository.commit(root.commit, hidden, {}, "what workers see\n")

    def _is_shown(self, path: str) -> bool:
        root = self.context.history[self.context.history.runs[self.run].root]
        return self.rig.access.is_visible(path) or self.context.files.benchmark.includes_or_loads(
            path, root.commit
        )

    @property
    def package(self) -> RigPackage:
        return RigPackage(self.rig, self._base.tree, self.run)

    @functools.cached_property
    def _bundle(self) -> bytes:
        with temporary_folder("base") as folder:
            write_bundle(self.context.repository.git, self._base.tree, self._base.tree, Path(folder, "bundle"))
            return Path(folder, "bundle").read_bytes()

    def base(self) -> bytes:
        """The baseline's files as a bundle of git."""
        return self._bundle

    def pack(self, trial: Trial) -> PackedOrder:
        """The trial as data: its parameters, and the files that differ from the baseline's."""
        changes, contents = [], []
        for change in self.context.repository.changes(trial.root.commit, trial.node.commit):
            if self._is_shown(change.path):
                content = self.context.repository.blob(change.after.blob) if change.after else b""
                changes.append(FileChange(change.path, len(content), change.after.mode if change.after else ""))
                contents.append(content)
        order = WorkerOrder(
            str(trial.node.id),
            trial.number,
            trial.pool,
            trial.seed,
            trial.token,
            trial.slice,
            trial.gates,
            trial.node.params,
            tuple(changes),
            trial.node.name,
        )
        return PackedOrder(order, b"".join(contents))

    def keep(self, trial: Trial, files: Mapping[str, bytes]) -> None:
        """Keep the files of a trial where one of this machine leaves them."""
        folder = results_folder(self.context.state, trial).make()
        for name, content in files.items():
            *above, last = name.split("/")
            folder.below(*above).make().file(last).write(content)
