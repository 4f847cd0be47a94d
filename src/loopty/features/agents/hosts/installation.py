"""loopty in an agent host: adds its tools to the user's settings, adds its skills, and removes both."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.features.agents.hosts.entries import SettingsEntry
from loopty.features.agents.hosts.table import HOSTS, AgentHost, UserPlaces
from loopty.kit.contents import write_atomically
from loopty.session.trust import user_state_folder
from loopty.version import __version__

_FOLDER = Path(__file__).parent / "skills"
_VERSION = "{version}"
OWN_LINE = "compatibility: loopty "
"""A line of every skill of ours; what follows is the version that it needs."""


def shipped_skills() -> dict[str, str]:
    """Return the text of each skill, by the name of its folder."""
    return {
        path.stem: path.read_text(encoding="utf-8").replace(_VERSION, __version__)
        for path in sorted(_FOLDER.glob("loopty-*.md"))
    }


_SKILL = "SKILL.md"
_INSTALLED = "hosts"
"""A folder of the user's state with an empty file for each host: two installations at once lose none."""


def server_command() -> list[str]:
    """Return the command that serves loopty's tools, with its whole path: a host's PATH may be another one."""
    program = Path(sys.executable).with_name("loopty")
    own = [str(program)] if os.access(program, os.X_OK) else [sys.executable, "-P", "-m", "loopty"]
    return [*own, "mcp"]


class HostInstallation:
    """loopty's part of one host's settings, for one user."""

    def __init__(self, host: AgentHost, environ: Mapping[str, str]) -> None:
        places = UserPlaces(Path(environ.get("HOME") or Path.home()), environ)
        self.host = host
        self.entries: tuple[SettingsEntry, ...] = host.entries(places, server_command())
        self.skills_folder = host.skills(places)
        self._installed = user_state_folder(environ) / _INSTALLED
        self._places = places

    def install(self) -> list[Path]:
        """Add what is missing, replace what is older; the files that changed. Raises Misuse, then nothing did."""
        changes = [*self._entry_changes(lambda entry, text: entry.text_with(text)), *self._skill_changes()]
        for path, text in changes:
            _write(path, text)
        _write(self._installed / self.host.name, "")
        return [path for path, _ in changes]

    def uninstall(self) -> list[Path]:
        """Remove what `install` added, and nothing beside it. Returns the files that changed or went.

        Raises Misuse, then nothing did.
        """
        changes = self._entry_changes(lambda entry, text: entry.text_without(text))
        others = self._installed_hosts() - {self.host.name}
        shared_with = {HOSTS[name].skills(self._places) for name in others if name in HOSTS}
        skills = [] if self.skills_folder in shared_with else [*self._own_skills()]
        for path, text in changes:
            if text:
                _write(path, text)
            else:
                path.unlink()
        for skill in skills:
            skill.unlink()
            with contextlib.suppress(OSError):  # the user keeps files of their own in it
                skill.parent.rmdir()
        (self._installed / self.host.name).unlink(missing_ok=True)
        return [*(path for path, _ in changes), *skills]

    def faults(self) -> list[str]:
        """List what is missing or not of this version; empty if all is in place. Raises Misuse as `install`."""
        changes = [*self._entry_changes(lambda entry, text: entry.text_with(text)), *self._skill_changes()]
        return [f"{path} is not as this version needs it" for path, _ in changes]

    @property
    def is_installed(self) -> bool:
        """Say whether the user has installed loopty in this host, of any version."""
        return self.host.name in self._installed_hosts()

    def _entry_changes(self, edit: Callable[[SettingsEntry, str], str]) -> list[tuple[Path, str]]:
        """List the settings files that this edit changes, with their new text."""
        before: dict[Path, str] = {}
        after: dict[Path, str] = {}
        for entry in self.entries:
            _refuse_dangling_link(entry.path)
            path = Path(os.path.realpath(entry.path))  # people keep settings elsewhere, and link them
            if path not in before:
                before[path] = after[path] = _read(entry.path)
            try:
                after[path] = edit(entry, after[path])
            except RecursionError:
                raise Misuse(
                    f"{path} is nested too deeply, so loopty does not edit it: paste this yourself:\n"
                    f"{entry.snippet()}"
                ) from None
        return [(path, text) for path, text in after.items() if text != before[path]]

    def _skill_changes(self) -> Iterator[tuple[Path, str]]:
        for name, text in shipped_skills().items():
            path = self.skills_folder / name / _SKILL
            _refuse_dangling_link(path)
            before = _read(path)
            if before and OWN_LINE not in before:
                raise Misuse(f"{path} is not a skill of loopty's: move it, then try again")
            if before != text:
                yield path, text

    def _own_skills(self) -> Iterator[Path]:
        for name in shipped_skills():
            path = self.skills_folder / name / _SKILL
            if OWN_LINE in _read(path):
                yield path

    def _installed_hosts(self) -> set[str]:
        return {path.name for path in self._installed.iterdir()} if self._installed.is_dir() else set()


def _refuse_dangling_link(path: Path) -> None:
    """Refuse a path that leads over a link to nothing: writing there would create files where nobody looks."""
    for part in (path, *path.parents):
        if part.is_symlink() and not part.exists():
            raise Misuse(f"{part} is a link to {part.readlink()}, which does not exist: remove the link first")


def _read(path: Path) -> str:
    """Read the text of a file; empty if there is none."""
    try:
        # A FIFO without a writer would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Misuse(f"{path} is not a file: remove it first")
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"cannot read {path} ({error}): correct that first") from None


def _write(path: Path, text: str) -> None:
    mode = 0o600
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode & 0o777
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path.parent, path.name, text.encode(), durable=True, mode=mode)
    except OSError as error:
        raise Misuse(f"cannot write {path} ({error.strerror}): check space and permissions") from None
