"""`dataclass`, `field` and `replace` as in the standard library, with methods that are built when first called.

The standard decorator compiles up to eight functions per class: half a millisecond, and a verb imports two hundred
classes to make instances of forty. Type checkers see the standard ones, so nothing is lost for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace

    class Record:
        """The base of frozen dataclasses with slots: their class is made once, not a second time for the slots."""

        __slots__ = ()
else:
    from loopty.kit.dataclass_methods import Field as field  # noqa: N813
    from loopty.kit.dataclass_methods import add_methods as dataclass
    from loopty.kit.record_type import Record
    from loopty.kit.replace import replace

__all__ = ["Record", "dataclass", "field", "replace"]
