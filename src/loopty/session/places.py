"""Where a repository keeps its record and the files that it shares, as the user chose them."""

from __future__ import annotations

from loopty.domain.errors import Misuse
from loopty.domain.shared_store import SharedStore
from loopty.git.command import GitCommand
from loopty.kit.by_name import by_name
from loopty.kit.records import Record
from loopty.ledgers.open_ledger import SERVERS, has_password, open_ledger, without_password
from loopty.workspaces.shared_files import SharedFiles
from loopty.workspaces.state_folder import LEDGER_VARIABLE, STORE_VARIABLE, StateFolder

STORES = {
    "s3": "loopty.features.shared.s3_store:open_place",
    "": "loopty.features.shared.directory_store:open_place",
}
"""Scheme of the place → what opens it; any other place is a directory, or none."""


def open_store(place: str) -> SharedStore:
    """Open the store at this place. Raises Misuse where it can be none."""
    scheme, found, _ = place.partition("://")
    store: SharedStore = by_name(STORES.get(scheme if found else "", STORES[""]))(place)
    return store


def open_shared_files(state: StateFolder, git: GitCommand) -> SharedFiles | None:
    """Open the files that this clone shares with others; None if the user has chosen no store."""
    return SharedFiles(open_store(state.store_url), state, git) if state.store_url else None


# The choice is the user's: it comes from the environment or from the state of the repository, never from a task
# file, which may be a stranger's and could send the record elsewhere.


class LedgerPlace(Record):
    """The ledger in use."""

    url: str
    """Without a password."""
    source: str
    """Who chose it: `environment`, `repository`, or `default`."""
    runs: int


class LedgerChoice:
    """The choice for one repository."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state

    def place(self) -> LedgerPlace:
        """Say which ledger is in use, and how many runs it has. Opens it, unless its file is not there yet."""
        state, url = self._state, self._state.ledger_url
        source = "environment" if state.given_ledger else "repository" if state.saved_ledger_url else "default"
        runs = len(open_ledger(url).history().runs) if state.has_ledger() else 0
        return LedgerPlace(without_password(url) if "@" in url else url, source, runs)

    def choose(self, url: str) -> None:
        """Use the ledger behind this URL from now on. Raises Misuse where it cannot be opened."""
        self._refuse_override()
        if url.partition(":")[0] not in SERVERS:
            raise Misuse(f"name a ledger on a server, as postgresql://host/database; {url!r} is none")
        if has_password(url):
            raise Misuse(
                "the URL holds a password, which would be saved in a file and is seen by other users while the "
                "command runs: leave it out, and give it by PGPASSWORD or ~/.pgpass"
            )
        open_ledger(url).history()
        self._state.prepare()
        self._state.ledger_choice.write(url.encode())

    def forget(self) -> None:
        """Use the repository's own file from now on."""
        self._refuse_override()
        self._state.ledger_choice.remove()

    def choose_store(self, place: str) -> None:
        """Share the files of nodes through this store from now on. Raises Misuse where it cannot be used."""
        self._refuse_given_store()
        open_store(place).prepare()
        self._state.prepare()
        self._state.store_choice.write(place.encode())

    def forget_store(self) -> None:
        """Share no files from now on. What other clones have sent stays in the store."""
        self._refuse_given_store()
        self._state.store_choice.remove()

    def _refuse_given_store(self) -> None:
        if self._state.given_store:
            raise Misuse(f"{STORE_VARIABLE} names the store of this shell: unset it to choose another one")

    def _refuse_override(self) -> None:
        if self._state.given_ledger:
            raise Misuse(f"{LEDGER_VARIABLE} names the ledger of this shell: unset it to choose another one")
