"""An event: one thing that happened, recorded once and never changed."""

from __future__ import annotations

from loopty.kit.records import Record


class Event(Record):
    """The base of all events. Each family (a file of this room) defines its own as frozen dataclasses.

    To change an event, add fields with defaults or define a new event. Decoding ignores unknown fields, so an
    older loopty reads a newer ledger as far as it can.
    """


class Recorded(Record):
    """An event with its number in the ledger. `at` is in seconds since the epoch."""

    number: int
    at: float
    event: Event
