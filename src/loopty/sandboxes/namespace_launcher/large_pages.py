"""Memory of a warm process in large pages: the kernel copies it in fewer steps for each trial.

What a copy writes to is copied in small pages, as before.
"""

# Without pathlib: a command finds loaded what this process has loaded. For Python 3.9 and newer.
from __future__ import annotations

import ctypes

_USED_SHARE = 0.5


class LargePages:
    """Made before the imports whose memory it is about."""

    def __init__(self, library: ctypes.PyDLL) -> None:
        self._end_of_arenas = library.end_arenas
        self._collapse = library.collapse
        for function, arguments in ((library.gather_arenas, 0), (self._end_of_arenas, 0), (self._collapse, 2)):
            function.argtypes = arguments * (ctypes.c_size_t,)
            function.restype = None
        library.gather_arenas()

    def use(self) -> None:
        """Make large pages of all memory that has no file and is in use. A kernel that cannot do it leaves it."""
        self._end_of_arenas()
        for start, end in _areas_in_use():
            self._collapse(start, end)


def _areas_in_use() -> list[tuple[int, int]]:
    """The areas of memory without a file, most of which is in use."""
    areas = []
    with open("/proc/self/smaps", "rb") as file:  # noqa: PTH123
        for line in file:
            words = line.split()
            if not words[0].endswith(b":"):
                start, end = (int(word, 16) for word in words[0].split(b"-"))
                is_own = words[1] == b"rw-p" and words[5:] in ([], [b"[heap]"])
            elif words[0] == b"Rss:" and is_own and int(words[1]) << 10 >= _USED_SHARE * (end - start):
                areas.append((start, end))
    return areas
