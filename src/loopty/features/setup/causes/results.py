"""Causes: a benchmark that ran to its end, and whose result is missing, no number, or about nothing."""

from __future__ import annotations

import json
import re
import shlex

from loopty.domain.objective import best_score_name, named_numbers, not_finite_text, printed_not_finite, says_score
from loopty.evaluators.formats.measured_lines import measured_lines
from loopty.evaluators.formats.tool_rows import PRINTED_TOOLS
from loopty.evaluators.result_formats import load_format
from loopty.features.setup.causes.failure import Failure, HostFacts
from loopty.show.explanation import Cause, Setting

_NOT_WRITTEN = r"the result file was not written"
_LONGEST_REASON = 60
"""Of what a format says where nothing was written: so much tells it apart, however a message is cut."""
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PRINTED_NUMBER = re.compile(
    rf"^\W*(?:(?P<name>[A-Za-z][\w ./%()-]{{0,40}}?)\s*[:=]\s*)?{_NUMBER}\s*[\w/%]{{0,8}}\W*$"
)
_OBJECT = re.compile(r"^\s*\{", re.MULTILINE)
_ONE_NUMBER = re.compile(rf"(?<![\w.]){_NUMBER}(?![\d.])")
_NAMED_NUMBER = re.compile(rf"[:=]\s*{_NUMBER}(?![\w.])")
_TOOLS = {
    r"^\s*OPS: Operations Per Second|^-+ benchmark": "pytest-benchmark",
    r"^\S.*: Mean \+- std dev: [\d.]+ (?:sec|ms|us|ns) \+- ": "pyperf",
    r"\btime:\s+\[[\d.]+ \S+ [\d.]+ \S+ [\d.]+ \S+\]": "criterion",
    r"^Run on \(\d+ X [\d.]+ MHz CPU|^BM_\S+\s+[\d.]+ [mun]?s\s+[\d.]+ [mun]?s\s+\d+": "google-benchmark",
    r"^\s+Time \(mean ± σ\):": "hyperfine",
    r"^\s+name\s+hz\s+min\s+max\s+mean\b": "vitest",
}
"""What the outputs of tools look like that are read from files, and the `result` that reads them."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FEWEST_ROWS = 2
"""Of so many measured lines, no single one is the score."""
_SUMMARY = re.compile(r"score|total|overall|mean|average|geo-?mean|result|fitness|reward", re.IGNORECASE)
_REPORTED = r"did not report (?P<wanted>[^(]+?) \(it reported (?P<names>[^)…]+)"
_OTHER_NUMBERS = r"has no (?P<wanted>\S+): name one of its numbers .*\(it has (?P<names>[^)…]+)"
_NAME = r"(?:LOOPTY|EVO)_[A-Z_]+"
_UNSET_VARIABLE = rf"KeyError: '(?P<key>{_NAME})'|\b(?P<word>{_NAME}): (?:unbound variable|parameter not set)"
_PARAMS_AS_TEXT = r"(?:json\.loads|JSON\.parse)\(.*LOOPTY_PARAMS"
_NO_JSON = r"JSONDecodeError|is not valid JSON|SyntaxError: Unexpected token"
_VARIABLES = "$EVO_TRACES_DIR, $LOOPTY_PARAMS, $LOOPTY_MODE, $LOOPTY_SEED, $LOOPTY_METRICS_CSV"
_SCORE = "score"
_OF_OBJECTS = (_SCORE, "combined_score")
"""What loopty takes for the score of a JSON object by itself."""
_FAULTS = re.compile(r"(?:\w+ )?(?:errors?|fail(?:ed|ures?)|misses)", re.IGNORECASE)
"""Names of numbers that programs print beside their result."""
NO_RESULT = "no-result"
"""The cause of a benchmark that says nothing about its result."""
CPU_TIMER = "python3 -m loopty_sdk.cpu_time"
"""What runs a command and reports its CPU time as the score."""
TEST_TIMER = "python3 -m loopty_sdk.test_time"
"""What reports the CPU time of tests without their start."""
WALL_SECONDS = "wall_seconds"
"""What a timed command reports beside its CPU time."""
_PLAIN_WORDS = re.compile(r"[\w./+-]+ [\w./=:,@%+ -]+")
"""A program and words that mean the same with and without a shell."""
_OF_THE_SHELL = ("cd", "command", "eval", "exec", "export", "set", "source", "ulimit", ".")


def unset_variable(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a variable of the contract that trials do not have: a name from memory."""
    found = failure.match(_UNSET_VARIABLE)
    if found is None:
        return None
    name = found["key"] or found["word"]
    return Cause(
        "unset-variable",
        f"the benchmark reads ${name}, which this trial does not have",
        advice="write the result to the file $EVO_RESULT_PATH; docs/contract.md lists what a trial has: "
        f"{_VARIABLES}, …",
    )


