"""The cheaper target of tune mode: what a proposal's parameters are tuned against before its one attempt."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.kit.option import option

SAMPLERS = ("local", "random", "tpe", "gp")


@dataclass(frozen=True, slots=True)
class Tune:
    """Tune mode: parameters of a code change are tuned on a slice first. Off without `slice`."""

    slice: str = option(
        "What to measure instead of everything, in your own words (`dev`, `steps=50`). The benchmark gets "
        "it as LOOPTY_SLICE, with LOOPTY_MODE=tune.",
        "",
    )
    trials: int = option(
        "Tune trials for each proposal that changes code; 0: only agents tune.",
        16,
        minimum=0,
        below=257,
    )
    sampler: str = option(
        "What chooses the values: `local` changes the best ones; `random`, `tpe` and `gp` as in `[proposer]`.",
        "local",
        choices=SAMPLERS,
    )

    def __bool__(self) -> bool:
        """Whether there is a cheaper target."""
        return bool(self.slice)
