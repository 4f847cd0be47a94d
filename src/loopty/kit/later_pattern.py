"""Regular expressions that are compiled at their first use: a verb imports fifty and uses ten."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import compile as later_pattern
else:

    class later_pattern:  # noqa: N801
        """A pattern with all methods of a compiled one."""

        def __init__(self, text: str, flags: int = 0) -> None:
            self._text = text
            self._flags = flags

        def __getattr__(self, name: str) -> object:
            import re

            compiled = re.compile(self._text, self._flags)
            # From now on they are found at once.
            self.__dict__.update((each, getattr(compiled, each)) for each in dir(compiled) if each[0] != "_")
            return getattr(compiled, name)


__all__ = ["later_pattern"]
