"""What a proposer is built with: its options, and the services below. Nothing else is in its reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from loopty.domain.access import Access
from loopty.domain.model import ModelOption, Role, RoleModel
from loopty.domain.proposal import Proposal
from loopty.domain.space import Space
from loopty.domain.task import PluginChoice
from loopty.domain.trial import Leftovers
from loopty.engine.protocols import Proposer, Selector
from loopty.kit.records import Record
from loopty.proposers.agent.work import OpenSessions
from loopty.proposers.context.prompt_context import PromptContext, PromptContextOptions, PromptLimits
from loopty.record.node_record import Node


class SourceFiles(Protocol):
    """The files of commits, as far as a proposer may see or change them."""

    def writable_files(self, commit: str) -> Sequence[str]: ...

    def readable_files(self, commit: str) -> Sequence[str]: ...

    def text(self, commit: str, path: str) -> str | None:
        """Return the text of a file; None when it is not text."""
        ...

    def refusal(self, parent: Node, proposal: Proposal) -> str | None:
        """Say why the proposal is not allowed, or None."""
        ...

    def merge(self, ancestor: str, ours: str, theirs: str, names: tuple[str, str]) -> FileMerge:
        """Merge the changes from the ancestor to `theirs` into `ours`, by git; `names` stand at conflicts."""
        ...


class Services(Record):
    """The task and the machinery that a proposer may use."""

    kind: str
    """The name under which the task chose the proposer."""
    statement: str
    space: Space
    access: Access
    width: int
    """How many questions a proposer that waits for a model may be asked at once."""
    files: SourceFiles
    leftovers: Callable[[Node], Leftovers]
    """What a node left in its folder: diff, logs, traces, artifacts."""
    role_model: Callable[[Role], RoleModel]
    """The model of a role: metered, capped, throttled, retried. Raises Misuse where the role has none."""
    has_role: Callable[[Role], bool]
    """Whether the role has a model."""
    role_models: Callable[[Role], Mapping[ModelOption, RoleModel]]
    """All models of a role, where it may have several."""
    prompt_tokens: Callable[[Role], int]
    """The longest prompt that every model of the role can read."""
    make_selector: Callable[[str | Mapping[str, Any]], Selector]
    """The selector of this kind, or of this table with its `kind` and its options."""
    make_proposer: Callable[[PluginChoice], Proposer]
    """Another proposer: a ladder is made of several."""
    agent_sessions: OpenSessions
    """Sessions of a coding agent, each in a sandbox and a tree of its own. Raises Misuse where it cannot work."""
    limits: PromptLimits
    """The limits of a trial and of the run, for prompts."""
    diff: Callable[[Node], str]
    """The change of a node to its parent, shortened."""

    def prompt_context(self, options: PromptContextOptions, access: Access | None) -> PromptContext:
        """Write the task and the search into prompts; with `access`, also which files may be changed."""
        return PromptContext(self.statement, access, self.leftovers, options, self.limits, self.diff)


class ProposerPlugin(Record):
    """A proposer of another package: what its entry point in the group `loopty.proposer` must load."""

    options: type[Any]
    """A dataclass with the options of the task file."""
    make: Callable[[Any, Services], Proposer]
    needs_space: bool = False
    """Whether the task must have parameters."""


class FileMerge(Protocol):
    """What has to change in one commit so that it holds the changes of another, too."""

    @property
    def edits(self) -> Mapping[str, bytes | None]: ...

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Return the paths that both change in the same place."""
        ...


MergeFiles = Callable[[str, str, str, tuple[str, str]], FileMerge]
"""Merges, given the commits of the common ancestor, of the node and of the other one, and the names of both."""
