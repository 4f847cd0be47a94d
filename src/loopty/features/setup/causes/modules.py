"""Causes: a module of Python or JavaScript that the trial cannot import, or has not built."""

from __future__ import annotations

import re

from loopty.features.setup.causes.failure import Failure, HostFacts, path_in_tree, through_candidate
from loopty.kit.paths import matches
from loopty.show.explanation import Cause, Setting

_OTHER_NAMES = {
    "Bio": "biopython",
    "Crypto": "pycryptodome",
    "Cython": "cython",
    "IPython": "ipython",
    "Levenshtein": "levenshtein",
    "MySQLdb": "mysqlclient",
    "OpenGL": "pyopengl",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "absl": "absl-py",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fontTools": "fonttools",
    "fitz": "pymupdf",
    "git": "gitpython",
    "haiku": "dm-haiku",
    "jwt": "pyjwt",
    "magic": "python-magic",
    "mpl_toolkits": "matplotlib",
    "nacl": "pynacl",
    "osgeo": "gdal",
    "pdfminer": "pdfminer.six",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "pywt": "pywavelets",
    "rapidjson": "python-rapidjson",
    "rpds": "rpds-py",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "skopt": "scikit-optimize",
    "slugify": "python-slugify",
    "snappy": "python-snappy",
    "socks": "pysocks",
    "usb": "pyusb",
    "xdist": "pytest-xdist",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
_SAME_NAME = """
    accelerate aiohttp altair anthropic asv attrs bokeh boto3 botocore brotli cachetools cattrs certifi cffi
    chardet charset_normalizer click cloudpickle cma colorama contourpy coverage cryptography cvxopt cvxpy
    cycler cython dacite dask datasets deap dill diskcache distributed django docutils duckdb einops fastapi
    filelock flask flax fsspec gensim geopandas gevent greenlet gurobipy gym gymnasium h5py highspy httpx
    huggingface_hub hypothesis idna igraph imageio importlib_metadata ipykernel isort jax jaxlib jinja2 joblib
    jsonschema keras kiwisolver librosa lightgbm llvmlite loguru lxml lz4 mako markdown markupsafe matplotlib
    meson mmh3 mpmath msgpack msgspec multidict mypy nbformat networkx nevergrad ninja nltk nose notebook numba
    numexpr numpy ollama onnx onnxruntime openai opt_einsum optax optuna orjson ortools packaging pandas
    parameterized pathspec patsy peewee pendulum pexpect pint plotly pluggy polars portalocker prettytable
    prompt_toolkit psutil psycopg pulp pyarrow pybind11 pycparser pydantic pyfftw pygame pygments pymongo pyomo
    pyparsing pyperf pyscipopt pytest pytest_asyncio pytest_benchmark pytest_cov pytz ray redis regex requests
    rich safetensors scipy seaborn sentencepiece setuptools setuptools_scm shapely simplejson six
    sortedcontainers sphinx sqlalchemy starlette statsmodels sympy tabulate tensorboard tensorflow threadpoolctl
    tiktoken tokenizers toml tomli tomlkit toolz torch torchaudio torchvision tornado tqdm traitlets
    transformers trio triton typer ujson urllib3 uvicorn uvloop wandb websockets werkzeug wheel wrapt xarray
    xgboost xxhash yarl zstandard
"""


def distribution_of(module: str) -> str:
    """Look up the package that provides this module; empty if that is not known."""
    if module in _SAME_NAME.split():
        return module.replace("_", "-")
    return _OTHER_NAMES.get(module, "")


_PYTHON = (
    r"No module named '?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)(?:'|;|$)",
    r"PackageNotFoundError: No package metadata was found for (?P<name>[A-Za-z_][\w.-]*)",
)
_NODE = r"Cannot find (?:module|package) '(?P<name>[^'\s]+)'"
_RELATIVE_IMPORT = r"attempted relative import with no known parent package"
_SCRIPT = re.compile(r"\bpython3 (?P<path>(?:[A-Za-z_]\w*/)+[A-Za-z_]\w*)\.py(?=\s|$)")
_PACKAGE = re.compile(r"^(?:@[a-z0-9._-]+/)?[a-z0-9._-]+", re.IGNORECASE)
_MANAGER = re.compile(r"(?:^|[;&|]\s*)(?P<name>uv|poetry|pdm|pipenv) run\s")
_LOCK_FILES = {
    "package-lock.json": "npm ci",
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
    "yarn.lock": "yarn install --frozen-lockfile",
    "bun.lockb": "bun install --frozen-lockfile",
}


def python_module_elsewhere(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a module in an environment that git ignores, or in a source folder."""
    found = failure.match(*_PYTHON)
    if found is None:
        return None
    module = found["name"].partition(".")[0]
    if environment := facts.environment_with(module):
        return Cause(
            "module-in-ignored-environment",
            f"{module} is installed in {environment}, which git ignores, so trials do not see it",
            (
                failure.setting_with("mounts", environment),
                failure.own_setting("command", f'export PATH="$PWD/{environment}/bin:$PATH"; {failure.command}'),
            ),
        )
    if (root := facts.source_root(module)) is not None:
        folder = f"$PWD/{root}" if root else "$PWD"
        return Cause(
            "module-of-the-repository",
            f"{module} is the repository's own, in {root or 'its top'}, and is not installed",
            (failure.own_setting("command", f'export PYTHONPATH="{folder}:$PYTHONPATH"; {failure.command}'),),
        )
    return None


def missing_python_module(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a module that is not installed."""
    found = failure.match(*_PYTHON)
    if found is None:
        return None
    full, module = found["name"], found["name"].partition(".")[0]
    if "." in full and facts.has_path(module):
        return None  # a file that the repository itself has not
    distribution = distribution_of(module)
    if manager := _MANAGER.search(failure.command):
        verb = "install" if manager["name"] == "pipenv" else "add"
        install = f"{manager['name']} {verb}"
        sentence = f"{full} is not installed in the environment of `{manager['name']} run`"
    else:
        install = "python3 -m pip install"
        sentence = f"{full} is not installed for the python3 of your shell, which trials use"
    if distribution:
        return Cause("missing-python-module", sentence, shell=f"{install} {distribution}")
    # The index may have a stranger's package of the same name.
    advice = f"install the package that provides the module {module}, with `{install} PACKAGE`"
    return Cause("missing-python-module", sentence, advice=advice)


def script_inside_a_package(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a script that imports its neighbours by dots: Python starts it by the name of its module."""
    found = _SCRIPT.search(failure.command)
    if found is None or not failure.match(_RELATIVE_IMPORT):
        return None
    *folders, name = found["path"].split("/")
    count = len(folders)
    while count and facts.has_path("/".join((*folders[:count], "__init__.py"))):
        count -= 1
    if count == len(folders):
        return None
    module = ".".join((*folders[count:], name))
    line = failure.command.replace(found[0], f"python3 -m {module}", 1)
    root = "".join(f"/{folder}" for folder in folders[:count])
    return Cause(
        "script-inside-a-package",
        f"{found['path']}.py imports other files of its package, so it is started as the module {module}",
        (failure.own_setting("command", f'export PYTHONPATH="$PWD{root}:$PYTHONPATH"; {line}'),),
    )


def missing_node_module(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a package that is in node_modules, which git ignores, or not installed."""
    found = failure.match(_NODE)
    package = _PACKAGE.match(found["name"]) if found else None
    if found is None or package is None or found["name"].startswith((".", "/")):
        return None
    has_package = facts.has_path(f"node_modules/{package[0]}")
    if has_package and "node_modules" in failure.task.benchmark.mounts:
        return Cause(
            "node-package-of-another-version",
            f"{package[0]} is installed, and has no {found['name']}",
            advice=f"install the version of {package[0]} that the repository was written for",
        )
    if has_package and (folder := facts.outermost_ignored("node_modules")):
        return Cause(
            "module-in-ignored-environment",
            f"{package[0]} is installed in {folder}, which git ignores, so trials do not see it",
            (failure.setting_with("mounts", folder),),
        )
    is_named = facts.is_node_dependency(package[0])
    install = install_line(facts) if is_named else f"npm install --no-save {package[0]}"
    return Cause("missing-node-module", f"{package[0]} is not installed in node_modules", shell=install)


def install_line(facts: HostFacts) -> str:
    """Return the line that installs the packages of package.json."""
    return next((line for name, line in _LOCK_FILES.items() if facts.has_path(name)), "npm install")


def file_of_the_candidate(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain an isolated benchmark that reaches for files of the candidate."""
    if not failure.task.benchmark.isolated:
        return None
    found = failure.match(*_PYTHON, r"No such file or directory: '(?P<name>[^']+)'", r"ENOENT.*'(?P<name>[^']+)'")
    if found is None:
        return None
    name = path_in_tree(found["name"]) or found["name"]
    guesses = (name, f"{name.replace('.', '/')}.py")
    path = next((guess for guess in guesses if facts.has_path(guess)), None)
    if path is None:
        return None
    task, runs_in_candidate = failure.task, "loopty_sdk.candidate" in failure.command
    if runs_in_candidate and matches(path, task.benchmark.files):
        return Cause(
            "isolated-benchmark",
            f"{path} is a file of the benchmark, so it is hidden from the candidate, among whose files "
            f"{failure.subject} runs",
            advice="give the benchmark a copy of such files in a folder of its own, and name that under `files`",
        )
    if failure.gate and not runs_in_candidate:
        return Cause(
            "isolated-benchmark",
            f"beside an isolated benchmark a gate sees only the benchmark's files, and {path} is none of them",
            (failure.own_setting("command", through_candidate(failure.command, failure.timeout_seconds)),),
        )
    if matches(path, task.access.write) or matches(f"{path}/__init__.py", task.access.write):
        return Cause(
            "isolated-benchmark",
            f"an isolated benchmark sees only its own files, and {path} is the candidate's",
            advice=f"call it with loopty_sdk.candidate; a copy of {path} that answers are compared with goes into "
            "`files`, in a folder that is not editable",
        )
    return Cause(
        "isolated-benchmark",
        f"an isolated benchmark sees only its own files, and {path} is none of them",
        (failure.setting_with("files", path),),
    )


BUILD_EXTENSIONS = 'export PYTHONPATH="$PWD/src:$PWD:$PYTHONPATH"; python3 setup.py -q build_ext --inplace'
"""Builds beside the sources, so that a candidate's own C code is what is measured."""
_MISSING = (
    r"No module named '?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)(?:'|;|$)",
    r"cannot import name '(?P<part>\w+)' from (?:partially initialized module )?'(?P<name>[A-Za-z_][\w.]*)'",
)
_OLD_SETUPTOOLS = r"invalid pyproject\.toml config: "
"""What setuptools prints of a key that is newer than itself."""


def unbuilt_extension(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a module of the repository that setup.py builds."""
    found = failure.match(*_MISSING)
    if found is None or BUILD_EXTENSIONS in failure.command:
        return None
    name = ".".join(filter(None, (found["name"], found.groupdict().get("part"))))
    if not facts.builds_module(name):
        return None
    return Cause(
        "extension-not-built",
        f"{name} is built by setup.py from sources of the repository, and trials start without built files",
        (
            failure.own_setting("command", f"{BUILD_EXTENSIONS} && {failure.command}"),
            Setting("benchmark", "writable_copy", True),
        ),
    )


def missing_build_requirement(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a package that setup.py needs, which pip would have installed for the build alone."""
    found, old = failure.match(_MISSING[0]), failure.match(_OLD_SETUPTOOLS)
    wanted = facts.build_requirements()
    if BUILD_EXTENSIONS not in failure.command or not wanted:
        return None
    if not old and not (found and failure.match(r"setup\.py\b")):
        return None
    lack = "a newer setuptools than is" if old or not found else f"{found['name']}, which is not"
    return Cause(
        "missing-build-requirement",
        f"setup.py needs {lack} installed for the python3 of your shell",
        shell=f"python3 -m pip install {' '.join(wanted)}",
    )
