"""The benchmarks that a repository has: scripts, suites of tools, and what a shorter time measures."""

import json

import pytest

from loopty.features.setup.benchmark_sources import names_package
from loopty.features.setup.found_benchmarks import benchmark_proposals, benchmark_scripts
from loopty.features.setup.prover import DraftQueue
from loopty.features.setup.task_proposal import propose_tasks

from .test_task_proposal import facts_of

VITEST = "import { bench, describe } from 'vitest'\nbench('a', () => {})\n"


def commands(tmp_path, files):
    return [(one.command, one.result) for one in benchmark_proposals(facts_of(tmp_path, files))]


def package(**scripts):
    return json.dumps({"name": "own", "scripts": scripts})


def test_scripts_are_known_by_their_names_and_those_that_run_here_come_first():
    names = ("bench:web", "bench:sort", "bench:node", "benchmark", "perf:build", "test", "bench:compare")
    assert benchmark_scripts(dict.fromkeys(names, "x")) == ["benchmark", "bench:node", "bench:sort"]


@pytest.mark.parametrize(
    ("files", "command", "result"),
    [
        ({"package.json": package(**{"bench:node": "node b"}), "b.js": ""}, "npm run --silent bench:node", "file"),
        ({"package.json": package(perf="node b"), "b.js": ""}, "npm run --silent perf", "file"),
        (
            {"package.json": package(bench="vitest bench"), "a.js": ""},
            "npm run --silent bench -- --run --outputJson $EVO_RESULT_PATH",
            "vitest",
        ),
        (
            {"package.json": package(test="vitest"), "bench/a.bench.ts": VITEST},
            "npx --no vitest bench --run --outputJson $EVO_RESULT_PATH",
            "vitest",
        ),
        (
            {"package.json": package(), "i.js": "", "benchmark/package.json": package(bench="node run.mjs")},
            "cd benchmark && npm run --silent bench",
            "file",
        ),
        (
            {"pkg/a.py": "", "asv/asv.conf.json": "{}", "asv/benchmarks/__init__.py": ""},
            "git init -q . && git -c user.name=loopty -c user.email=loopty@invalid commit -q --allow-empty "
            "-m trial && cd asv && asv machine --yes >&2 && asv run --show-stderr --python=same --dry-run",
            "asv",
        ),
        (
            {"Cargo.toml": "", "src/lib.rs": "#[bench]\n", "crates/a/benches/b.rs": "#[bench]"},
            "RUSTC_BOOTSTRAP=1 cargo bench",
            "libtest",
        ),
        (
            {
                "CMakeLists.txt": "project(a)\nadd_executable(my_bench b_bench.cc)\n",
                "a.cc": "",
                "bench/b_bench.cc": "#include <benchmark/benchmark.h>",
            },
            None,
            "google-benchmark",
        ),
    ],
)
def test_the_suite_of_a_tool_is_run_as_its_result_is_read(tmp_path, files, command, result):
    first = commands(tmp_path, files)[0]
    assert first[1] == result
    assert command is None or first[0] == command


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"go.mod": "", "a.go": "", "a_test.go": "func BenchmarkA("}, "-bench . -benchtime 50ms ./..."),
        ({"pkg/a.py": "", "test_a.py": "def test_s(benchmark): pass\n"}, "--benchmark-max-time=0.1"),
        ({"Cargo.toml": "criterion", "src/lib.rs": "", "benches/b.rs": ""}, "--measurement-time 1"),
    ],
)
def test_a_suite_that_takes_minutes_is_measured_for_a_shorter_time(tmp_path, files, words):
    drafts = propose_tasks(facts_of(tmp_path, files))
    assert words in drafts[1].command
    assert [draft.is_shorter for draft in drafts[:2]] == [False, True]


class Failed:
    def __init__(self, draft, is_out_of_time):
        self.draft, self.is_out_of_time = draft, is_out_of_time


@pytest.mark.parametrize("is_out_of_time", [True, False])
def test_the_shorter_time_is_tried_only_if_the_whole_took_too_long(tmp_path, is_out_of_time):
    files = {"go.mod": "", "a.go": "", "a_test.go": "func BenchmarkA(", "bench.sh": ""}
    queue = DraftQueue(propose_tasks(facts_of(tmp_path, files)))
    failed = Failed(queue.next(None), is_out_of_time)
    assert queue.next(failed).is_shorter == is_out_of_time


def test_settings_of_tools_and_helpers_of_benchmarks_are_no_sources(tmp_path):
    files = {
        "index.js": "",
        "eslint.config.js": "",
        "Gruntfile.js": "",
        "bench/_helper.js": "",
        "bench/a.js": "run()",
    }
    assert facts_of(tmp_path, files).sources == ("index.js",)


def test_the_packages_of_others_are_those_that_the_benchmarks_use(tmp_path):
    files = {
        "package.json": package(bench="node bench/a.mjs"),
        "index.js": "",
        "bench/a.mjs": "import { Bench } from 'tinybench'\nimport lodash from 'lodash'\nimport o from '../i.js'\n",
        "bench/b.cjs": "const fs = require('node:fs'); const x = require('@scope/rival')\n",
    }
    draft = propose_tasks(facts_of(tmp_path, files))[0]
    assert (draft.package, set(draft.rivals)) == ("own", {"lodash", "@scope/rival"})


@pytest.mark.parametrize(
    ("row", "name", "expected"),
    [
        ("fast-uri: parse", "fast-uri", True),
        ("urijs: parse", "uri-js", True),
        ("BenchmarkGorillaMux_Param", "mux", True),
        ("test_loads[orjson]", "orjson", True),
        ("minify", "ini", False),
        ("ini.parse", "ini", True),
        ("x", "", False),
    ],
)
def test_a_row_names_a_package_by_its_words(row, name, expected):
    assert names_package(row, name) is expected


def test_a_benchmark_of_a_fixed_time_is_known_by_its_loop(tmp_path):
    loop = "while time.perf_counter() < end:\n    f(); count += 1\nprint(count)\nmain()\n"
    draft = propose_tasks(facts_of(tmp_path, {"pkg/a.py": "", "bench.py": loop}))[0]
    assert draft.has_fixed_time


def test_a_benchmark_of_what_is_built_is_tried_after_the_build_too(tmp_path):
    files = {"package.json": '{"scripts": {"build": "tsc", "bench": "node b.js"}}', "a.ts": "", "b.js": ""}
    lines = [found.command for found in benchmark_proposals(facts_of(tmp_path, files))]
    assert lines[:2] == ["npm run --silent bench", "npm run --silent build && npm run --silent bench"]
