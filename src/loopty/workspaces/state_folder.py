"""Where loopty keeps its files: the state in the git directory, drafts and readable copies in the working tree.

No clone, no candidate and no sandboxed shell in the working tree can write to the git directory, so what is there
was written by loopty. What is in the working tree (`.loopty/`) is for people: it is written, and never read back
as the truth.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.git.folders import WORK_FOLDER, GitFolders
from loopty.kit.paths import quote_path
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile, SafeFolder, UnsafePath

STATE_VARIABLE = "LOOPTY_STATE_DIR"
"""Names a directory of the user for the state of all repositories. No task file can set it."""
LEDGER_VARIABLE = "LOOPTY_LEDGER"
"""Names the ledger of the user's choice by its URL. No task file can set it."""
STORE_VARIABLE = "LOOPTY_STORE"
"""Names the shared store of the user's choice. No task file can set it."""
_LEDGER = "ledger.sqlite"
_LONGEST_URL = 4_096
OLD_LEDGER = f"{WORK_FOLDER}/{_LEDGER} is not used: it comes from an earlier loopty or from somebody else"


class StateFolder(Record):
    """The folders and files of loopty for one repository."""

    top: Path
    """The top of the working tree."""
    home: SafeFolder
    """The state: nothing in it comes from anywhere else."""
    given_ledger: str = ""
    """The URL of the ledger that the user's environment names; empty where it names none."""
    given_store: str = ""
    """The shared store that the user's environment names; empty where it names none."""

    @classmethod
    def of(cls, folders: GitFolders, environ: Mapping[str, str] = os.environ) -> StateFolder:
        """Find the state of a repository: in its git directory, or where the user's environment says."""
        given = environ.get(LEDGER_VARIABLE, ""), environ.get(STORE_VARIABLE, "")
        if chosen := environ.get(STATE_VARIABLE, ""):
            root = Path(chosen).expanduser()
            if not root.is_absolute():
                raise Misuse(f"{STATE_VARIABLE} is {chosen!r}: name an absolute path")
            return cls(folders.top, SafeFolder(root, (_name_of(folders.common_dir),)), *given)
        # Not in `.loopty/`: a clone can bring one with links in it, and to write through a link would overwrite
        # files in the home directory. No clone brings anything in the git directory.
        return cls(folders.top, SafeFolder(folders.common_dir, ("loopty",)), *given)

    @property
    def work_folder(self) -> SafeFolder:
        """`.loopty/` in the working tree."""
        return SafeFolder(self.top, (WORK_FOLDER,))

    @property
    def ledger(self) -> SafeFile:
        return self.home.file(_LEDGER)

    @property
    def ledger_url(self) -> str:
        """Return the ledger that the environment names, else the repository's chosen one, else its own file."""
        return self.given_ledger or self.saved_ledger_url or f"sqlite://{quote_path(str(self.ledger.shown_path))}"

    @property
    def ledger_choice(self) -> SafeFile:
        """Hold the URL of the ledger that the user chose for this repository, without a password."""
        return self.home.file("ledger.url")

    @property
    def saved_ledger_url(self) -> str:
        """Return what is in that file; empty if there is none."""
        return _saved_text(self.ledger_choice)

    @property
    def store_choice(self) -> SafeFile:
        """Name the shared store that the user chose for this repository."""
        return self.home.file("store.url")

    @property
    def store_url(self) -> str:
        """Return the shared store that the environment names, else the repository's chosen one; empty: none."""
        return self.given_store or _saved_text(self.store_choice)

    @property
    def unsent(self) -> SafeFolder:
        """Hold what the shared store has not got yet."""
        return self.home.below("unsent")

    def has_ledger(self) -> bool:
        """Say whether something may be recorded: in the repository's own file, or elsewhere."""
        return bool(self.given_ledger or self.saved_ledger_url) or self.ledger.exists()

    def has_old_ledger(self) -> bool:
        """Say whether there is a ledger where earlier versions kept it."""
        return _LEDGER in self.work_folder.names()

    @property
    def exports(self) -> SafeFolder:
        return self.home.below("exports")

    @property
    def caches(self) -> SafeFolder:
        """Hold what the baselines of runs have built, for the trials of their candidates."""
        return self.home.below("caches")

    @property
    def seals(self) -> SafeFolder:
        return self.home.below("seals")

    @property
    def nodes(self) -> SafeFolder:
        """Hold the folders of nodes."""
        return self.home.below("nodes")

    @property
    def trials(self) -> SafeFolder:
        """Hold the directories of trials, each removed when its trial ends."""
        return self.home.below("trials")

    @property
    def artifacts(self) -> SafeFolder:
        """Packed winners. Not in the working tree, because its files are part of the next baseline."""
        return self.home.below("artifacts")

    @property
    def probes(self) -> SafeFile:
        """Results of the probes of sandboxes."""
        return self.home.file("probes.json")

    @property
    def program_answers(self) -> SafeFile:
        """Hold what programs have said about themselves."""
        return self.home.file("programs.json")

    @property
    def init_lock(self) -> SafeFile:
        """Held by the `init` that works in this repository."""
        return self.home.file("init.lock")

    @property
    def owners(self) -> SafeFolder:
        """Locks of the processes that work on this repository."""
        return self.home.below("owners")

    @property
    def slots(self) -> SafeFolder:
        """Locks of the slots that all processes of this repository share."""
        return self.home.below("slots")

    @property
    def calls(self) -> SafeFolder:
        """Prompts and replies of the models."""
        return self.home.below("calls")

    @property
    def replies(self) -> SafeFolder:
        """Cached replies of the user role's model, for equal requests."""
        return self.home.below("replies")

    @property
    def node_archive(self) -> SafeFile:
        """Hold the folders of discarded nodes."""
        return self.home.file("folded.sqlite")

    @property
    def tickets(self) -> SafeFolder:
        """Locks and results of the work that clients handed over."""
        return self.home.below("tickets")

    @property
    def agents(self) -> SafeFolder:
        """Hold the sessions of coding agents, each removed when its proposal is recorded."""
        return self.home.below("agents")

    def node_folder(self, node: NodeId) -> SafeFolder:
        """Return a node's folder: description, diff, parameters, metrics, result, logs, traces, analysis."""
        return self.home.below("nodes", node.name)

    def node_copy(self, node: NodeId) -> SafeFolder:
        """Return the copy of a node's folder for people."""
        return self.work_folder.below("nodes", node.name)

    def audit_folder(self, node: NodeId, number: int) -> SafeFolder:
        """Return the folder for an audit's files: outside the node's folder, which the search reads."""
        return self.home.below("audits", f"{node.name}-{number}")

    def draft_folder(self, node: NodeId) -> SafeFolder:
        """Return where a node that is made by hand is edited until it runs."""
        return self.work_folder.below("drafts", node.name)

    def draft_layout(self, node: NodeId) -> SafeFile:
        """Hold the digests of what was laid out in a draft: out of reach of whoever edits it."""
        return self.home.below("drafts").file(f"{node.name}.json")

    def prepare(self) -> None:
        """Create both places, for this user alone; `.loopty/` gets a .gitignore if it has none. Raises Misuse."""
        try:
            self.home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.home.make_private()
            ignore = self.work_folder.make_private().file(".gitignore")
            if not ignore.exists():
                ignore.write(b"*\n")
        except UnsafePath as error:
            raise Misuse(f"{error}; loopty keeps its own files there and follows no links") from None
        except OSError as error:
            raise Misuse(
                f"cannot write to {error.filename} ({error.strerror}): check space and permissions, "
                f"or name another place for the state with {STATE_VARIABLE}"
            ) from None


def _name_of(common_dir: Path) -> str:
    """Make a name for a repository that no other repository on this machine has."""
    name = common_dir.parent.name if common_dir.name == ".git" else common_dir.name
    return f"{name}-{hashlib.sha256(os.fsencode(common_dir)).hexdigest()[:12]}"


def _saved_text(file: SafeFile) -> str:
    """Read the line in a file; empty if there is none."""
    try:
        return file.read(_LONGEST_URL).decode().strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
