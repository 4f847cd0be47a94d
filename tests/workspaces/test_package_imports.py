"""The packages that files import, and the names under which files can be imported."""

from loopty.workspaces.warm_packages import module_names, package_imports

FILE = """
import os, numpy as np
import scipy.optimize
from json import loads, dumps as write
from . import near
from .near import thing
try:
    import torch
except ImportError:
    torch = None
with open("x") as file:
    import inside
if np:
    import never
def later():
    import later_still
    return np.random.rand() + np.linalg.norm(os.environ) + other.part
from star import *
"""


def test_only_what_every_load_of_the_file_imports_is_found():
    assert package_imports([("", FILE)]) == (
        ("os", (), ("environ",)),
        ("numpy", (), ("random", "linalg")),
        ("scipy.optimize", (), ()),
        ("json", ("loads", "dumps"), ()),
        ("torch", (), ()),
        ("inside", (), ()),
        ("star", (), ()),
    )


def test_files_of_a_package_may_name_each_other():
    assert package_imports([("sdk", "from .near import thing\nfrom ..far import other")]) == (
        ("sdk.near", ("thing",), ()),
    )


def test_several_files_are_joined_and_one_that_is_no_python_imports_nothing():
    texts = [("", "import a"), ("", "not python"), ("", "from a import b\nimport a\na.c")]
    assert package_imports(texts) == (("a", ("b",), ("c",)),)


def test_the_names_of_a_repository_s_modules():
    paths = ("bench.py", "src/tool/__init__.py", "src/tool/json.py", "src/tool/deep/x.py", "scripts/random.py")
    assert module_names((*paths, "fast.cpython-311.so", "README.md", "docs/text.md")) == {
        "bench",
        "src",
        "tool",
        "scripts",
        "random",
        "fast",
        "x",
    }
