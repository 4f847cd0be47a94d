"""What an entry under `[executor] hosts` asks a scheduler, or somebody who rents machines, for."""

from __future__ import annotations

from urllib.parse import parse_qsl

from loopty.domain.errors import Misuse
from loopty.kit.dataclass import dataclass, field

PATIENCE_SECONDS = "120"
"""A worker that finds no driver for this long ends: nobody else would end it."""
_RENTED = ("cpus", "gpus", "minutes", "install")
_OPTIONS = {
    "slurm": ("cpus", "gpus", "minutes", "folder", "cluster"),
    "sky": (*_RENTED, "spot"),
    "modal": _RENTED,
}


@dataclass(frozen=True)
class ClusterSpec:
    """`slurm:PARTITION?…`: what to ask a scheduler for."""

    kind: str
    place: str
    workers: int = 1
    options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, host: str) -> ClusterSpec:
        """Raises Misuse for options that no scheduler knows."""
        kind, _, rest = host.partition(":")
        place, _, query = rest.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        workers = options.pop("workers", "1")
        known = _OPTIONS[kind]
        unknown = [name for name in options if name not in known]
        if unknown or not workers.isdecimal() or not int(workers):
            raise Misuse(
                f"[executor] hosts names {host!r}: after the question mark, give workers=NUMBER"
                f"{''.join(f', {name}=…' for name in known)}"
            )
        return cls(kind, place, int(workers), options)

    def number(self, name: str, default: float) -> float:
        try:
            return float(self.options.get(name, default))
        except ValueError:
            raise Misuse(f"[executor] hosts: {name} is {self.options[name]!r}, not a number") from None
