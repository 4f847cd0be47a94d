"""What scripts import from `gepa.optimize_anything`; the call of the optimiser ends the script."""

from __future__ import annotations

from typing import Any


class OptimizationCall(BaseException):
    """The call of a script: what scores a candidate, and on which examples.

    No handler of the script catches it.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__("optimize_anything was called")
        self._arguments = arguments

    def given(self, name: str) -> Any:
        return self._arguments.get(name)


def optimize_anything(seed_candidate: Any = None, **arguments: Any) -> None:
    """End the script with what it asks for."""
    raise OptimizationCall({"seed_candidate": seed_candidate, **arguments})


class _Settings:
    """Takes any settings: nothing of them bears on a score."""

    def __init__(self, *_values: Any, **settings: Any) -> None:
        vars(self).update(settings)


class EngineConfig(_Settings):
    pass


class GEPAConfig(_Settings):
    pass


class MergeConfig(_Settings):
    pass


class OptimizationState(_Settings):
    pass


class OptimizeAnythingConfig(_Settings):
    pass


class RefinerConfig(_Settings):
    pass


class ReflectionConfig(_Settings):
    pass


class TrackingConfig(_Settings):
    pass


Candidate = dict
SideInfo = dict


def log(*words: Any) -> None:
    """Print to stderr, which loopty shows to the next proposal."""
    import sys

    print(*words, file=sys.stderr)


__all__ = [
    "Candidate",
    "EngineConfig",
    "GEPAConfig",
    "MergeConfig",
    "OptimizationState",
    "OptimizeAnythingConfig",
    "RefinerConfig",
    "ReflectionConfig",
    "SideInfo",
    "TrackingConfig",
    "log",
    "optimize_anything",
]
