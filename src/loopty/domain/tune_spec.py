"""The cheaper target of tune mode: what a proposal's parameters are tuned against before its one attempt."""

from __future__ import annotations

from loopty.kit.dataclass import Record, dataclass
from loopty.kit.option import option

SAMPLERS = ("local", "random", "tpe", "gp")


@dataclass(frozen=True, slots=True)
class Tune(Record):
    """Tune mode: parameters of a code change are tuned on a slice first. Off without `slice`."""

    slice: str = option(
        "What the benchmark measures instead of everything, in words of its own (`dev`, `100`, `steps=50`): it "
        "gets LOOPTY_MODE=tune and this as LOOPTY_SLICE. A slice should cost less than 3 % of a trial.",
        "",
    )
    trials: int = option(
        "Tune trials before the attempt of a proposal that changes code; `tunes` of `[pools]` limits them all. "
        "0: only agents tune.",
        16,
        minimum=0,
        below=257,
    )
    sampler: str = option(
        "What chooses the points: `local` changes the best one, ever less; `random`, `tpe` and `gp` are those of "
        "`[proposer]`.",
        "local",
        choices=SAMPLERS,
    )

    def __bool__(self) -> bool:
        """Whether there is a cheaper target."""
        return bool(self.slice)
