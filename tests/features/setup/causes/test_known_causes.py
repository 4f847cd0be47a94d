"""Each known cause is recognised in what real programs print, and has the line to paste.

Run as a script, it prints `docs/failures.md`.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pytest

from loopty.evaluators.error_lines import find_error_lines
from loopty.features.setup.causes.builds import NO_TEST_RAN
from loopty.features.setup.causes.failure import Failure, Submodule
from loopty.features.setup.causes.known_causes import explain_failure
from loopty.features.setup.causes.modules import BUILD_EXTENSIONS
from loopty.kit.records import replace
from loopty.show.explanation import Cause, Reach
from loopty.taskfile.read import parse


@dataclass
class Facts:
    """A machine and a working tree as a test wants them."""

    programs: dict[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    tracked: tuple[str, ...] = ()
    environments: dict[str, str] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    submodules: dict[str, bool] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    built: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    memory: int = 64_000
    gpu: bool = False

    def memory_mb(self):
        return self.memory

    def has_gpu(self):
        return self.gpu

    def program(self, name):
        return self.programs.get(name)

    def is_shown(self, path):
        return path.startswith("/usr")

    def has_path(self, path):
        return path in self.paths

    def is_executable(self, path):
        return path not in self.paths

    def outermost_ignored(self, path):
        return next((name for name in self.ignored if path == name or path.startswith(f"{name}/")), None)

    def has_tracked_files(self, folder):
        return folder in self.tracked

    def is_environment(self, folder):
        return folder == "node_modules"

    def environment_with(self, module):
        return self.environments.get(module)

    def source_root(self, module):
        return self.roots.get(module)

    def is_node_dependency(self, name):
        return name in self.dependencies

    def builds_module(self, name):
        return name in self.built

    def build_requirements(self):
        return self.requirements

    def submodule(self, path):
        return next((Submodule(name, out) for name, out in self.submodules.items() if path.startswith(name)), None)

    def system_package(self, *names):
        return next((name for name in names if name in self.packages), None)

    def library(self, name):
        return self.libraries.get(name)


def task(command="bench", more=""):
    text = f"[benchmark]\ncommand = {json.dumps(command)}\ntimeout_seconds = 20\n"
    return parse(f"{text}{more}\n[access]\nwrite = ['a']\n[[gates]]\nname = 'tests'\ncommand = 'pytest'\n")


def explain(
    output: str, facts: Facts | None = None, reason: str = "", more: str = "", command: str = "bench"
) -> Cause | None:
    """The cause of a failure with this output, or with this reason."""
    found = find_error_lines(output)
    lines, cause = (found.lines, found.cause) if found else ((), "")
    failure = Failure(reason or f"exit code 1: {cause}", lines, task(command, more), output)
    return explain_failure(failure, facts or Facts())


APT = Facts({"apt-get": "/usr/bin/apt-get"})
NODE_MODULES = Facts(paths=("node_modules/left", "node_modules"), ignored=("node_modules",))
NOT_WRITTEN = "the result file was not written, and neither was the metrics CSV ($EVO_RESULT_PATH, …)"

KNOWN = [
    # a variable of the contract that is called otherwise
    (
        '  File "/loopty/tree/bench.py", line 4, in <module>\n'
        '    json.dump(score, open(os.environ["LOOPTY_RESULT"], "w"))\n'
        "KeyError: 'LOOPTY_RESULT'",
        Facts(),
        "write the result to the file $EVO_RESULT_PATH",
    ),
    ("sh: 1: EVO_RESULT: parameter not set", Facts(), "write the result to the file $EVO_RESULT_PATH"),
    ("bash: LOOPTY_RESULT: unbound variable", Facts(), "write the result to the file $EVO_RESULT_PATH"),
    # the file of parameters, read as if its name were its content
    (
        '  File "/loopty/tree/bench.py", line 2, in <module>\n'
        '    p = json.loads(os.environ["LOOPTY_PARAMS"])\n'
        '  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n'
        '    raise JSONDecodeError("Expecting value", s, err.value) from None\n'
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        Facts(),
        'read the file: json.load(open(os.environ["LOOPTY_PARAMS"]))',
    ),
    (
        "/loopty/tree/bench.js:1\n"
        "const p = JSON.parse(process.env.LOOPTY_PARAMS)\n"
        "               ^\n\n"
        "SyntaxError: Unexpected token '/', \"/loopty/pa\"... is not valid JSON\n"
        "    at JSON.parse (<anonymous>)",
        Facts(),
        'JSON.parse(fs.readFileSync(process.env.LOOPTY_PARAMS, "utf8"))',
    ),
    # program outside the sandbox
    (
        "/bin/sh: 1: autoreconf: not found",
        Facts({"apt-get": "/usr/bin/apt-get", "sudo": "/usr/bin/sudo"}),
        "run: sudo apt-get install -y autoconf automake libtool",
    ),
    (
        "psycopg.OperationalError: connection failed: port 5432 failed: Connection refused",
        Facts(),
        "start the server in the command",
    ),
    ("/bin/sh: 1: ninja: not found", Facts({"pacman": "/usr/bin/pacman"}), "run: pacman -S --noconfirm ninja"),
    ("configure: error: expat not found", Facts({"zypper": "/usr/bin/zypper"}), "zypper install -y expat-devel"),
    (
        "/tmp/tree/missing: line 81: aclocal-1.16: command not found",
        Facts({"dnf": "/usr/bin/dnf"}),
        "run: dnf install -y autoconf automake libtool",
    ),
    (
        "/bin/sh: 1: cargo: not found",
        Facts({"cargo": "/home/u/.cargo/bin/cargo"}, ("/home/u/.cargo/bin", "/home/u/.rustup")),
        'mounts = ["/home/u/.cargo/bin", "/home/u/.rustup"]',
    ),
    ("make: cargox: No such file or directory\nmake: *** [Makefile:5: miss] Error 127", Facts(), "install cargox"),
    (
        "bash: line 1: node: command not found",
        Facts({"node": "/home/u/.nvm/versions/node/v22.1.0/bin/node"}),
        'mounts = ["/home/u/.nvm/versions/node/v22.1.0"]',
    ),
    (
        "/bin/sh: 1: uv: not found",
        Facts({"uv": "/home/u/.local/bin/uv"}),
        'command = "export PATH=/home/u/.local/bin:$PATH; bench"',
    ),
    ("env: ‘conda’: No such file or directory", Facts({"conda": "/home/u/miniconda3/bin/conda"}), "miniconda3"),
    (
        "/bin/sh: 1: go: not found",
        Facts({"go": "/home/u/sdk/go1.22/bin/go"}),
        'mounts = ["/home/u/sdk/go1.22"]',
    ),
    (
        "Traceback (most recent call last):\n  File x\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'poetry'",
        Facts({"poetry": "/home/u/.local/bin/poetry"}),
        "/home/u/.local/bin",
    ),
    (
        "      throw er; // Unhandled 'error' event\n      ^\nError: spawn yarn ENOENT\n    at onErrorNT",
        Facts({"npm": "/usr/bin/npm"}, paths=("package.json",)),
        "run: npm install -g yarn",
    ),
    (
        "/bin/sh: 1: vitest: not found",
        Facts({"vitest": "node_modules/.bin/vitest"}, ignored=("node_modules",)),
        'mounts = ["node_modules"]',
    ),
    (
        "/bin/sh: 1: ruff: not found",
        Facts({"ruff": ".venv/bin/ruff"}, ignored=(".venv",)),
        'command = "export PATH=\\"$PWD/.venv/bin:$PATH\\"; bench"',
    ),
    # modules
    (
        "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'numpy'",
        Facts(environments={"numpy": ".venv"}),
        'mounts = [".venv"]',
    ),
    ("E   ModuleNotFoundError: No module named 'pkg'", Facts(roots={"pkg": "src"}), "$PWD/src:$PYTHONPATH"),
    ("ModuleNotFoundError: No module named 'yaml'", Facts(), "python3 -m pip install pyyaml"),
    (
        "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'ujson'",
        Facts(built=("ujson",)),
        "python3 setup.py -q build_ext --inplace && bench",
    ),
    (
        "ImportError: cannot import name '_speedups' from 'pkg' (/loopty/tree/pkg/__init__.py)",
        Facts(built=("pkg._speedups",)),
        "writable_copy = true",
    ),
    (
        "ModuleNotFoundError: No module named 'shinka'",
        Facts(),
        "install the package that provides the module shinka, with `python3 -m pip install PACKAGE`",
    ),
    # toolchains
    (
        "error: rustup could not choose a version of cargo to run, because one wasn't specified explicitly, and "
        "no default is configured.\nhelp: run 'rustup default stable' to download the latest stable release of "
        "Rust and set it as your default toolchain.",
        Facts(),
        "run: rustup default stable",
    ),
    # devices
    (
        '  File "/usr/lib/python3/dist-packages/torch/cuda/__init__.py", line 319, in _lazy_init\n'
        "    torch._C._cuda_init()\nRuntimeError: No CUDA GPUs are available",
        Facts(gpu=True),
        'devices = ["gpu"]',
    ),
    # libraries of builds
    (
        "CMake Error at /usr/share/cmake-3.25/Modules/FindPackageHandleStandardArgs.cmake:230 (message):\n"
        "  Could NOT find GTest (missing: GTEST_LIBRARY GTEST_INCLUDE_DIR)",
        APT,
        "run: apt-get install -y libgtest-dev libgmock-dev",
    ),
    ("t.cpp:1:10: fatal error: boost/any.hpp: No such file or directory", APT, "install -y libboost-all-dev"),
    ("configure: error: Package requirements (zlib) were not met:\n\nNo package 'zlib' found", APT, "zlib1g-dev"),
    (
        "configure: error: Package requirements (protobuf >= 2.6.0) were not met:\n\n"
        "Package 'protobuf', required by 'virtual:world', not found",
        APT,
        "run: apt-get install -y libprotobuf-dev libprotoc-dev protobuf-compiler",
    ),
    ("  Could NOT find CURL (missing: CURL_LIBRARY CURL_INCLUDE_DIR)", APT, "install -y libcurl4-openssl-dev"),
    (
        "configure: error: cannot find required MD5 functions in libc or libmd",
        Facts({"apt-get": "/usr/bin/apt-get"}, packages=("libmd-dev",)),
        "run: apt-get install -y libmd-dev",
    ),
    (
        "t.c:1:10: fatal error: ev.h: No such file or directory",
        Facts({"apt-get": "/usr/bin/apt-get"}, packages=("libev-dev",)),
        "run: apt-get install -y libev-dev",
    ),
    ("t.c:1:10: fatal error: check.h: No such file or directory", Facts(), "install the package of your system"),
    ("/usr/bin/python3: No module named pytest", Facts(), "python3 -m pip install pytest"),
    ("Error: Cannot find module 'left'\nRequire stack:\n- /loopty/tree/b.js", NODE_MODULES, "node_modules"),
    (
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'left' imported from /loopty/tree/n.mjs",
        Facts(paths=("package.json", "package-lock.json"), dependencies=("left",)),
        "npm ci",
    ),
    (
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'tsx' imported from /loopty/tree/",
        Facts(paths=("package.json",)),
        "npm install --no-save tsx",
    ),
    (
        "/bin/sh: 1: node_modules/.bin/lsc: not found\nmake: *** [Makefile:17: lib/cast.js] Error 127",
        Facts(),
        "run: npm install --no-save livescript",
    ),
    # paths
    (
        "Traceback (most recent call last):\n  File x\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.csv'",
        Facts(paths=("data/x.csv",), ignored=("data",)),
        'mounts = ["data"]',
    ),
    ("cat: data/x.csv: No such file or directory", Facts(paths=("data/x.csv",), ignored=("data",)), '["data"]'),
    (
        "Error: ENOENT: no such file or directory, open '/loopty/tree/data/x.csv'",
        Facts(paths=("data/x.csv",), ignored=("data",)),
        'mounts = ["data"]',
    ),
    (
        "FileNotFoundError: [Errno 2] No such file or directory: 'tests/.env'",
        Facts(paths=("tests/.env",)),
        'under [access]: read = ["**", "tests/.env"]',
    ),
    ("cat: /srv/set/x: No such file or directory", Facts(paths=("/srv/set/x",)), 'mounts = ["/srv/set/x"]'),
    (
        "cat: vendor/v/x.c: No such file or directory",
        Facts(submodules={"vendor/v": False}),
        "git submodule update",
    ),
    (
        "b.c:1:10: fatal error: v/x.h: No such file or directory",
        Facts(submodules={"v": True}),
        'mounts = ["v"]',
    ),
    ("mkdir: cannot create directory ‘build’: Read-only file system", Facts(), 'scratch = ["build"]'),
    ("OSError: [Errno 30] Read-only file system: '/loopty/tree/out/a'", Facts(), 'scratch = ["out"]'),
    ("Error: ENOENT: no such file or directory, mkdir 'dist/x'", Facts(), 'scratch = ["dist"]'),
    (
        "Error: EROFS: read-only file system, mkdir '/loopty/tree/node_modules/.cache'",
        Facts(),
        "writable_copy = true",
    ),
    ("[Error: EROFS: read-only file system, rmdir 'build'] {\n  errno: -30,", Facts(), "writable_copy = true"),
    (
        "error: failed to create directory `/loopty/tree/target/debug`\n\nCaused by:\n"
        "  Read-only file system (os error 30)",
        Facts(),
        'scratch = ["target"]',
    ),
    (
        "error: failed to write /loopty/tree/Cargo.lock\n\nCaused by:\n  failed to open: /loopty/tree/Cargo.lock\n"
        "\nCaused by:\n  Read-only file system (os error 30)",
        Facts(),
        "writable_copy = true",
    ),
    (
        "Assembler messages:\nFatal error: can't create m.o: Read-only file system\nmake: *** [all] Error 1",
        Facts(),
        "writable_copy = true",
    ),
    (
        "/usr/bin/ld: cannot open output file bench: Read-only file system\n"
        "collect2: error: ld returned 1 exit status\nmake: *** [Makefile:2: bench] Error 1",
        Facts(),
        "writable_copy = true",
    ),
    ("/bin/sh: 1: cannot create out/log: Read-only file system", Facts(), 'scratch = ["out"]'),
    ("CMake Error: : System Error: Read-only file system", Facts(), "writable_copy = true"),
    ("Fatal error: can't create src/m.o: Read-only file system", Facts(tracked=("src",)), "writable_copy = true"),
    ("PermissionError: [Errno 13] Permission denied: '/loopty/tree/out/x'", Facts(), 'scratch = ["out"]'),
    ("/bin/sh: 1: ./b.sh: Permission denied", Facts(paths=("b.sh",)), "chmod +x b.sh"),
    # compilers
    # sandbox and limits
    (
        "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
        Facts(),
        "network = true",
    ),
    (
        "TypeError: fetch failed\n    at node:internal\n  [cause]: Error: getaddrinfo EAI_AGAIN example.org",
        Facts(),
        "network = true",
    ),
    ("error: no matching package named `serde` found\nlocation searched: crates.io index", Facts(), "network"),
    ("curl: (6) Could not resolve host: example.org", Facts(), "network = true"),
    (
        "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp']",
        Facts(),
        "TMPDIR",
    ),
    (
        "OSError: libGL.so.1: cannot open shared object file: No such file or directory",
        Facts(libraries={"libGL.so.1": "/home/u/lib"}),
        'mounts = ["/home/u/lib"]',
    ),
    (
        "./bench: error while loading shared libraries: libfoo.so.2: cannot open shared object file: No such file",
        Facts(),
        "install the package of your system that has libfoo.so.2",
    ),
    ("RuntimeError: can't start new thread", Facts(), "processes = 1024"),
    ("File size limit exceeded", Facts(), "disk_mb = 4096"),
    ("terminate called after throwing an instance of 'std::bad_alloc'", Facts(), "memory_mb = 8192"),
    ("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", Facts(), "memory_mb"),
    ("LookupError: setuptools-scm was unable to detect version for /loopty/tree.", Facts(), "PRETEND_VERSION"),
    ("fatal: not a git repository (or any parent up to mount point /loopty)", Facts(), "another way"),
]


PYTEST_STOPS = "python3 -m pytest -q -x -p no:cacheprovider tests"
PYTEST_GOES_ON = "python3 -m pytest -q --continue-on-collection-errors -rpfE -p no:cacheprovider tests"
SUMMARY = (
    "E           OSError: protocol not found\n"
    "=========================== short test summary info ============================\n"
    "FAILED tests/test_rdata.py::RdataTestCase::test_wks - OSError: protocol not found\n"
    "FAILED tests/test_rdata.py::test_names[a b] - assert 1 == 2\n"
    "ERROR tests/test_doh.py - ModuleNotFoundError: No module named 'httpx'\n"
    "2 failed, 1300 passed, 1 error in 20.71s"
)

CTEST = "python3 -m loopty_sdk.cpu_time 'ctest --no-tests=error --test-dir \"$TMPDIR/build\"'"
CTEST_FAILS = (
    "67% tests passed, 2 tests failed out of 6\n\nTotal Test time (real) =   0.31 sec\n\n"
    "The following tests FAILED:\n\t  2 - net.v6 (Failed)\n\t  5 - bad (SEGFAULT)\nErrors while running CTest"
)


MOCHA_FAILS = """
  1) alone
  Parser (new)
    #parse()
      ✓ reads "x" & y
      2) writes $HOME

  3 passing (99ms)
  2 failing

  1) alone:
     AssertionError [ERR_ASSERTION]: The expression evaluated to a falsy value:

  assert(0)

      at Context.<anonymous> (test/a.js:3:16)

  2) Parser (new)
       #parse()
         writes $HOME:

      AssertionError [ERR_ASSERTION]: 1 == 2
      + expected - actual

      -1
      +2
