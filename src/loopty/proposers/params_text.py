"""Parameters as one short line."""

from __future__ import annotations

from loopty.domain.space import Params


def params_line(params: Params) -> str:
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in params.items()
    )
