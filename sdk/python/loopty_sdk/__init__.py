"""What a benchmark needs to report to loopty: standard library only, any Python from 3.8 on."""

from __future__ import annotations

# Nothing is imported before it is needed, typing included: a short trial would take twice as long.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .candidates import candidate
    from .errors import CandidateError
    from .run import Run

__all__ = ["CandidateError", "Run", "candidate"]

_HOMES = {"CandidateError": "errors", "Run": "run", "candidate": "candidates"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