"""

JEST_FAILS = """
PASS src/index.spec.ts (21.596 s)
FAIL src/FeedHandler.spec.ts (12.74 s)
  ● Feeds › RDF "test"

    expect(received).toMatchSnapshot()

    > 113 |                 expect(actual).toMatchSnapshot();

 › 1 snapshot failed.

Test Suites: 1 failed, 5 passed, 6 total
Tests:       1 failed, 2 skipped, 82 passed, 83 total
Snapshots:   1 failed, 19 passed, 20 total
"""
OF_COMMANDS = [
    (PYTEST_STOPS, "FAILED tests/test_a.py::test_b - OSError: x\n1 failed in 0.1s", Facts(), PYTEST_GOES_ON),
    (
        PYTEST_GOES_ON,
        SUMMARY,
        Facts(),
        "python3 -m pytest -q -x --ignore=tests/test_doh.py "
        "--deselect=tests/test_rdata.py::RdataTestCase::test_wks "
        "'--deselect=tests/test_rdata.py::test_names[a b]' -p no:cacheprovider tests",
    ),
    (
        PYTEST_STOPS,
        "ERROR: usage: pytest\n__main__.py: error: unrecognized arguments: --cov=pkg --cov-report=term",
        Facts(),
        PYTEST_STOPS.replace("pytest", "pytest -o addopts="),
    ),
    (
        PYTEST_STOPS,
        "42 passed in 3.10s\nERROR: Coverage failure: total of 97 is less than fail-under=100",
        Facts(),
        PYTEST_STOPS.replace("pytest", "pytest --no-cov"),
    ),
    (CTEST, CTEST_FAILS, Facts(), CTEST.replace("error", 'error -E "^(net[.]v6|bad)$"')),
    (
        CTEST.replace("error", 'error -E "^(old)$"'),
        CTEST_FAILS,
        Facts(),
        CTEST.replace("error", 'error -E "^(old|net[.]v6|bad)$"'),
    ),
    (
        "cargo test --quiet --no-run && cargo test --quiet",
        "running 4 tests\n..F.\nfailures:\n\n---- net::opens stdout ----\nthread 'net::opens' panicked at a.rs:\n"
        "\n\nfailures:\n    net::opens\n\ntest result: FAILED. 3 passed; 1 failed; 0 ignored; finished in 0.01s",
        Facts(),
        "cargo test --quiet --no-run && cargo test --quiet -- --skip net::opens",
    ),
    (
        "python3 -m loopty_sdk.cpu_time npm test --silent",
        MOCHA_FAILS,
        Facts(),
        "python3 -m loopty_sdk.cpu_time npm test --silent -- "
        '--invert --grep "^(alone|Parser .new. .parse.. writes .HOME)$"',
    ),
    (
        "python3 -m loopty_sdk.cpu_time 'nyc mocha && node a.js && mocha --invert --grep \"^(old)$\"'",
        MOCHA_FAILS,
        Facts(),
        "python3 -m loopty_sdk.cpu_time 'nyc mocha && node a.js && mocha "
        '--invert --grep "^(old|alone|Parser .new. .parse.. writes .HOME)$"\'',
    ),
    (
        "python3 -m loopty_sdk.cpu_time npm run test:jest",
        JEST_FAILS,
        Facts(),
        'python3 -m loopty_sdk.cpu_time npm run test:jest -- --testNamePattern "^(?!(Feeds RDF .test.)$)"',
    ),
    (
        'jest --testNamePattern "^(?!(old)$)"',
        JEST_FAILS,
        Facts(),
        'jest --testNamePattern "^(?!(old|Feeds RDF .test.)$)"',
    ),
    (
        "sh ./configure.sh && make -j 4 && make test",
        "cc -L. -g -o heads heads.o -lmarkdown\n/usr/bin/ld: cannot find -lmarkdown: No such file or directory\n"
        "collect2: error: ld returned 1 exit status\nmake: *** [Makefile:143: heads] Error 1\n"
        "make: *** Waiting for unfinished jobs....",
        APT,
        "sh ./configure.sh && make && make test",
    ),
    (
        "bash tests/bloom_perf.sh",
        "cc1: fatal error: bloom_perf.c: No such file or directory\ncompilation terminated.\n"
        "tests/bloom_perf.sh: line 15: ./bloom_perf.none: No such file or directory",
        Facts(paths=("tests/bloom_perf.c",)),
        "cd tests && bash bloom_perf.sh",
    ),
    (
        "python3 -m loopty_sdk.cpu_time python3 bench/a/run.py --fast",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/in.json'",
        Facts(paths=("bench/a/data/in.json",)),
        "cd bench/a && python3 -m loopty_sdk.cpu_time python3 run.py --fast",
    ),
]
"""Failures whose remedy depends on the command: it becomes another one."""


WITHOUT_AN_ERROR = [
    ("still running after 20 s", "", "timeout_seconds = 200"),
    ("gate tests: still running after 60 s", "", "under the gate tests: timeout_seconds = 600"),
    ("used more than 2048 MB of memory", "", "memory_mb = 8192"),
    ("exit code 137: Killed", "", "memory_mb = 8192"),
    ("printed more than 64 MB", "", "output_mb = 256"),
    ("wrote more than 1024 MB to disk", "", "disk_mb = 4096"),
    (NOT_WRITTEN, "warm\nscore: 0.93", 'result = "stdout"'),
    (NOT_WRITTEN, '{"score": 1.5}', 'result = "stdout"'),
    (NOT_WRITTEN, '{"time": 1.5}', 'score_key = "time"'),
    (NOT_WRITTEN, "0.25", 'result = "stdout"'),
    (
        NOT_WRITTEN,
        "  OPS: Operations Per Second, computed as 1 / Mean\n2 passed in 3.1s",
        '"pytest-benchmark"',
    ),
    (NOT_WRITTEN, "BenchmarkSort-8   \t  253924\t      4531 ns/op\nPASS\nok  x 1.9s", '"go-bench"'),
    (NOT_WRITTEN, "sort     time:   [1.21 us 1.23 us 1.25 us]", '"criterion"'),
    (NOT_WRITTEN, ".....\n(impl = c) istr->istr: Mean +- std dev: 186 ns +- 64 ns", '"pyperf"'),
    (NOT_WRITTEN, "BM_Sort/64         512 ns          511 ns      1369021", '"google-benchmark"'),
    (
        NOT_WRITTEN,
        "Current x 2,863,809 ops/sec ±8.90% (50 runs sampled)\nFastest is Current",
        '"benchmark-js"',
    ),
    (NOT_WRITTEN, "test sort ... bench:       1,234 ns/iter (+/- 12)", '"libtest"'),
    (NOT_WRITTEN, "12 passed in 0.52s", "$EVO_RESULT_PATH"),
    (NOT_WRITTEN, "Took 0.433s to parse 22.7KB: 53KB/s.", '"units"'),
    (
        'the result file has no score: name one of its numbers under [benchmark], as in score_key = "ms" '
        "(it has ms, mb)",
        "",
        'under [benchmark]: score_key = "ms"',
    ),
    (NOT_WRITTEN, "done", "$EVO_RESULT_PATH"),
    (NOT_WRITTEN, "epoch 3\nloss = nan", "find out where it comes from"),
    (NOT_WRITTEN, '{"score": -Infinity}', "find out where it comes from"),
    ("the result file is not valid JSON (NaN is not a finite number)", "", "find out where it comes from"),
    ("stdout has a score that is Infinity: a score is a finite number", "", "find out where it comes from"),
    (
        "the benchmark did not report speed (it reported ms, mb)",
        "",
        'under [[objective.metrics]]: name = "ms"',
    ),
]
"""Reasons of failures that no line of the output names, with what was printed last."""


@pytest.mark.parametrize(("output", "facts", "remedy"), KNOWN)
def test_a_known_cause_has_a_sentence_and_the_line_to_paste(output, facts, remedy):
    cause = explain(output, facts)
    assert remedy in cause.remedy
    assert "\n" not in cause.remedy + cause.sentence
    for setting in cause.settings:
        assert tomllib.loads(setting.line)


@pytest.mark.parametrize(("command", "output", "facts", "wanted"), OF_COMMANDS)
def test_a_command_is_changed_where_that_is_the_remedy(command, output, facts, wanted):
    (setting,) = explain(output, facts, command=command).settings
    assert (setting.key, setting.value) == ("command", wanted)


BUILT_WITHOUT_TESTS = "configure: WARNING: Package 'cunit', required by 'virtual:world', not found\n# TOTAL: 0"


@pytest.mark.parametrize("output", [BUILT_WITHOUT_TESTS, "checking for CUNIT... no\n# TOTAL: 0"])
def test_a_build_that_leaves_its_tests_out_names_the_library_that_they_need(output):
    cause = explain_failure(Failure(NO_TEST_RAN, (), task(), output), APT)
    assert cause.remedy == "run: apt-get install -y libcunit1-dev"
    assert explain_failure(Failure(NO_TEST_RAN, (), task(), "checking for zlib... no"), APT) is None
    assert explain_failure(Failure(NO_TEST_RAN, (), task(), output), Facts()) is None


def test_a_library_that_is_not_installed_is_no_matter_of_the_order_of_a_build():
    output = "t.cpp:1:10: fatal error: boost/any.hpp: No such file or directory"
    assert explain(output, APT, command="make -j 4").name == "missing-development-library"
    assert explain(output.replace("boost/any.hpp", "version.h"), APT, command="make -j 4").name == "parallel-make"


def test_what_a_build_of_extensions_needs_is_installed_at_once():
    output = (
        'Traceback (most recent call last):\n  File "/tmp/tree/setup.py", line 7, in <module>\n'
        "    from setuptools_scm import get_version\nModuleNotFoundError: No module named 'setuptools_scm'"
    )
    facts = Facts(requirements=("'setuptools>=80'", "setuptools-scm"))
    cause = explain(output, facts, command=f"{BUILD_EXTENSIONS} && bench")
    assert cause.remedy == "run: python3 -m pip install 'setuptools>=80' setuptools-scm"
    assert explain(output, facts).remedy == "run: python3 -m pip install setuptools-scm"
    old = explain("ValueError: invalid pyproject.toml config: `project.license`.", facts, command=BUILD_EXTENSIONS)
    assert old.remedy == cause.remedy


NO_GPU = {
    "PyTorch": "RuntimeError: No CUDA GPUs are available",
    "PyTorch without a driver": "RuntimeError: Found no NVIDIA driver on your system. Please check that you have "
    "an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
    "PyTorch for ROCm": "RuntimeError: No HIP GPUs are available",
    "HIP": "RuntimeError: HIP error: hipErrorNoDevice",
    "a script's assertion": '  File "/loopty/tree/bench.py", line 2, in <module>\n'
    "    assert torch.cuda.is_available()\nAssertionError",
    "a saved model": "RuntimeError: Attempting to deserialize object on a CUDA device but "
    "torch.cuda.is_available() is False.",
    "Triton": "RuntimeError: 0 active drivers ([]). There should only be one.",
    "JAX": "RuntimeError: Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU devices. (you "
    "may need to uninstall the failing plugin package, or set JAX_PLATFORMS=cpu to skip this backend.)",
    "JAX, earlier": "RuntimeError: Unable to initialize backend 'cuda': INTERNAL: no supported devices found for "
    "platform CUDA",
    "JAX that was asked": "RuntimeError: Unknown backend: 'gpu' requested, but no platforms that are instances of "
    "gpu are present.",
    "CuPy": "cupy_backends.cuda.api.runtime.CUDARuntimeError: "
    "cudaErrorNoDevice: no CUDA-capable device is detected",
    "CuPy without a driver": "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: CUDA "
    "driver version is insufficient for CUDA runtime version",
    "PyTorch under Landlock": "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
    "functions before calling NumCudaDevices() that might have already set an error? Error 304: OS call failed or "
    "operation not supported on this OS",
    "CuPy under Landlock": "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorOperatingSystem: OS call "
    "failed or operation not supported on this OS",
    "JAX with its note": "RuntimeError: Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU "
    "devices.\n--------------------\nFor simplicity, JAX has removed its internal frames from the traceback of "
    "the following exception. Set JAX_TRACEBACK_FILTERING=off to include these.",
    "Numba": "numba.cuda.cudadrv.error.CudaSupportError: Error at driver init: Call to cuInit results in "
    "CUDA_ERROR_NO_DEVICE",
    "the driver's tool": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
    "that the latest NVIDIA driver is installed and running.",
}


@pytest.mark.parametrize("library", NO_GPU)
def test_a_benchmark_without_its_gpu_is_told_to_name_it_and_the_one_command(library):
    output = f"Traceback (most recent call last):\n  File x\n{NO_GPU[library]}"
    cause = explain(output, Facts(gpu=True))
    assert [setting.line for setting in cause.settings] == ['devices = ["gpu"]']
    assert cause.reach is Reach.OUTSIDE
    assert cause.remedy.startswith('in loopty.toml, under [benchmark]: devices = ["gpu"]; or run: sed -i ')
    assert cause.shell.endswith("loopty run 1 --check --trust")
    assert explain(output, Facts()).name == "no-gpu"
    named = explain(output, Facts(gpu=True), more='devices = ["gpu"]\n')
    assert named is None or named.name != cause.name


def test_the_command_for_a_gpu_adds_the_line_to_the_task_file(tmp_path):
    path = tmp_path / "loopty.toml"
    path.write_text('[benchmark]\ncommand = "bench"\n[access]\nwrite = ["a"]\n')
    line = explain(NO_GPU["PyTorch"], Facts(gpu=True)).shell.partition(" && ")[0]
    subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True)
    assert tomllib.loads(path.read_text())["benchmark"] == {"command": "bench", "devices": ["gpu"]}


@pytest.mark.parametrize("said", ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."])
def test_a_full_gpu_is_no_reason_to_give_the_trial_more_memory(said):
    cause = explain(said)
    assert cause.name == "out-of-gpu-memory"
    assert not cause.settings


@pytest.mark.parametrize(("machine", "more"), [(64_000, 8192), (8_000, 6_400), (2_500, None)])
def test_no_more_memory_is_proposed_than_the_machine_has(machine, more):
    cause = explain("", Facts(memory=machine), "used more than 2048 MB of memory")
    assert [setting.value for setting in cause.settings] == ([more] if more else [])
    assert more or "this machine has 2500 MB" in cause.remedy


def test_the_module_of_an_unknown_package_is_not_installed_by_its_own_name():
    cause = explain("ModuleNotFoundError: No module named 'shinka'", command="uv run bench.py")
    assert cause.remedy == "install the package that provides the module shinka, with `uv add PACKAGE`"
    assert not cause.shell


def test_a_built_module_that_is_still_missing_is_not_built_again():
    output = "ModuleNotFoundError: No module named 'ujson'"
    cause = explain(output, Facts(built=("ujson",)), command=f"{BUILD_EXTENSIONS} && bench")
    assert cause.name == "missing-python-module"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("poetry run python bench.py", "poetry add pyyaml"),
        ("make -s && uv run bench.py", "uv add pyyaml"),
        ("pipenv run python bench.py", "pipenv install pyyaml"),
        ("python3 run.py 'uv run it'", "python3 -m pip install pyyaml"),
    ],
)
def test_a_missing_module_is_added_to_the_environment_that_the_command_uses(command, line):
    cause = explain("ModuleNotFoundError: No module named 'yaml'", Facts(), command=command)
    assert cause.remedy == f"run: {line}"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (CTEST, CTEST_FAILS.replace("out of 6", "out of 4")),
        (CTEST, CTEST_FAILS.replace(" bad ", " $(reboot) ")),
        ("npm test --silent", MOCHA_FAILS.replace("3 passing", "2 passing")),
        ("npm test --silent", MOCHA_FAILS.replace("alone", '"before each" hook for "alone"')),
        ("node tests.js", MOCHA_FAILS),
        ("jest", JEST_FAILS.replace("82 passed", "1 passed")),
        ("jest", JEST_FAILS.replace("Feeds › RDF", "Test suite failed to run")),
    ],
)
def test_suites_leave_tests_out_only_where_more_pass_and_their_names_are_plain(command, output):
    cause = explain(output, command=command)
    assert cause is None or cause.name != "failing-tests"


def test_tests_are_left_out_only_where_more_of_them_pass():
    assert explain("FAILED t.py::a - E\nFAILED t.py::b - E\n2 failed, 2 passed", command=PYTEST_GOES_ON) is None
    missing = "E   ModuleNotFoundError: No module named 'hypothesis'\nERROR t.py\n1 error in 0.1s"
    assert explain(missing, command=PYTEST_GOES_ON).shell == "python3 -m pip install hypothesis"


def test_options_of_a_benchmark_tool_that_is_missing_are_no_ones_of_the_configuration():
    output = "__main__.py: error: unrecognized arguments: --benchmark-save=loopty --benchmark-only"
    cause = explain(output, command=f"{PYTEST_STOPS} --benchmark-only", more="result = 'pytest-benchmark'")
    assert cause.remedy == "run: python3 -m pip install pytest-benchmark"


def test_where_most_tests_fail_the_files_that_pass_are_run():
    failed = "".join(f"ERROR tests/test_{number}.py - AssertionError\n" for number in range(20))
    passed = "PASSED tests/test_a.py::test_b\nPASSED tests/test_a.py::test_c\nPASSED tests/test_3.py::test_d\n"
    output = f"{passed}{failed}3 passed, 20 errors in 3s"
    (setting,) = explain(output, command=PYTEST_GOES_ON).settings
    assert setting.value == "python3 -m pytest -q -x -p no:cacheprovider tests/test_a.py"
    assert explain(output, command=PYTEST_GOES_ON.replace("-p no:cacheprovider", "")) is None
    (setting,) = explain(output.replace("tests/test_a", "tests/test_5"), command=PYTEST_GOES_ON).settings
    tests = "tests/test_5.py::test_b tests/test_5.py::test_c tests/test_3.py::test_d"
    assert setting.value == f"python3 -m pytest -q -x -p no:cacheprovider {tests}"


def test_a_script_that_imports_its_package_is_started_as_a_module():
    output = "    from .cu2qu import *\nImportError: attempted relative import with no known parent package"
    packages = ("Lib/fontTools/__init__.py", "Lib/fontTools/cu2qu/__init__.py")
    command = "python3 Lib/fontTools/cu2qu/benchmark.py"
    (setting,) = explain(output, Facts(paths=packages), command=command).settings
    assert setting.value == 'export PYTHONPATH="$PWD/Lib:$PYTHONPATH"; python3 -m fontTools.cu2qu.benchmark'
    assert explain(output, Facts(), command=command) is None


def test_what_is_no_name_of_a_module_is_not_installed():
    assert explain("E   ModuleNotFoundError: No module named 'test_axis()'") is None


def test_a_file_that_a_package_of_the_repository_lacks_is_nothing_to_install():
    missing = "E   ModuleNotFoundError: No module named 'tests.declarativeunittest'\n1 error in 0.1s"
    assert explain(missing, Facts(paths=("tests",)), command=PYTEST_GOES_ON) is None


def test_a_header_that_the_repository_itself_lacks_is_no_library_to_install():
    output = "include/spdlog/fmt/fmt.h:24:14: fatal error: spdlog/fmt/bundled/core.h: No such file or directory"
    facts = Facts({"apt-get": "/usr/bin/apt-get"}, tracked=("include/spdlog",), packages=("libspdlog-dev",))
    assert explain(output, facts) is None
    assert explain(output, replace(facts, tracked=())).shell == "apt-get install -y libspdlog-dev"


def test_of_many_tests_that_fail_their_files_are_left_out():
    failed = "".join(f"FAILED tests/test_net.py::test_{number} - OSError\n" for number in range(45))
    (setting,) = explain(f"{failed}45 failed, 80 passed in 3s", command=PYTEST_GOES_ON).settings
    assert " --ignore=tests/test_net.py -p" in setting.value


def test_a_file_that_the_command_names_is_taken_out_of_it():
    line = f"{PYTEST_GOES_ON} tests/test_a.py tests/test_b.py".replace(" tests tests/", " tests/")
    (setting,) = explain("ERROR tests/test_a.py\n5 passed, 1 error in 3s", command=line).settings
    assert setting.value.endswith(" -p no:cacheprovider tests/test_b.py")
    assert "--ignore" not in setting.value


def test_a_few_failing_tests_in_many_files_are_left_out_one_by_one():
    failed = "".join(f"FAILED tests/test_{number}.py::test_rsa - ImportError: jwt\n" for number in range(13))
    (setting,) = explain(f"{failed}13 failed, 685 passed in 74.57s", command=PYTEST_GOES_ON).settings
    assert setting.value.count("--deselect=tests/test_") == 13
    assert setting.value.endswith(" -p no:cacheprovider tests")


@pytest.mark.parametrize(("reason", "printed", "remedy"), WITHOUT_AN_ERROR)
def test_a_limit_and_a_result_elsewhere_have_their_remedy(reason, printed, remedy):
    lines = tuple(printed.splitlines())
    cause = explain_failure(Failure(reason, lines, task()), Facts())
    assert remedy in cause.remedy


def test_a_gate_that_fails_gets_a_command_of_its_own():
    failure = Failure("gate tests: exit code 2: E   ModuleNotFoundError: No module named 'pkg'", (), task())
    cause = explain_failure(failure, Facts(roots={"pkg": ""}))
    assert [item.table for item in cause.settings] == ["gates.tests"]
    assert cause.settings[0].value == 'export PYTHONPATH="$PWD:$PYTHONPATH"; pytest'


def test_an_isolated_benchmark_is_told_from_a_missing_module():
    output = "ModuleNotFoundError: No module named 'solver'"
    cause = explain(output, Facts(paths=("solver.py",)), more="isolated = true\nfiles = ['bench.py']")
    assert cause.name == "isolated-benchmark"
    assert 'files = ["bench.py", "solver.py"]' in cause.remedy


def test_what_is_in_the_task_already_stays_in_the_line_to_paste():
    output = "mkdir: cannot create directory ‘build’: Read-only file system"
    assert 'scratch = ["out", "build"]' in explain(output, more="scratch = ['out']").remedy


def test_a_folder_that_starts_empty_and_still_cannot_be_written_gives_way_to_a_copy_of_the_tree():
    output = "mkdir: cannot create directory ‘build’: Read-only file system"
    cause = explain(output, more="scratch = ['build', 'out']")
    assert [item.line for item in cause.settings] == ['scratch = ["out"]', "writable_copy = true"]


def test_an_unknown_error_has_no_cause():
    assert explain("bench.c:3:5: error: unknown type name 'flaot'") is None


@pytest.mark.parametrize(
    "output",
    [
        "ModuleNotFoundError: No module named 'x; rm -rf ~'",
        "Error: Cannot find module '$(reboot)'",
        "/bin/sh: 1: `reboot`: not found",
        "cat: ../../etc/passwd: No such file or directory",
        "PermissionError: [Errno 13] Permission denied: '/etc/shadow'",
    ],
)
def test_hostile_names_do_not_get_into_a_line_to_paste(output):
    cause = explain(output, Facts(paths=("../../etc/passwd", "/etc/shadow")))
    assert cause is None or not any(word in cause.remedy for word in ("rm -rf", "reboot", "passwd", "shadow"))


def failures() -> Iterator[tuple[str, Cause]]:
    """The recorded reason of each failure, and its cause."""
    for output, facts, _ in KNOWN:
        yield find_error_lines(output).cause, explain(output, facts)
    for command, output, facts, _ in OF_COMMANDS:
        yield find_error_lines(output).cause, explain(output, facts, command=command)
    for reason, printed, _ in WITHOUT_AN_ERROR:
        yield reason, explain_failure(Failure(reason, tuple(printed.splitlines()), task()), Facts())


def page() -> str:
    """The page of known causes: a row for each."""
    rows: dict[str, str] = {}
    for reason, cause in failures():
        cells = (code(shortened(reason)), shortened(cause.sentence), remedy_text(cause))
        rows.setdefault(cause.name, f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n")
    return PAGE_HEAD + "".join(rows.values())


def remedy_text(cause: Cause) -> str:
    """The remedy in a cell: what to write into loopty.toml, else what to run, else what to do."""
    if cause.settings:
        places = groupby(cause.settings, key=lambda item: item.place)
        return "; ".join(f"{place}: {code(*(item.line for item in items))}" for place, items in places)
    return code(cause.shell) if cause.shell else shortened(cause.advice)


def code(*lines: str) -> str:
    return ", ".join(f"``{shortened(line)}``" if "`" in line else f"`{shortened(line)}`" for line in lines)


def shortened(text: str) -> str:
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"


MAX_CELL = 110
PAGE_HEAD = """\
# Failures and their remedies

