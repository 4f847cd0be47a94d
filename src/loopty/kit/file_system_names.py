"""What file systems of other machines take a name for: a clone may be checked out there."""

from __future__ import annotations

import unicodedata

_IGNORED_BY_HFS = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


def name_as_read(name: str) -> str:
    """The name in lower case and one unicode form, without the characters that HFS+ ignores."""
    return unicodedata.normalize("NFKC", name.translate(_IGNORED_BY_HFS)).casefold()
