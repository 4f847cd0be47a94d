"""What the sources of benchmarks say: the tool that measures, the packages of others, a time fixed before."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from loopty.kit.records import Record
from loopty.kit.untrusted_files import source_text

_TOOLS = (
    (r"#\s*include\s*[<\"]benchmark/benchmark\.h", "google-benchmark"),
    (r"CATCH_CONFIG_ENABLE_BENCHMARKING|catch_benchmark|#\s*include\s*[<\"]catch2/benchmark", "catch2"),
    (r"#\s*include\s*[<\"](?:\w+/)*nanobench\.h", "tinybench"),
    (r"(?:from|require\()\s*['\"]mitata['\"]", "mitata"),
    (r"\bbench\b[^;\n]*\}\s*from\s*['\"]vitest['\"]", "vitest"),
    (r"\bimport pyperf\b", "pyperf"),
    (r"\borg\.openjdk\.jmh\b", "jmh"),
)
"""What a source includes or imports, and the format that reads what it prints."""
_IMPORTS = {
    ".py": r"^\s*(?:from|import)\s+([A-Za-z_]\w*)",
    ".js": r"(?:\bfrom\s*|\brequire\s*\(\s*|\bimport\s*\(?\s*)['\"]([^'\".][^'\"]*)['\"]",
    ".go": r"^\s*(?:import\s+)?(?:[\w.]+\s+)?\"([\w-]+\.[\w.-]+/[^\"\s]+)\"",
    ".rs": r"^\s*(?:use|extern crate)\s+(?:::)?([a-z_]\w*)",
}
"""How languages name the packages that a source uses; those that begin with a dot are the repository's own."""
_SAME_LANGUAGE = dict.fromkeys((".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx"), ".js")
_NOT_COMPARED = """
benchmark beautify-benchmark mitata tinybench vitest bench bencher benny cronometro kleur chalk nanobench
matcha pytest pytest_benchmark pyperf timeit time asv numpy pandas random os sys gc json math collections
functools itertools argparse statistics pathlib string typing dataclasses contextlib datetime criterion divan
rand std core alloc crate super self test fs path url util assert perf_hooks worker_threads testing unittest
attr attrs hypothesis faker cli-table cli-table3 seedrandom platform microtime yargs
"""
"""What measures, prints or makes data: not what is compared."""
_FRAMEWORKS = frozenset(_NOT_COMPARED.split())
_FIXED_TIME = re.compile(
    r"\bwhile\b[^\n:{]*(?:perf_counter|monotonic|process_time|time\.time|performance\.now|Date\.now|hrtime|now\(\)|clock\(\)"
    r"|elapsed|Instant|time\.Since|deadline|steady_clock)[^\n]*"
    r"|\b(?:setTimeout|Timer|signal\.alarm)\s*\([^\n]*(?:stop|done|running)",
    re.IGNORECASE,
)
_ISOLATED = re.compile(r"^\s*from loopty_sdk import\b[^\n]*\bcandidate\b|\bloopty_sdk\.candidate\b", re.MULTILINE)
_LEAST_NAME = 5
"""Letters of a package's name from which it is found inside another word, too."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class BenchmarkSources(Record):
    """What the benchmark files of a repository say."""

    tool: str = ""
    """The result format of the tool that most of them use; empty if none is known."""
    rivals: tuple[str, ...] = ()
    """Packages of others that they use."""
    counts_in_fixed_time: frozenset[str] = frozenset()
    """Files that work for a time that was fixed before, and count what they did in it."""
    isolated: frozenset[str] = frozenset()
    """Files that call the code through the SDK, in a sandbox of its own."""


def benchmark_sources(top: Path, paths: Sequence[str], own: str) -> BenchmarkSources:
    """Read these files; `own` is the name of the repository's package."""
    texts = {path: source_text(top / path) for path in paths}
    tools = [tool for text in texts.values() for pattern, tool in _TOOLS if re.search(pattern, text)]
    used = dict.fromkeys(name for path, text in texts.items() for name in _packages(path, text))
    local = {PurePosixPath(path).stem for path in paths} | {PurePosixPath(path).parts[0] for path in paths}
    rivals = [
        name
        for name in used
        if plain_name(name) != plain_name(own) and name not in _FRAMEWORKS and name not in local
    ]
    return BenchmarkSources(
        tool=max(dict.fromkeys(tools), key=tools.count, default=""),
        rivals=tuple(rivals),
        counts_in_fixed_time=frozenset(path for path, text in texts.items() if _FIXED_TIME.search(text)),
        isolated=frozenset(path for path, text in texts.items() if calls_apart(text)),
    )


def calls_apart(text: str) -> bool:
    """Say whether a program or a command calls the code through the SDK, in a sandbox of its own."""
    return _ISOLATED.search(text) is not None


def _packages(path: str, text: str) -> Iterator[str]:
    suffix = PurePosixPath(path).suffix
    pattern = _IMPORTS.get(_SAME_LANGUAGE.get(suffix, suffix))
    for name in re.findall(pattern, text, re.MULTILINE) if pattern else ():
        if name.startswith("node:"):
            continue
        parts = name.split("/")
        if suffix == ".go":
            yield next(part for part in reversed(parts) if not re.fullmatch(r"v\d+", part))
        else:
            yield "/".join(parts[:2]) if name.startswith("@") else parts[0]


def own_package(top: Path, files: Sequence[str]) -> str:
    """Find the name of the repository's package, without a scope, where its language says it."""
    if "package.json" in files:
        try:
            document = json.loads(source_text(top / "package.json"))
        except (ValueError, RecursionError):
            document = {}
        if isinstance(document, dict) and document.get("name"):
            return str(document["name"]).rpartition("/")[2]
    for file, table in (("pyproject.toml", "project"), ("Cargo.toml", "package")):
        if file in files and (name := _name_in_toml(top / file, table)):
            return name
    if found := re.search(r"^module\s+(\S+)", source_text(top / "go.mod"), re.MULTILINE):
        parts = [part for part in found[1].split("/") if not re.fullmatch(r"v\d+", part)]
        return parts[-1] if parts else ""
    return ""


def _name_in_toml(path: Path, table: str) -> str:
    try:
        inner = tomllib.loads(source_text(path)).get(table)
    except (ValueError, RecursionError):
        return ""
    return str(inner.get("name", "")) if isinstance(inner, dict) else ""


def names_package(row: str, package: str) -> bool:
    """Say whether the name of a benchmark names this package: as a word of it, or inside one if it is long."""
    wanted, words = plain_name(package.removeprefix("@").replace("/", "-")), words_of(row)
    if not wanted:
        return False
    last = plain_name(package.rpartition("/")[2])
    sums = {"".join(words[start:end]) for start in range(len(words)) for end in range(start + 1, len(words) + 1)}
    return bool({wanted, last} & sums) or (len(wanted) >= _LEAST_NAME and wanted in plain_name(row))


def words_of(text: str) -> list[str]:
    """Split the name of a benchmark into words in small letters; `GorillaMux_Param` has three."""
    return [word.lower() for word in _WORD.findall(text)][:30]


def plain_name(name: str) -> str:
    """Return the letters and digits of a name, small."""
    return re.sub(r"[\W_]+", "", name).lower()
