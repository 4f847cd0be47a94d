"""Where clients and the resident process of a repository meet: a socket in a folder that only this user may enter.

Its path follows from the user and the repository alone, because clients have different environments. Imported by
every verb at its start, so it imports next to nothing.
"""

import os
import stat
from zlib import crc32

NAME = "resident"


class MeetingPlace:
    """The files of the resident process of one repository."""

    def __init__(self, git_dir: str) -> None:
        raw = os.fsencode(git_dir)
        # Not a secure digest, which takes longer to import than all else here: whoever comes to the wrong
        # process is refused there, and runs the verb itself.
        self._name = f"{NAME}-{crc32(raw):08x}{crc32(raw[::-1]):08x}"
        self.git_dir = git_dir
        self.folder = private_folder()

    @property
    def socket(self) -> str:
        return f"{self.folder}/{self._name}.socket"

    @property
    def lock(self) -> str:
        """Held as long as the process lives; its first line is the number of the process."""
        return f"{self.folder}/{self._name}.lock"

    def is_private(self) -> bool:
        """Whether the folder is a directory of this user that nobody else may enter."""
        try:
            found = os.lstat(self.folder)
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def private_folder() -> str:
    """The user's folder for sockets and locks: in the system's own place for that, else in /tmp."""
    user = os.getuid()
    run = f"/run/user/{user}"
    try:
        if os.stat(run).st_uid == user:
            return f"{run}/loopty"
    except OSError:
        pass
    return f"/tmp/loopty-{user}"


def find_git_dir(start: str) -> str | None:
    """The git directory that all working trees of the repository around this directory share, or None.

    Only to find the meeting place: the verb itself asks git.
    """
    folder = os.path.realpath(start)
    while True:
        entry = f"{folder}/.git"
        if os.path.isdir(entry):
            return entry
        if os.path.isfile(entry):
            return _common_dir(folder, entry)
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _common_dir(folder: str, entry: str) -> str | None:
    """The shared git directory behind the `.git` file of a further working tree."""
    try:
        with open(entry, encoding="utf-8", errors="surrogateescape") as file:
            words, _, path = file.readline().rstrip("\n").partition(": ")
        if words != "gitdir":
            return None
        git_dir = os.path.join(folder, path)
        with open(f"{git_dir}/commondir", encoding="utf-8", errors="surrogateescape") as file:
            return os.path.realpath(os.path.join(git_dir, file.readline().rstrip("\n")))
    except FileNotFoundError:
        return os.path.realpath(git_dir)
    except OSError:
        return None