def params_as_text(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a benchmark that takes the name of the file of parameters for its content."""
    if not re.search(_PARAMS_AS_TEXT, failure.output) or not failure.match(_NO_JSON):
        return None
    return Cause(
        "params-as-text",
        "$LOOPTY_PARAMS is the path of a JSON file with the parameters, and the benchmark reads it as JSON itself",
        advice='read the file: json.load(open(os.environ["LOOPTY_PARAMS"])), or '
        'JSON.parse(fs.readFileSync(process.env.LOOPTY_PARAMS, "utf8"))',
    )


def tool_output(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a benchmark tool whose output loopty can read."""
    if not _is_unread(failure):
        return None
    tool = printed_tool("\n".join((failure.output, *failure.lines)))
    if not tool or tool == failure.task.benchmark.result:
        return None
    sentence = f"{tool} measured, and loopty looks for {_wanted(failure)}"
    return Cause("printed-by-a-tool", sentence, (Setting("benchmark", "result", tool),))


def _is_unread(failure: Failure) -> bool:
    """Say whether the benchmark ran to its end, and the format of the task found nothing."""
    return load_format(failure.task.benchmark.result).missing[:_LONGEST_REASON] in failure.reason


def _wanted(failure: Failure) -> str:
    result = failure.task.benchmark.result
    return "a result file" if result == "file" else f"the output of {result}"


def printed_tool(text: str) -> str:
    """Name the format that reads what a benchmark tool printed; empty if none is known."""
    plain = _COLOUR.sub("", text)
    if by_file := next((tool for pattern, tool in _TOOLS.items() if re.search(pattern, plain, re.MULTILINE)), ""):
        return by_file
    return next((name for name, tool in PRINTED_TOOLS.items() if tool.rows(plain)), "")


def measured_output(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a benchmark that prints several times or rates with their units, or one inside a sentence."""
    if not _is_unread(failure) or failure.task.benchmark.result == "units":
        return None
    if _printed_object(failure) is not None or not has_measured_lines(failure.output or failure.text):
        return None
    sentence = "the benchmark prints times or rates with their units, and writes no result file"
    return Cause("printed-measurements", sentence, (Setting("benchmark", "result", "units"),))


def printed_result(output: str) -> str:
    """Name the format that reads what a program printed about its own measurements; empty if it printed none."""
    return printed_tool(output) or ("units" if has_measured_lines(output) else "")


def has_measured_lines(output: str) -> bool:
    """Say whether the numbers with units are the result: several, or one inside a sentence."""
    rows = measured_lines(output)
    last = output.rstrip().rpartition("\n")[2]
    has_one_number = _PRINTED_NUMBER.match(last) is not None and _is_readable(last)
    is_summary = has_one_number and (
        len({row.name for row in rows}) < _FEWEST_ROWS or _SUMMARY.search(last) is not None
    )
    scores = [name for name in named_numbers(output.splitlines()) if _SCORE in name.lower()]
    return bool(rows) and not is_summary and not scores


def score_on_stdout(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a benchmark that prints its score instead of writing it to the result file."""
    if not _is_unread(failure) or failure.task.benchmark.result == "stdout":
        return None
    to_stdout = Setting("benchmark", "result", "stdout")
    if (numbers := _printed_object(failure)) is not None:
        sentence = "the benchmark prints its result as JSON, and loopty looks for it in a file"
        key = best_score_name(numbers) if numbers else _SCORE
        keys = () if key in _OF_OBJECTS else (Setting("benchmark", "score_key", key),)
        return Cause("printed-score", sentence, (to_stdout, *keys))
    last = failure.lines[-1] if failure.lines else ""
    named = named_numbers(failure.output.splitlines() or failure.lines)
    scores = [name for name in named if says_score(name) and not _FAULTS.fullmatch(name)]
    found = _PRINTED_NUMBER.match(last)
    # unittest ends with "OK (skipped=6)": what opens a bracket and does not close it is no name of a number.
    if found and _is_readable(last) and (found["name"] or "").count("(") == (found["name"] or "").count(")"):
        name = best_score_name((found["name"], *scores) if found["name"] else scores) if scores else found["name"]
    elif scores:
        name = best_score_name(scores)
    else:
        return None
    keys = (Setting("benchmark", "score_key", name),) if name in named and name != _SCORE else ()
    sentence = f"the benchmark prints {name or 'a number'}, and writes no result file"
    return Cause("printed-score", sentence, (to_stdout, *keys))


def no_result(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a benchmark that says nothing about its result."""
    if not _is_unread(failure):
        return None
    return Cause(
        NO_RESULT,
        "the benchmark ended without a result; the CPU time that it takes can be the score",
        (
            Setting("benchmark", "command", _timed(failure.command)),
            Setting("objective", "direction", "min"),
            *([Setting("benchmark", "result", "file")] if failure.task.benchmark.result != "file" else []),
        ),
        is_guess=True,
        advice='let it write {"score": NUMBER} to the file that $EVO_RESULT_PATH names, as in '
        'echo \'{"score": 1.5}\' > "$EVO_RESULT_PATH"; or print that as its last line, with result = "stdout" '
        "under [benchmark]",
    )


def command_with_timer(line: str, build: str = "", timer: str = CPU_TIMER) -> str:
    """Write the line whose score is the CPU time of a command; what is built before does not count."""
    is_plain = _PLAIN_WORDS.fullmatch(line) and line.split()[0] not in _OF_THE_SHELL
    words = line if is_plain else shlex.quote(line)
    timed = f"{timer} {words}"
    return f"{build} && {timed}" if build else timed


def _timed(command: str) -> str:
    """Time the last part of a command: what comes before it prepares or builds."""
    parts = re.match(r"(.*)(?: && |; )(.*)", command, re.DOTALL)
    build, line = parts.groups() if parts else ("", command)
    is_split = not any(quote in line or build.count(quote) % 2 for quote in "'\"")
    return command_with_timer(line, build) if is_split else command_with_timer(command)


def without_timer(command: str) -> str:
    """Write the command without what times it."""
    before, _, timed = command.partition(f"{CPU_TIMER} ")
    words = shlex.split(timed)
    return before + (words[0] if len(words) == 1 else timed)


def absent_metric(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a metric of the objective that the benchmark does not report; it reports others."""
    found = failure.match(_REPORTED)
    if found is None:
        return None
    names = [name.strip() for name in found["names"].split(",") if name.strip()]
    return Cause(
        "absent-metric",
        f"the task asks for {found['wanted']}, and the benchmark reports {', '.join(names)}",
        (Setting("objective.metrics", "name", best_score_name(names)),),
    )


def other_score_key(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a result without a score that has other numbers."""
    found = failure.match(_OTHER_NUMBERS)
    if found is None:
        return None
    names = [name.strip() for name in found["names"].split(",") if name.strip()]
    return Cause(
        "other-score-key",
        f"the result has no {found['wanted']}, and these numbers: {', '.join(names)}",
        (Setting("benchmark", "score_key", names[0]),),
    )


def _is_readable(line: str) -> bool:
    """Say whether it is clear which number counts: in `Took 0.4s to parse 22KB: 53KB/s`, it is not."""
    return len(_ONE_NUMBER.findall(line)) == 1 or _NAMED_NUMBER.search(line) is not None


def _printed_object(failure: Failure) -> list[str] | None:
    """List the names of the numbers in the JSON object that ends the output, on one line or more; None without."""
    ends = (failure.output.rstrip(), failure.lines[-1] if failure.lines else "")
    for text in ends:
        for start in _OBJECT.finditer(text):
            try:
                document = json.loads(text[start.start() :])
            except (ValueError, RecursionError):
                continue
            if isinstance(document, dict):
                return [name for name, value in document.items() if type(value) in (int, float)]
    return None


def score_is_not_finite(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a result without a finite score."""
    said = re.search(
        r"has an? .+ that is (?P<value>NaN|-?Infinity)|\((?P<constant>NaN|-?Infinity) is", failure.reason
    )
    printed = printed_not_finite(failure.lines[-1]) if failure.lines else None
    if said:
        value = said["value"] or said["constant"]
    elif printed and "result file was not written" in failure.reason:
        value = not_finite_text(printed[1])
    else:
        return None
    return Cause(
        "score-not-finite",
        f"{failure.subject} computed {value}, which is no score",
        advice="find out where it comes from, as a division by zero or a loss that diverged",
    )


_COUNTS = (
    r"^Ran (\d+) tests? in ",  # unittest
    r"^running (\d+) tests?$",  # cargo
    r"^# TOTAL: +(\d+)$",  # automake
    r"^\s*(\d+) passing\b",  # mocha
    r"^[#ℹ] tests (\d+)$",  # tape and node:test
    r"^1\.\.(\d+)$",  # TAP
)
_NONE = (
    r"^\?\s+\S+\s+\[no test files\]$|\[no tests to run\]$",  # go
    r"^make(?:\[\d+\])?: Nothing to be done for '(?:test|tests|check)'\.$",
    r"^make: '(?:test|tests|check)' is up to date\.$",  # there is a folder of that name, and no .PHONY
    r"^Files=0, Tests=0\b",  # prove
)
_SOME = r"^ok\s+\S+\s+[\d.]+s$|^(?:PASS|ok \d+|All tests successful)\b"
"""What go, automake, TAP and prove print for tests that ran."""

_EMPTY_CHECK = (
    r"^(?:make(?:\[\d+\])? +check-(?:am|recursive)|Making check in .*)\n"
    r"(?:(?:make\b|Making check in ).*(?:\n|\Z))*\Z"
)
"""The end of what automake prints for a check without tests: only make's own words."""
_CHECK_TARGET = r"\bcheck-(?!am\b|recursive\b)\w"
"""The targets check-TESTS and check-local, which only a project with tests has."""

_LONGEST_USAGE = 60


def has_run_no_tests(output: str) -> bool:
    """Say whether the output names the number of tests, and it is 0; False if it says nothing about that."""
    counts = [int(number) for pattern in _COUNTS for number in re.findall(pattern, output, re.MULTILINE)]
    says_none = any(re.search(pattern, output, re.MULTILINE) for pattern in _NONE) or (
        re.search(_EMPTY_CHECK, output, re.MULTILINE) is not None and not re.search(_CHECK_TARGET, output)
    )
    has_some = any(counts) or re.search(_SOME, output, re.MULTILINE) is not None
    return (bool(counts) or says_none) and not has_some


def is_only_usage(output: str) -> bool:
    """Say whether the output is only how the command is used: it wants arguments, and has measured nothing."""
    lines = output.strip().splitlines()
    return 0 < len(lines) <= _LONGEST_USAGE and re.match(r"\s*usage\s*:", lines[0], re.IGNORECASE) is not None
