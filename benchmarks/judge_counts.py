"""Verdicts by counted instructions and by the clock, on ten libraries, through loopty's command line.

python benchmarks/judge_counts.py [--only NAME] [--busy N] [--table]

Wasted work of 1 % and of 20 % is planted in a function of each library. Hand edits add a comment and take out the
waste. Needs valgrind, gcc, g++, rustc, go, pip and the packages of Debian bookworm.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import repository
from cost import CommandFailed, run_for_output

_RESULTS = Path(__file__).with_name("judge_counts_results.json")
_BIN = Path(sys.executable).parent
_PATH = f"{_BIN}:{os.environ['PATH']}"
_ENV = {**repository.environment(Path.home()), "PATH": _PATH, "PYTHONDONTWRITEBYTECODE": "1"}
_TASK = """\
[benchmark]
command = '''{command}'''
timeout_seconds = 300
measure = "{measure}"
caches = ["build"]

[objective]
direction = "min"

[access]
write = ["{file}"]

[budget]
attempts = 3
"""
_SMALL, _LARGE = 0.01, 0.2


@dataclass(frozen=True)
class Language:
    bench: str
    """The benchmark's file."""
    build: str
    """Makes build/bench; it is not counted."""
    waste: str
    run: str = "build/bench"
    comment: str = "// nothing"


_VOLATILE = "for (volatile long w = 0; w < {n}; w++) {{}}"
_LANGUAGES = {
    "Python": Language("bench.py", "true", "[str(w) for w in range({n})]", "python3 bench.py", "# nothing"),
    "C": Language("bench.c", "gcc -O2 -w -I. -o build/bench bench.c", _VOLATILE),
    "C++": Language("bench.cpp", "g++ -O2 -w -I. -o build/bench bench.cpp", _VOLATILE),
    "Rust": Language(
        "bench.rs",
        "rustc -O --edition 2018 --cap-lints allow --crate-type rlib --crate-name {name} "
        "--cfg 'feature=\"std\"' --out-dir build src/lib.rs "
        "&& rustc -O -o build/bench bench.rs --extern {name}=build/lib{name}.rlib",
        "for w in 0..{n}u32 {{ core::hint::black_box(w); }}",
    ),
    "Go": Language(
        "bench/main.go",
        "GOCACHE=$PWD/build go build -o build/bench ./bench",
        "for w := 0; w < {n}; w++ {{ }}",
        "env GOGC=off GOMAXPROCS=1 build/bench",
    ),
}


@dataclass(frozen=True)
class Library:
    language: str
    package: str
    """With a version it is on PyPI, otherwise in Debian."""
    folder: str
    """Where the sources lie in a package of Debian."""
    file: str
    line: str
    """The waste goes before this line."""
    bench: str

    def command(self, name: str) -> str:
        language = _LANGUAGES[self.language]
        build = language.build.format(name=name)
        return f"mkdir -p build && {build} && python3 -m loopty_sdk.cpu_time {language.run}"


