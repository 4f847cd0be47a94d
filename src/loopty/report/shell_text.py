"""Parameters as assignments that a shell reads."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from loopty.domain.errors import Misuse
from loopty.domain.space import Value

_PREFIX = "PARAM_"
"""So that no parameter of a stranger's task sets PATH, LD_PRELOAD or the like."""


def shell_assignments(params: Mapping[str, Value]) -> str:
    """One line for each parameter, `PARAM_LR=0.03`, safe to `eval`."""
    names: dict[str, str] = {}
    for name in params:
        variable = _PREFIX + re.sub(r"\W", "_", name, flags=re.ASCII).upper()
        if variable in names:
            raise Misuse(f"parameters {names[variable]} and {name} are both {variable} in a shell: use --json")
        names[variable] = name
    return "\n".join(f"{variable}={_quote(params[name])}" for variable, name in names.items())


def _quote(value: Value) -> str:
    return shlex.quote(value if isinstance(value, str) else json.dumps(value))
