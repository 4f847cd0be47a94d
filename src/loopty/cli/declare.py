"""Verbs, declared as with click: a plain command line is read here, and click is asked for all others.

Importing click takes longer than most verbs do. It alone writes help and says what is wrong with a line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import click

Function = TypeVar("Function", bound=Callable[..., None])
_DECLARED = "__loopty_declared__"


class Kind:
    """What a word of the command line is turned into; `convert` raises Misuse. click takes it as it is."""

    def __init__(self, name: str, convert: Callable[[str], Any]) -> None:
        self.__name__ = name
        self._convert = convert

    def __call__(self, word: str) -> Any:
        return self._convert(word)


class _ClickKind(NamedTuple):
    """A type of click's own: it is made when click is needed, and a line that uses it is left to click."""

    name: str
    args: tuple[Any, ...]
    settings: dict[str, Any]


def kind_of_click(name: str, *args: Any, **settings: Any) -> Any:
    """The type of this name in click, as `IntRange`, with these arguments."""
    return _ClickKind(name, args, settings)


class Declared(NamedTuple):
    """One option, or one argument."""

    is_option: bool
    names: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """That of the function's parameter, as click chooses it."""
        given = next((name for name in self.names if name.isidentifier()), None)
        return given or max(self.names, key=lambda name: name.startswith("--")).lstrip("-").replace("-", "_")

    @property
    def is_flag(self) -> bool:
        return bool(self.settings.get("is_flag"))

    @property
    def takes_many(self) -> bool:
        return bool(self.settings.get("multiple")) or self.settings.get("nargs") == -1

    @property
    def default(self) -> Any:
        return () if self.takes_many else self.settings.get("default", False if self.is_flag else None)

    @property
    def is_required(self) -> bool:
        return bool(self.settings.get("required", not (self.is_option or self.takes_many)))

    def value(self, words: list[str]) -> Any:
        """What these words mean. Raises ValueError where click has to say it."""
        if self.is_flag:
            return True
        kind = self.settings.get("type") or type(self.settings.get("default") or "")
        if isinstance(kind, _ClickKind):
            raise ValueError
        return tuple(map(kind, words)) if self.takes_many else kind(words[-1])

    def apply_click(self, function: Function) -> Function:
        """Declare it for click, too."""
        import click

        declare = click.option if self.is_option else click.argument
        settings = dict(self.settings)
        if "type" in settings:
            settings["type"] = _as_click_type(settings["type"])
        return declare(*self.names, **settings)(function)


class Verb:
    """A verb: its function, and what is declared of its command line."""

    def __init__(self, name: str, function: Callable[..., None]) -> None:
        self._name = name
        self._function = function
        self._declared: list[Declared] = getattr(function, _DECLARED, [])[::-1]

    def call_for(self, words: Sequence[str]) -> Callable[[], None] | None:
        """The call that a plain line asks for; None where click has to read it, for help or for what is wrong."""
        values = self.values(words)
        return None if values is None else lambda: self._function(**values)

    def values(self, words: Sequence[str]) -> dict[str, Any] | None:
        """The function's arguments by a plain line; None where click has to read it."""
        given = self._given(words)
        if given is None or any(one.is_required and one.name not in given for one in self._declared):
            return None
        try:
            found = {one.name: one.value(given[one.name]) for one in self._declared if one.name in given}
        except ValueError:
            return None
        return {one.name: one.default for one in self._declared} | found

    def for_click(self) -> click.Command:
        """The same verb as click's."""
        import click

        def call(**values: Any) -> None:
            self._function(**values)

        call.__doc__ = self._function.__doc__
        for declared in reversed(self._declared):
            call = declared.apply_click(call)
        return click.command(self._name)(call)

    def _given(self, words: Sequence[str]) -> dict[str, list[str]] | None:
        """The words of each option and argument that is given; None where they are not plain."""
        options = {name: one for one in self._declared if one.is_option for name in one.names if name[0] == "-"}
        places = [one for one in self._declared if not one.is_option]
        given: dict[str, list[str]] = {}
        rest = list(reversed(words))
        while rest:
            word = rest.pop()
            if not word.startswith("-"):
                if not places:
                    return None
                given.setdefault(places[0].name, []).append(word)
                if not places[0].takes_many:
                    del places[0]
                continue
            name, equals, value = word.partition("=")
            if (one := options.get(name)) is None or (one.is_flag and equals):
                return None
            if not one.is_flag and not equals:
                if not rest or rest[-1].startswith("-"):
                    return None
                value = rest.pop()
            elif equals and not name.startswith("--"):
                return None
            given.setdefault(one.name, []).append(value)
        return given


def command(name: str) -> Callable[[Callable[..., None]], Verb]:
    """The verb of this name."""
    return lambda function: Verb(name, function)


def option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """An option, as `click.option`."""
    return _declare(Declared(True, names, settings))


def argument(name: str, **settings: Any) -> Callable[[Function], Function]:
    """An argument, as `click.argument`."""
    return _declare(Declared(False, (name,), settings))


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a line at once; without `nl` its end is in the text."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{text}\n" if nl else text)
    stream.flush()


def _declare(declared: Declared) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        function.__dict__.setdefault(_DECLARED, []).append(declared)
        # A verb that click alone reads shares options with those that are declared here.
        return declared.apply_click(function) if "click" in sys.modules else function

    return add


def _as_click_type(kind: Any) -> Any:
    import click

    return getattr(click, kind.name)(*kind.args, **kind.settings) if isinstance(kind, _ClickKind) else kind
