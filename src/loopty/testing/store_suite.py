"""The conformance suite of shared stores: subclass it, with a fixture `store` that is empty and prepared."""

from __future__ import annotations

import threading
import time

import pytest

from loopty.domain.shared_store import SharedStore, StoreFault

_LIMIT = 1 << 20


class StoreConformance:
    """What every store must do."""

    def test_a_content_is_found_under_its_name(self, store: SharedStore) -> None:
        store.put("nodes/a/one", b"first")
        store.put("nodes/a/two", b"")
        assert store.get("nodes/a/one", _LIMIT) == b"first"
        assert store.get("nodes/a/two", _LIMIT) == b""
        assert store.has("nodes/a/one")

    def test_what_is_missing_is_none(self, store: SharedStore) -> None:
        assert store.get("nodes/a/nothing", _LIMIT) is None
        assert not store.has("nodes/a/nothing")
        assert list(store.entries("nodes/")) == []
        store.remove("nodes/a/nothing")

    def test_a_second_write_replaces_the_first(self, store: SharedStore) -> None:
        store.put("commits/a", b"1" * 1000)
        store.put("commits/a", b"2")
        assert store.get("commits/a", _LIMIT) == b"2"

    def test_a_content_beyond_the_limit_is_refused(self, store: SharedStore) -> None:
        store.put("nodes/a/large", b"x" * 5000)
        assert store.get("nodes/a/large", 5000) == b"x" * 5000
        with pytest.raises(StoreFault, match="too large"):
            store.get("nodes/a/large", 4999)

    def test_entries_name_what_is_below_a_prefix(self, store: SharedStore) -> None:
        for name in ("nodes/a/1", "nodes/a/2", "nodes/b/1", "commits/1"):
            store.put(name, b"-")
        found = list(store.entries("nodes/"))
        assert sorted(entry.name for entry in found) == ["nodes/a/1", "nodes/a/2", "nodes/b/1"]
        assert all(abs(entry.changed_at - time.time()) < 3600 for entry in found)

    def test_what_is_removed_is_gone(self, store: SharedStore) -> None:
        store.put("nodes/a/1", b"-")
        store.remove("nodes/a/1")
        assert not store.has("nodes/a/1")

    def test_no_name_leads_outside(self, store: SharedStore) -> None:
        for name in ("../x", "/x", "a/../x", "a//x", "a\nb", "", "a b"):
            with pytest.raises(ValueError, match="cannot be a name"):
                store.put(name, b"-")

    def test_eight_at_once_do_not_disturb_each_other(self, store: SharedStore) -> None:
        contents = [bytes([number]) * 200_000 for number in range(8)]
        faults: list[BaseException] = []

        def write(content: bytes) -> None:
            try:
                for number in range(3):
                    name = f"nodes/{content[0]}/{number}"
                    store.put(name, content)
                    assert store.get(name, _LIMIT) == content
            except BaseException as error:  # noqa: BLE001 - of a thread, for the test
                faults.append(error)

        threads = [threading.Thread(target=write, args=(content,)) for content in contents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults
        assert len(list(store.entries("nodes/"))) == 24