_JSON = r'"{\"id\": " + std::to_string(i) + ", \"name\": \"n\\u00e9\", \"size\": 1.25},"'
_BYTES = "let data: Vec<u8> = (0..1u32 << 20).map(|i| (i * 7 >> 3) as u8).collect();"
_MARKDOWN = r"# Title\n\nSome *text* with `code` and [a](link).\n\n- one\n- two\n\n> quote\n\n"
_LIBRARIES = {
    "tomlkit": Library("Python", "tomlkit==0.13.3", "", "tomlkit/api.py", "    return Parser(string).parse()", r"""
import tomlkit
text = "".join(f'[t{i}]\nname = "n{i}"\nports = [1, 2, {i}]\n' for i in range(40))
for _ in range(5):
    tomlkit.dumps(tomlkit.parse(text))
"""),
    "stb_sprintf": Library("C", "libstb-dev", "usr/include/stb", "stb_sprintf.h", "   static char hex[]", r"""
#define STB_SPRINTF_IMPLEMENTATION
#include "stb_sprintf.h"
#include <stdio.h>
int main(void) { char text[200]; long size = 0;
  for (int i = 0; i < 400000; i++) size += stbsp_snprintf(text, 200, "%d: %s of %.3f, %08x", i, "a", i / 7.0, i);
  return printf("%ld\n", size) < 0; }
"""),
    "mistune": Library("Python", "mistune==3.0.2", "", "mistune/markdown.py", "        if state is None:", f"""
import mistune
for _ in range(3):
    mistune.html("{_MARKDOWN}" * 20)
"""),
    "rapidjson": Library("C++", "rapidjson-dev", "usr/include", "rapidjson/reader.h",
                         "        parseResult_.Clear();", f"""
#include <string>
#include "rapidjson/document.h"
#include "rapidjson/stringbuffer.h"
#include "rapidjson/writer.h"
int main() {{ std::string text = "[";
  for (int i = 0; i < 20000; i++) text += {_JSON};
  text += "0]";
  for (int k = 0; k < 24; k++) {{ rapidjson::Document d; d.Parse(text.c_str()); rapidjson::StringBuffer out;
    rapidjson::Writer<rapidjson::StringBuffer> to(out); d.Accept(to); if (out.GetSize() < 9) return 1; }} }}
"""),
    "adler": Library("Rust", "librust-adler-dev", "usr/share/cargo/registry/*", "src/algo.rs",
                     "        let (bytes, remainder)", f"""
fn main() {{ {_BYTES}
  let mut sum = 0u32; for _ in 0..800 {{ sum ^= adler::adler32_slice(&data); }} println!("{{}}", sum); }}
"""),
    "goldmark": Library("Go", "golang-github-yuin-goldmark-dev", "usr/share/gocode/src/github.com/yuin/goldmark",
                        "markdown.go", "\treader := text.NewReader", f"""
package main
import ("bytes"; "strings"; "github.com/yuin/goldmark")
func main() {{ text := []byte(strings.Repeat("{_MARKDOWN}", 200))
  for i := 0; i < 40; i++ {{
    var out bytes.Buffer; if err := goldmark.Convert(text, &out); err != nil {{ panic(err) }} }} }}
"""),
    "xxhash": Library("C", "libxxhash-dev", "usr/include", "xxhash.h", "    if (input==NULL) XXH_ASSERT", r"""
#define XXH_INLINE_ALL
#include "xxhash.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) { size_t size = 1 << 20; unsigned char *data = malloc(size); unsigned long sum = 0;
  for (size_t i = 0; i < size; i++) data[i] = i * 7 >> 3;
  for (int i = 0; i < 1000; i++) sum ^= XXH64(data, size, i) ^ XXH32(data, size / 8, i);
  return printf("%lu\n", sum) < 0; }
"""),
    "rapidxml": Library("C++", "librapidxml-dev", "usr/include", "rapidxml/rapidxml.hpp",
                        "            // Remove current contents", r"""
#include <string>
#include <vector>
#include "rapidxml/rapidxml.hpp"
int main() { std::string text = "<r>";
  for (int i = 0; i < 20000; i++) text += "<a k=\"" + std::to_string(i) + "\">t &amp; u</a>";
  text += "</r>";
  for (int k = 0; k < 100; k++) { std::vector<char> copy(text.c_str(), text.c_str() + text.size() + 1);
    rapidxml::xml_document<> d; d.parse<0>(copy.data()); if (!d.first_node()) return 1; } }
"""),
    "base64": Library("Rust", "librust-base64-dev", "usr/share/cargo/registry/*", "src/encode.rs",
                      "    encode_config(input, STANDARD)", f"""
fn main() {{ {_BYTES}
  let mut n = 0;
  for _ in 0..40 {{ n += base64::decode(base64::encode(&data)).unwrap().len(); }} println!("{{}}", n); }}
"""),
    "sqlparse": Library("Python", "sqlparse==0.5.0", "", "sqlparse/__init__.py", "    return tuple(parse", """
import sqlparse
for _ in range(5):
    sqlparse.parse("select a, b as c from t join u on t.i = u.i where x in (1, 2, 3) order by 2;" * 4)
"""),
}  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    verdict: str
    trials: int
    seconds: float
    percent: float
    """How much better the node's score is than the one that it was compared with."""
    reason: str = ""


@dataclass(frozen=True)
class Row:
    language: str
    package: str
    loads: tuple[float, float]
    """The load average before and after."""
    baseline: list[float]
    comment: Verdict
    small: Verdict
    large: Verdict
    by_clock: dict[str, float]
    """The confirmation of both edits by fresh pairs."""
    large_by_clock: Verdict


class Project:
    """A repository with the library, the benchmark and the waste."""

    def __init__(self, folder: Path, name: str, measure: str) -> None:
        library = _LIBRARIES[name]
        self._folder, self._file = folder, library.file
        task = _TASK.format(command=library.command(name), measure=measure, file=library.file)
        (folder / "loopty.toml").write_text(task)
        repository.start(folder, _ENV)
        self.loopty("run", "1", "--quiet")

    def loopty(self, *words: str) -> str:
        return run_for_output([str(_BIN / "loopty"), *words], self._folder, _ENV)

    def samples(self) -> list[float]:
        return [one["score"] for one in json.loads(self.loopty("show", "1", "--json"))["samples"]]

    def edit(self, old: str, new: str) -> Verdict:
        """Change the file by hand, and wait for the verdict."""
        draft = json.loads(self.loopty("draft", "new", "--json"))
        file = Path(draft["workspace"], self._file)
        file.write_text(file.read_text().replace(old, new, 1))
        started = time.monotonic()
        self.loopty("run", draft["node"], "--quiet")
        seconds = time.monotonic() - started
        node = json.loads(self.loopty("show", draft["node"], "--json"))
        before = json.loads(self.loopty("show", node["against"], "--json"))["outcome"]["metrics"]["score"]
        percent = 100 * (1 - node["outcome"]["metrics"]["score"] / before)
        return Verdict(node["verdict"], node["trials"], round(seconds, 1), round(percent, 5), node["reason"])


