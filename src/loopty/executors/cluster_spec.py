"""An entry of `[executor] hosts` that names a cluster: what to ask its scheduler for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from loopty.domain.errors import Misuse

_OPTIONS = {
    "slurm": ("cpus", "gpus", "minutes", "folder", "cluster"),
    "ray": ("cpus", "gpus", "resources", "network"),
    "sky": ("cpus", "gpus", "minutes", "install", "spot"),
    "modal": ("cpus", "gpus", "minutes", "install"),
}
_PRIVATE = "private"


@dataclass(frozen=True)
class ClusterSpec:
    """`slurm:PARTITION?…`, `ray:ADDRESS?…`, `sky:CLOUD?…` or `modal:?…`."""

    host: str
    """The whole entry."""
    kind: str
    place: str
    workers: int = 1
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, host: str) -> ClusterSpec:
        """Raises Misuse for options that the scheduler does not know."""
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
        return cls(host, kind, place, int(workers), options)

    def number(self, name: str, default: float) -> float:
        try:
            return float(self.options.get(name, default))
        except ValueError:
            raise Misuse(f"[executor] hosts: {name} is {self.options[name]!r}, not a number") from None

    def resources(self) -> dict[str, float]:
        """The custom resources of `resources=NAME:AMOUNT,…`."""
        found: dict[str, float] = {}
        for part in filter(None, self.options.get("resources", "").split(",")):
            name, _, amount = part.rpartition(":")
            try:
                found[name] = float(amount)
            except ValueError:
                found[name] = 0.0
            if not name or not found[name] > 0:
                raise Misuse(
                    f"[executor] hosts names {self.host!r}: give resources=NAME:AMOUNT, as in resources=licence:1"
                )
        return found

    def is_private(self) -> bool:
        """Whether the user says that nobody else can listen on the network between the nodes."""
        if (network := self.options.get("network", "")) not in ("", _PRIVATE):
            raise Misuse(f"[executor] hosts names {self.host!r}: network may only be {_PRIVATE!r}")
        return bool(network)
