"""Opens a store by its name: a directory, or `s3://BUCKET/PREFIX`."""

from __future__ import annotations

from loopty.domain.shared_store import SharedStore
from loopty.kit.by_name import by_name

STORES = {
    "s3": "loopty.stores.s3_store:open_place",
    "": "loopty.stores.directory_store:open_place",
}
"""Scheme of the place → what opens it; any other place is a directory, or none."""


def open_store(place: str) -> SharedStore:
    """Open the store at this place. Raises Misuse where it can be none."""
    scheme, found, _ = place.partition("://")
    store: SharedStore = by_name(STORES.get(scheme if found else "", STORES[""]))(place)
    return store
