"""What a folder of files looks like to somebody who wants to measure it."""

import pytest

from loopty.features.setup.repository_facts import repository_facts


@pytest.fixture
def facts_of(tmp_path):
    def facts(files: dict[str, str]):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return repository_facts(tmp_path, sorted(files))

    return facts


def test_sources_are_of_the_main_language_without_tests_benchmarks_docs_and_examples(facts_of):
    facts = facts_of(
        dict.fromkeys(
            (
                "pkg/a.py",
                "pkg/b.py",
                "setup.py",
                "pkg/tests/test_a.py",
                "benchmarks/run.py",
                "docs/conf.py",
                "examples/x.py",
                "tool.js",
                "types.d.ts",
            ),
            "",
        )
    )
    assert facts.languages == ("python", "javascript")
    assert facts.sources == ("pkg/a.py", "pkg/b.py")
    assert facts.tests == ("pkg/tests/test_a.py",)
    assert facts.benchmarks == ("benchmarks/run.py",)


def test_headers_belong_to_the_language_of_most_sources_beside_them(facts_of):
    names = ("include/log/a.h", "include/log/b.h", "include/log/c.h", "src/a.cpp", "src/b.cpp", "compat.c")
    facts = facts_of(dict.fromkeys(names, ""))
    assert facts.languages == ("c++", "c")
    assert "src/a.cpp" in facts.sources
    assert "include/log/a.h" in facts.sources
    facts = facts_of({"lib/a.c": "", "lib/b.c": "", "lib/a.h": "", "wrapper.cc": ""})
    assert facts.languages == ("c", "c++")


def test_benchmarks_are_named_as_such_and_those_at_the_top_come_first(facts_of):
    names = ("src/workbench.py", "benches/sort.rs", "sort_bench.go", "bench.sh", "perf/x.js", "lib/benchmark.js")
    assert facts_of({"bench ü.py": ""}).benchmarks == ("bench ü.py",)
    facts = facts_of(dict.fromkeys(names, ""))
    assert facts.benchmarks == ("bench.sh", "sort_bench.go", "perf/x.js", "benches/sort.rs", "lib/benchmark.js")


def test_build_files_are_read(facts_of):
    facts = facts_of(
        {
            "Makefile": "CC := gcc\nall: x\nbench: all\n\t./x\n.PHONY: bench\n",
            "package.json": '{"scripts": {"bench": "node b.js", "test": "echo \\"Error: no test specified\\""}}',
            "Cargo.toml": '[dev-dependencies]\ncriterion = "0.5"\n',
            "a_test.go": "func BenchmarkSort(b *testing.B) {}\n",
            "tests/test_speed.py": "def test_sort(benchmark):\n    benchmark(sorted, [])\n",
            "bench.py": "if __name__ == '__main__':\n    pass\n",
        }
    )
    assert facts.make_targets == {"all", "bench"}
    assert facts.node_scripts == {"bench": "node b.js"}
    assert facts.uses_criterion
    assert facts.go_benchmarks
    assert facts.fixture_benchmarks == ("tests/test_speed.py",)
    assert facts.python_mains == {"bench.py"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"scripts": []}', '{"scripts": {"bench": 3}}'])
def test_a_faulty_package_file_is_no_error(facts_of, text):
    assert facts_of({"package.json": text}).node_scripts == {}


def test_a_helper_of_benchmarks_is_none_and_a_main_is_one_that_runs(facts_of):
    main = "if __name__ == '__main__':\n    pass\n"
    files = {"benchmarks/_harness.py": main, "benchmarks/bench_a.py": main, "benchmarks/b.py": "# __main__\n"}
    facts = facts_of(files)
    assert facts.benchmarks == ("benchmarks/b.py", "benchmarks/bench_a.py")
    assert facts.python_mains == {"benchmarks/bench_a.py"}


def test_a_script_that_makes_the_data_of_a_benchmark_is_neither_one_nor_a_source(facts_of):
    main = "if __name__ == '__main__':\n    pass\n"
    names = (*("generate_schemas.py", "plot-results.py", "download_corpus.sh", "general.py", "bench_prepare.py"),)
    facts = facts_of({"pkg/a.py": "x = 1\n", **{f"benchmarks/{name}": main for name in names}})
    assert facts.benchmarks == ("benchmarks/general.py", "benchmarks/bench_prepare.py")
    assert facts.sources == ("pkg/a.py",)
