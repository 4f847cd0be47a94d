"""What a benchmark needs to report to loopty: standard library only, any Python from 3.8 on."""

from .run import Run

__all__ = ["Run"]
