"""How the tests of a repository are run, by what its files say."""

import json

import pytest

from loopty.features.setup.causes.modules import BUILD_EXTENSIONS
from loopty.features.setup.proposal_text import nothing_to_measure, other_line
from loopty.features.setup.repository_facts import repository_facts
from loopty.features.setup.repository_tests import repository_tests
from loopty.features.setup.task_proposal import benchmark_proposals, propose_tasks

BUILD = '"$TMPDIR/build"'
TEST = "npm test --silent"


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    """How many compilers run at once depends on the machine."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def facts_of(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return repository_facts(folder, sorted(files))


def package(**scripts):
    return json.dumps({"main": "./lib", "scripts": scripts})


@pytest.mark.parametrize(
    ("files", "gate", "timed"),
    [
        (
            {"configure": "", "a.c": ""},
            "sh ./configure && make -j 4 && make check",
            "sh ./configure && make -j 4 && make check && python3 -m loopty_sdk.cpu_time make check",
        ),
        (
            {"configure.ac": "", "Makefile.am": "", "a.c": ""},
            "autoreconf -fi && ./configure && make -j 4 && make check",
            "autoreconf -fi && ./configure && make -j 4 && make check TESTS= "
            "&& python3 -m loopty_sdk.cpu_time make check",
        ),
        (
            {"Makefile": "all: x\ntest: all\n\t./t\n", "a.c": ""},
            "make test",
            "make test && python3 -m loopty_sdk.cpu_time make test",
        ),
        (
            {"go.mod": "", "a.go": "", "a_test.go": ""},
            "go test -count=1 ./...",
            "go test -count=1 -run '^$' ./... && python3 -m loopty_sdk.cpu_time go test -count=1 ./...",
        ),
        (
            {"Cargo.toml": "", "src/lib.rs": ""},
            "cargo test --quiet",
            "cargo test --quiet --no-run && python3 -m loopty_sdk.cpu_time cargo test --quiet",
        ),
    ],
)
def test_the_build_is_part_of_the_gate_and_not_of_the_time(tmp_path, files, gate, timed):
    tests = repository_tests(facts_of(tmp_path, files))[0]
    assert (tests.gate_line, tests.line_with_timer) == (gate, timed)


def test_cmake_builds_in_a_temporary_folder_with_the_tests_switched_on(tmp_path):
    lists = "option(JSON_BUILD_TESTS x)\noption(DISABLE_TESTS x)\noption(BUILD_DOCS x)\n"
    (tests,) = repository_tests(facts_of(tmp_path, {"CMakeLists.txt": lists, "a.cpp": ""}))
    assert f"-B {BUILD} -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON -DJSON_BUILD_TESTS=ON" in tests.setup
    assert tests.line == f"ctest --no-tests=error --test-dir {BUILD}"
    assert not tests.writable_copy


def test_options_of_cmake_that_depend_on_others_are_read_and_examples_are_switched_off(tmp_path):
    lists = (
        'cmake_dependent_option(YAML_BUILD_TESTS "tests" ON "BUILD_TESTING" OFF)\n'
        'option(BUILD_EXTRAS "extras" ON)\noption(DB_BUILD_BENCHMARKS "" ON)\noption(NO_EXAMPLES "" OFF)\n'
    )
    (tests,) = repository_tests(facts_of(tmp_path, {"CMakeLists.txt": lists, "a.cpp": ""}))
    assert " -DYAML_BUILD_TESTS=ON -DBUILD_EXTRAS=OFF -DDB_BUILD_BENCHMARKS=OFF &&" in tests.setup


def test_a_program_of_cmake_that_is_named_as_a_benchmark_is_tried_after_the_tests(tmp_path):
    lists = (
        'option(HWY_BUILD_BENCH "" OFF)\noption(HWY_DOCS "" ON)\n'
        "add_executable(hwy_benchmark hwy/examples/benchmark.cc)\nadd_test(NAME a COMMAND a)\n"
    )
    proposals = benchmark_proposals(facts_of(tmp_path, {"CMakeLists.txt": lists, "a.cpp": ""}))
    tests, benchmark = proposals
    assert tests.times_the_tests
    assert "-DBUILD_TESTING=OFF -DHWY_BUILD_BENCH=ON -DHWY_DOCS=OFF" in benchmark.command
    assert f"cmake --build {BUILD} -j 4 --target hwy_benchmark && " in benchmark.command
    assert benchmark.command.endswith(f"""'"$(find {BUILD} -type f -name hwy_benchmark | head -n 1)"'""")


def test_what_is_mostly_extensions_is_built_before_its_benchmark(tmp_path):
    files = {
        "setup.py": "setup(ext_modules=[Extension('ijson._yajl2', ['src/a.c'])])",
        "src/a.c": "",
        "src/b.c": "",
        "src/c.c": "",
        "src/ijson/__init__.py": "",
        "src/ijson/benchmark.py": "if __name__ == '__main__':\n    main()\n",
    }
    first, *_ = propose_tasks(facts_of(tmp_path, files))
    assert first.command == f"{BUILD_EXTENSIONS} && python3 src/ijson/benchmark.py"
    assert first.writable_copy


def test_a_benchmark_of_javascript_that_only_defines_its_suite_is_none(tmp_path):
    suite = "var suite = new Benchmark.Suite\nsuite.add('%8d', () => sprintf('%8d', 1))\n"
    files = {
        "package.json": "{}",
        "index.js": "",
        "test.js": "",
        "benchmark/a.js": f"{suite}module.exports = suite\n",
        "benchmark/b.js": f"{suite}suite.run()\nmodule.exports = suite\n",
    }
    facts = facts_of(tmp_path, files)
    assert [one.command for one in benchmark_proposals(facts)] == ["node benchmark/b.js"]
    assert facts.sources == ("index.js",)


def test_tests_that_do_not_build_what_they_need_have_a_second_way(tmp_path):
    files = {"Makefile": "all: x\n$(PLATS) help test clean:\n\tcd src && $(MAKE) $@\n", "src/a.c": ""}
    first, second = repository_tests(facts_of(tmp_path, files))
    assert (first.gate_line, second.gate_line) == ("make test", "make -j 4 && make test")
    assert second.writable_copy


def test_each_target_of_make_that_tests_is_tried(tmp_path):
    files = {"Makefile": "test: a\n\t./a\ncheck: a\n\t./test.sh\n", "a.c": ""}
    lines = [tests.line for tests in repository_tests(facts_of(tmp_path, files))]
    assert lines == ["make test", "make check"] * 2  # without a build, and after one


def test_targets_of_make_that_test_are_known_by_their_names(tmp_path):
    files = {"Makefile": "runtests: a\n\t./a\ntest-data.txt: a\ncontest: a\nunit_test: a\n", "a.py": ""}
    lines = [tests.line for tests in repository_tests(facts_of(tmp_path, files))]
    assert lines == ["make runtests", "make unit_test"]


def test_a_target_of_the_template_is_tried_beside_check(tmp_path):
    files = {"configure": "", "Makefile.in": "all: a\ntest: all\n\t./a\n", "a.c": ""}
    lines = [tests.gate_line for tests in repository_tests(facts_of(tmp_path, files))]
    build = "sh ./configure && make -j 4"
    assert lines == [f"{build} && make check", f"{build} && make test"]


def test_options_of_cmake_in_folders_and_without_a_declaration_are_switched_on(tmp_path):
    files = {
        "CMakeLists.txt": "# option(OLD_TESTS x)\nset(MY_TESTS OFF CACHE BOOL x)\nif (WITH_TEST)\n"
        "  add_subdirectory(tests)\nendif()\nif(TEST_OK)\n  message(x)\nendif()\n",
        "lib/CMakeLists.txt": "option(BUILD_LIB_TESTS x)\n",
        "a.c": "",
    }
    assert facts_of(tmp_path, files).cmake.test_options == ("BUILD_LIB_TESTS", "MY_TESTS", "WITH_TEST")


def test_tests_that_ctest_does_not_know_are_run_by_their_target_or_one_by_one(tmp_path):
    lists = (
        "add_executable(test_a a.cpp)\nadd_executable(${NAME}test b.cpp)\nadd_custom_target(testit COMMAND x)\n"
    )
    target, programs, part = repository_tests(facts_of(tmp_path, {"CMakeLists.txt": lists, "a.cpp": ""}))
    assert target.line == f"cmake --build {BUILD} --target testit"
    assert programs.line == part.line == f'"$(find {BUILD} -type f -name test_a | head -n 1)"'
    assert part.is_part
    assert part.setup == f"{programs.setup} --target test_a"
    known = facts_of(tmp_path, {"CMakeLists.txt": f"{lists}add_test(NAME a COMMAND test_a)\n", "a.cpp": ""})
    assert [tests.line.split()[0] for tests in repository_tests(known)] == ["ctest", "cmake", part.line.split()[0]]


def test_where_most_code_is_built_for_python_the_build_comes_before_its_tests(tmp_path):
    setup = "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('fast', ['src/fast.c'])])\n"
    files = {"setup.py": setup, "src/fast.c": "", "src/more.c": "", "tests/test_fast.py": "import fast\n"}
    tests = repository_tests(facts_of(tmp_path, files))[0]
    assert tests.gate_line.startswith(f"{BUILD_EXTENSIONS} && python3 -m pytest ")
    assert tests.writable_copy
    plain = repository_tests(facts_of(tmp_path, {**files, "setup.py": "setup()\n"}))
    assert plain == []


def test_unittest_starts_in_the_folder_with_the_most_tests_and_one_file_is_near_the_top(tmp_path):
    body = "import unittest\n"
    names = ("demos/tests/testdemos.py", "tests/test_a.py", "tests/out/test_b.py", "tests/out/test_c.py")
    files = {"pkg/a.py": "", **dict.fromkeys(names, body)}
    lines = [tests.line for tests in repository_tests(facts_of(tmp_path, files))]
    assert lines[1].endswith(" tests/test_a.py")
    assert lines[2] == "python3 -m unittest discover -q -s tests -p 'test*.py'"


def test_tests_of_unittest_have_a_second_way(tmp_path):
    files = {"pkg/a.py": "", "tests/__init__.py": "", "tests/test_a.py": "import unittest\n"}
    lines = list(dict.fromkeys(tests.line for tests in repository_tests(facts_of(tmp_path, files))))
    assert [line.split()[2] for line in lines] == ["pytest", "pytest", "unittest"]
    assert lines[2] == "python3 -m unittest discover -q -s tests -t . -p 'test*.py'"


def test_single_files_of_the_tests_are_tried_after_all_of_them(tmp_path):
    files = {"pkg/a.py": "", **{f"tests/test_{name}.py": "" for name in "abc"}, "tests/util.py": ""}
    lines = [tests.line for tests in repository_tests(facts_of(tmp_path, files))]
    names = ["tests", "tests/test_b.py", "tests/test_a.py", "tests/test_c.py"]
    assert [line.split()[-1] for line in lines] == names


def test_a_script_of_npm_is_tried_without_its_linters(tmp_path):
    script = package(test="xo && ava && npm run check:types", unit="ava")
    files = {"package.json": script, "lib/index.js": "", "test.js": ""}
    lines = [tests.line for tests in repository_tests(facts_of(tmp_path, files))]
    assert lines == ["ava", "npm test --silent", "npm run --silent unit"]


def test_a_linter_before_the_tests_and_a_benchmark_among_them_are_left_out(tmp_path):
    script = package(pretest="xo", test="node bench.js && tape t.js")
    facts = facts_of(tmp_path, {"package.json": script, "lib/index.js": "", "t.js": ""})
    assert [tests.line for tests in repository_tests(facts)] == ["tape t.js", "npm test --silent"]


def test_of_many_test_files_some_are_tried_together_before_one_alone(tmp_path):
    files = {"pkg/a.py": "", **{f"tests/test_{number:02}.py": "" for number in range(20)}}
    tests = repository_tests(facts_of(tmp_path, files))
    some = " ".join(f"tests/test_{number:02}.py" for number in range(0, 20, 4))
    assert tests[1].line == f"python3 -m pytest -q -x -p no:cacheprovider {some}"
    assert tests[1].is_part
    assert tests[2].line.endswith(" -p no:cacheprovider tests/test_10.py")


def test_what_a_test_script_compiles_first_is_compiled_for_its_parts_too(tmp_path):
    scripts = {"test": "npm run compile && npm run all-tests", "compile": "tsc", "unit-tests": "node t.js"}
    files = {"package.json": package(**scripts), "lib/index.js": "", "t.js": "", "tsconfig.json": ""}
    last = repository_tests(facts_of(tmp_path, files))[-1]
    assert last.gate_line == "npm run --silent compile && npm run --silent unit-tests"
    assert last.writable_copy


def test_scripts_that_install_something_are_left_out(tmp_path):
    scripts = {
        "test": "npm run lint && npm link && npm run spec",
        "lint": "eslint .",
        "spec": "mocha",
        "bench": "npm i && node lib/index.js",
    }
    facts = facts_of(tmp_path, {"package.json": package(**scripts), "lib/index.js": "", "test/a.js": ""})
    assert [tests.line for tests in repository_tests(facts)] == ["npm run spec"]
    assert propose_tasks(facts)[0].times_the_tests


def test_what_a_package_builds_is_built_where_its_tests_do_not_work_without(tmp_path):
    scripts = {"test": "eslint . && mocha && node t.js", "build": "rollup -c"}
    files = {"package.json": package(**scripts), "lib/index.js": "", "t.js": ""}
    lines = [tests.gate_line for tests in repository_tests(facts_of(tmp_path, files))]
    build = "npm run --silent build && "
    assert lines[:4] == ["mocha && node t.js", f"{build}mocha && node t.js", TEST, f"{build}{TEST}"]
    assert lines[4::2] == ["mocha", "node t.js"]


def test_without_a_package_the_message_says_what_to_write(tmp_path):
    facts = facts_of(tmp_path, {"a.txt": ""})
    assert (propose_tasks(facts), other_line([], ())) == ([], ("", ""))
    assert "`score: 1.5`" in nothing_to_measure(facts)


@pytest.mark.parametrize("text", ["[]", "null", '{"scripts": 3, "exports": 4, "main": []}', "{", "[" * 9999])
def test_a_faulty_package_json_has_neither_scripts_nor_an_entry(tmp_path, text):
    facts = facts_of(tmp_path, {"package.json": text, "x.js": ""})
    assert (dict(facts.node_scripts), facts.node_entry) == ({}, "")


def test_a_script_for_bash_is_run_by_bash(tmp_path):
    facts = facts_of(tmp_path, {"bench.sh": "#!/usr/bin/env bash\n", "a.c": ""})
    assert propose_tasks(facts)[0].command == "bash bench.sh"


def test_a_script_that_only_defines_benchmarks_is_none(tmp_path):
    text = "sys.path.insert(0, '.')\nDATA = list(range(9))\n\ndef encode(benchmark):\n    benchmark(len, DATA)\n"
    assert propose_tasks(facts_of(tmp_path, {"a_benchmarks.py": text})) == []
    (draft,) = propose_tasks(
        facts_of(tmp_path, {"a_benchmarks.py": f"{text}\nfor size in DATA:\n    encode(size)\n"})
    )
    assert draft.command == "python3 a_benchmarks.py"


def test_a_benchmark_that_is_contributed_is_not_proposed(tmp_path):
    files = {
        "a.c": "",
        "contrib/bench.sh": "echo 1\n",
        "bench/run.sh": "",
    }
    assert facts_of(tmp_path, files).benchmarks == ("bench/run.sh",)


def test_headers_that_a_package_of_python_has_as_data_are_not_its_language(tmp_path):
    headers = {f"utils/fake/{name}.h": "" for name in "abc"}
    facts = facts_of(tmp_path, {"pyproject.toml": "", "pkg/__init__.py": "", **headers})
    assert facts.languages == ("python",)
    assert facts_of(tmp_path, {"CMakeLists.txt": "", **headers}).languages == ("c",)


def test_tests_in_one_file_at_the_top_are_run(tmp_path):
    files = {"setup.py": "", "tests.py": "import unittest\n", "ext_tests.py": "", "jsonish.py": ""}
    facts = facts_of(tmp_path, files)
    assert repository_tests(facts)[0].line.endswith(" tests.py")
