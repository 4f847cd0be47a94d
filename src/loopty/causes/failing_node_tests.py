"""Tests of Mocha and Jest that fail on the repository's own files: the options that leave them out."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MOCHA_PASSED = re.compile(r"^ +(\d+) passing\b", re.MULTILINE)
_MOCHA_FAILED = re.compile(r"^ +\d+ failing\n(?P<list>.*)", re.MULTILINE | re.DOTALL)
_MOCHA_TITLE = re.compile(r"^  \d+\) (?P<title>.+(?:\n {7,}\S.*)*?):$", re.MULTILINE)
"""The titles of the groups that a test is in, one on each line, and its own, which ends with a colon."""
_HOOK = re.compile(r'"(?:before|after) (?:all|each)" hook')
_MOCHA_OPTION = re.compile(r'(?: --)? --invert --grep "\^\((?P<names>[^"]*)\)\$"')
_JEST_COUNT = re.compile(r"^Tests: +(?P<failed>\d+) failed, (?:\d+ \w+, )*?(?P<passed>\d+) passed, ", re.MULTILINE)
_JEST_TITLE = re.compile(r"^  ● (.+)$", re.MULTILINE)
_JEST_NOT_RUN = "Test suite failed to run"
_JEST_OPTION = re.compile(r'(?: --)? --testNamePattern "\^\(\?!\((?P<names>[^"]*)\)\$\)"')
_STARTED = re.compile(r"\b(?P<npm>npm (?:test|run)\b.*)|\b(?:mocha|jest)\b")
_MOST_TESTS = 40


def without_mocha(command: str, output: str) -> tuple[Sequence[str], str] | None:
    """The failed tests of Mocha, of more that pass, and the command without them; None where it is another one."""
    passed, failed = _MOCHA_PASSED.search(output), _MOCHA_FAILED.search(output)
    if not (passed and failed):
        return None
    titles = [" ".join(title.split()) for title in _MOCHA_TITLE.findall(failed["list"])]
    if len(titles) >= int(passed[1]) or any(map(_HOOK.search, titles)):
        return None
    return _without(command, titles, _MOCHA_OPTION, '--invert --grep "^({names})$"')


def without_jest(command: str, output: str) -> tuple[Sequence[str], str] | None:
    """The same for Jest; a file that cannot be loaded has no titles to leave out."""
    count = _JEST_COUNT.search(output)
    if count is None or int(count["failed"]) >= int(count["passed"]) or _JEST_NOT_RUN in output:
        return None
    titles = [title.replace(" › ", " ").strip() for title in _JEST_TITLE.findall(output)]
    return _without(command, titles, _JEST_OPTION, '--testNamePattern "^(?!({names})$)"')


def _without(
    command: str, titles: Sequence[str], option: re.Pattern[str], text: str
) -> tuple[Sequence[str], str] | None:
    """The titles, each once, and the command with the option that leaves them out, and what it had left out."""
    once = list(dict.fromkeys(titles))
    before, bare = option.search(command), option.sub("", command)
    started = _STARTED.search(bare)
    if started is None or not 0 < len(once) <= _MOST_TESTS:
        return None
    # Whatever could mean something to a shell or in a pattern stands for any character.
    patterns = [*(before["names"].split("|") if before else ()), *(re.sub(r"[^\w ]", ".", one) for one in once)]
    separator = " --" if started["npm"] else ""
    quote = "'" if bare.endswith("'") else ""
    words = text.format(names="|".join(dict.fromkeys(patterns)))
    return once, f"{bare.removesuffix(quote)}{separator} {words}{quote}"