def measure(name: str, top: Path) -> Row:
    """Measure a library in both ways."""
    library, counted, timed = _LIBRARIES[name], top / "counted", top / "timed"
    fetch(library, counted)
    small, large = plant(library, name, counted)
    run_for_output(["cp", "-r", str(counted), str(timed)], top, _ENV)
    load = os.getloadavg()[0]
    project = Project(counted, name, "instructions")
    comment = project.edit(small, f"{_LANGUAGES[library.language].comment}\n{small}")
    one_percent, twenty = project.edit(small, ""), project.edit(large, "")
    project.loopty("report", "--confirm", "--json")
    by_clock = json.loads(project.loopty("status", "--json"))["best"]["over_baseline"]["by_clock"]
    timed_twenty = Project(timed, name, "clock").edit(large, "")
    baseline, loads = project.samples(), (load, os.getloadavg()[0])
    return Row(
        library.language, library.package, loads, baseline, comment, one_percent, twenty, by_clock, timed_twenty
    )


def fetch(library: Library, folder: Path) -> None:
    """Lay the library's sources and the benchmark into the folder."""
    if "==" in library.package:
        words = ["pip", "install", "-q", "--no-deps", "--no-compile", "--target", str(folder), library.package]
        run_for_output(words, folder.parent, _ENV)
    else:
        script = f"mkdir {folder}; apt-get download -qq {library.package}; dpkg-deb -x *.deb unpacked; "
        run_for_output(["sh", "-ec", f"{script} cp -r unpacked/{library.folder}/. {folder}"], folder.parent, _ENV)
    bench = folder / _LANGUAGES[library.language].bench
    bench.parent.mkdir(exist_ok=True)
    bench.write_text(library.bench.lstrip())


def plant(library: Library, name: str, folder: Path) -> tuple[str, str]:
    """Plant the waste, and return its two lines."""
    file, waste = folder / library.file, _LANGUAGES[library.language].waste
    text = file.read_text()
    assert library.line in text
    indent = library.line[: len(library.line) - len(library.line.lstrip())]

    def write(*numbers: int) -> list[str]:
        lines = [f"{indent}{waste.format(n=number)}\n" for number in numbers]
        file.write_text(text.replace(library.line, "".join(lines) + library.line, 1))
        return lines

    def count() -> int:
        with tempfile.TemporaryDirectory(dir=folder.parent) as logs:
            env = {**_ENV, "LOOPTY_COUNT": f"{logs}/%p", "PYTHONHASHSEED": "0"}
            run_for_output(["timeout", "60", "sh", "-ec", library.command(name)], folder, env)
            counts = [re.findall(r"I\s+refs:\s+([\d,]+)", log.read_text()) for log in Path(logs).iterdir()]
        return sum(int(one.replace(",", "")) for found in counts for one in found)

    plain = count()
    for number in (100, 3_000, 30_000, 300_000):
        write(number)
        if (added := count() - plain) > 0.02 * plain:
            break
    per_cent = plain / (1 - _SMALL - _LARGE) / 100 / (added / number)
    small, large = write(round(100 * _SMALL * per_cent), round(100 * _LARGE * per_cent))
    run_for_output(["rm", "-rf", "build"], folder, _ENV)
    return small, large


def table(rows: dict[str, dict[str, Any]]) -> None:
    """Print the results as rows of a table."""
    for name, row in rows.items():
        if "fault" in row:
            print(f"| {name} | {row['language']} | {row['fault']} |")
            continue
        counts, small, large, clock = row["baseline"], row["small"], row["large"], row["large_by_clock"]
        spread = max(100 * (max(counts) / min(counts) - 1), abs(row["comment"]["percent"]))
        confirmed = row["by_clock"]
        low, high = (confirmed[end] * confirmed["percent"] / confirmed["amount"] for end in ("low", "high"))
        shown = [
            f"{one['verdict']}, {one['percent']:.1f} %, runs: {one['trials']}, {one['seconds']:.0f} s"
            for one in (small, large, clock)
        ]
        shown.append(f"{confirmed['percent']:.0f} % ({low:.0f} to {high:.0f} %)")
        print("|", " | ".join([name, row["language"], f"{spread:.4f} %", *shown]), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=list(_LIBRARIES))
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="programs that keep cores busy meanwhile")
    parser.add_argument("--table", action="store_true", help="print the results as a table, and measure nothing")
    options = parser.parse_args()
    known = json.loads(_RESULTS.read_text()) if _RESULTS.exists() else {}
    if options.table:
        table(known)
        return
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    for name in options.only or _LIBRARIES:
        with tempfile.TemporaryDirectory(prefix="counts") as top:
            try:
                known[name] = asdict(measure(name, Path(top)))
            except (CommandFailed, AssertionError) as fault:
                known[name] = {"language": _LIBRARIES[name].language, "fault": str(fault)}
        print(name, json.dumps(known[name]), flush=True)
        _RESULTS.write_text(json.dumps(known, indent=1) + "\n")
    for burner in burners:
        burner.kill()


if __name__ == "__main__":
    main()
