"""A repository with a task, as the tests of verbs have it."""

from ...end_to_end.conftest import code_place, place

__all__ = ["code_place", "place"]