When a check or a baseline fails, `init`, `run`, `show` and `status` print up to five lines around the
error. If loopty recognises the cause, they add it with the remedy: lines for `loopty.toml`, or a command for your
shell. `init` applies safe remedies itself and tries again.

This table has one example of each known cause, with long cells cut. `bench` stands for your benchmark's command;
install commands are those of one machine. [Causes](design/causes.md) says how it works.
`python tests/features/setup/causes/test_known_causes.py > docs/failures.md` writes this page.

| the trial says | cause | remedy |
|---|---|---|
"""


def test_the_page_of_failures_is_current():
    path = Path(__file__).parents[4] / "docs" / "failures.md"
    assert path.read_text() == page(), (
        "run: python tests/features/setup/causes/test_known_causes.py > docs/failures.md"
    )


ISOLATED = "isolated = true\nfiles = ['bench.py', 'cases/*']"


def failed_gate(command: str, missing: str):
    made = task(more=ISOLATED)
    gates = (replace(made.gates[0], command=command),)
    made = replace(made, gates=gates, access=replace(made.access, write=("pkg/**",)))
    return explain_failure(
        Failure(f"gate tests: exit code 1: {missing}", (), made),
        Facts(paths=("pkg", "pkg/__init__.py", "cases/a")),
    )


def test_a_gate_beside_an_isolated_benchmark_is_sent_to_the_candidate():
    cause = failed_gate("pytest -q", "ModuleNotFoundError: No module named 'pkg'")
    assert "-m loopty_sdk.candidate" in cause.remedy
    assert "-- sh -c 'pytest -q'" in cause.settings[0].value
    assert not any(item.key == "files" for item in cause.settings)


def test_a_gate_is_told_that_a_file_of_the_benchmark_is_hidden_from_the_candidate():
    line = "python3 -m loopty_sdk.candidate -- pytest -q"
    cause = failed_gate(line, "FileNotFoundError: [Errno 2] No such file or directory: '/loopty/tree/cases/a'")
    assert "cases/a is a file of the benchmark, so it is hidden from the candidate" in cause.sentence
    assert "a copy of such files" in cause.remedy
    assert not cause.settings


def test_the_candidate_itself_never_becomes_a_file_of_the_benchmark():
    made = task(more=ISOLATED)
    made = replace(made, access=replace(made.access, write=("pkg/**",)))
    failure = Failure("ModuleNotFoundError: No module named 'pkg'", (), made)
    cause = explain_failure(failure, Facts(paths=("pkg", "pkg/__init__.py")))
    assert "call it with loopty_sdk.candidate" in cause.remedy
    assert not cause.settings


if __name__ == "__main__":
    print(page(), end="")


def test_a_package_that_is_mounted_and_lacks_a_file_is_of_another_version():
    mounted = "mounts = ['node_modules']"
    found = explain(
        "Error: Cannot find module 'left/lib/parse'\nRequire stack:\n- /a.js", NODE_MODULES, more=mounted
    )
    assert found.sentence == "left is installed, and has no left/lib/parse"
    assert not found.settings
