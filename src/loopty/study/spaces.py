"""Parameters as Python callers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopty.domain.errors import Misuse
from loopty.domain.space import Parameter, ParameterKind, Space, Value

Spec = Mapping[str, Parameter | Sequence[Value]]
"""Parameters by name; a plain list stands for its choices."""


def Float(  # noqa: N802 - it reads like a type
    low: float,
    high: float,
    *,
    log: bool = False,
    step: float | None = None,
    default: float | None = None,
    when: Mapping[str, Value] | None = None,
) -> Parameter:
    """Describe a number; `when` names values of other parameters without which it does not exist.

    >>> import loopty
    >>> loopty.Float(1e-4, 1.0, log=True).baseline
    0.01
    """
    found = Parameter(
        type=ParameterKind.FLOAT,
        low=float(low),
        high=float(high),
        log=log,
        step=step,
        default=None if default is None else float(default),
        when=when or {},
    )
    return _checked(found)


def Int(  # noqa: N802 - it reads like a type
    low: int,
    high: int,
    *,
    log: bool = False,
    step: int | None = None,
    default: int | None = None,
    when: Mapping[str, Value] | None = None,
) -> Parameter:
    """Describe a whole number; both ends are included.

    >>> import loopty
    >>> loopty.Int(1, 9).baseline
    5
    """
    found = Parameter(
        type=ParameterKind.INT,
        low=float(low),
        high=float(high),
        log=log,
        step=None if step in (None, 1) else float(step or 1),
        default=default,
        when=when or {},
    )
    return _checked(found)


def Categorical(  # noqa: N802 - it reads like a type
    choices: Sequence[Value], *, default: Value | None = None, when: Mapping[str, Value] | None = None
) -> Parameter:
    """Describe a choice between texts, numbers or booleans.

    >>> import loopty
    >>> loopty.Categorical(["adam", "sgd"]).baseline
    'adam'
    """
    found = Parameter(type=ParameterKind.CATEGORICAL, choices=tuple(choices), default=default, when=when or {})
    return _checked(found)


def make_space(spec: Spec) -> Space:
    """Return the space that a caller describes. Raises Misuse if it cannot be one."""
    parameters = {
        name: entry if isinstance(entry, Parameter) else Categorical(entry) for name, entry in spec.items()
    }
    space = Space(parameters)
    try:
        space.order()
    except ValueError as error:
        raise Misuse(f"the parameters {error}") from None
    return space


def table_of(parameter: Parameter) -> dict[str, object]:
    """Return the parameter as the task file writes it."""
    found: dict[str, object] = {"type": str(parameter.type)}
    for name in ("low", "high", "step", "default"):
        if (value := getattr(parameter, name)) is not None:
            found[name] = value
    if parameter.log:
        found["log"] = True
    if parameter.choices:
        found["choices"] = list(parameter.choices)
    if parameter.when:
        found["when"] = dict(parameter.when)
    return found


def _checked(parameter: Parameter) -> Parameter:
    if fault := parameter.fault():
        raise Misuse(f"this {parameter.type} parameter {fault}")
    for value in parameter.choices:
        if not isinstance(value, str | int | float):
            raise Misuse(f"choice {value!r} is no text, number or boolean: name it by a text, and look it up")
    return parameter
