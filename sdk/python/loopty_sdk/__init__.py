"""The SDK with which a benchmark reports to loopty: standard library only, Python 3.8 or newer."""

from __future__ import annotations

# Everything is imported on first use, typing included: otherwise a short trial would take twice as long.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .candidates import candidate
    from .errors import CandidateError
    from .run import Run

__all__ = ["CandidateError", "Run", "candidate"]

_MODULES = {"CandidateError": "errors", "Run": "run", "candidate": "candidates"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value
