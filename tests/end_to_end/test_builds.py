"""Builds that write beside their sources, in a private copy of the tree."""

import os

import pytest

TASK = """
[benchmark]
command = "make -s run"
timeout_seconds = 60
result = "stdout"
writable_copy = true
scratch = ["out"]
{more}
[access]
write = ["src/**"]
[sandbox]
kind = "{kind}"
[[gates]]
name = "builds"
command = "make -s src/x.o && test -f src/x.o"
"""
MAKEFILE = """
src/x.o: src/x.txt
\tcp src/x.txt src/x.o
run: src/x.o
\ttest -d node_modules/one && touch out/y && ! touch node_modules/one/z 2> /dev/null
\tmkdir node_modules/.cache
\techo score: `cat src/x.o`
"""


@pytest.fixture
def built(place):
    place.write(".gitignore", "node_modules/\n*.o\n")
    place.write("Makefile", MAKEFILE)
    place.write("src/x.txt", "5\n")
    place.write(".hidden", "")
    place.write("node_modules/one/index.js", "")
    return place


@pytest.mark.parametrize("kind", ["namespaces", "bubblewrap", "landlock"])
def test_a_build_in_the_tree_works_as_it_is_and_leaves_nothing(built, kind):
    built.write("loopty.toml", TASK.format(kind=kind, more=""))
    built.commit()
    assert built.json("run", "1")["outcome"]["metrics"]["score"] == 5
    made = built.json("new", "--parent", "1")
    (built.top / made["workspace"] / "src/x.txt").write_text("7\n")
    (built.top / made["workspace"] / "src/new.txt").write_text("the directory is another one now\n")
    assert built.json("run", made["node"])["outcome"]["metrics"]["score"] == 7
    assert not list(built.state.glob("exports/**/*.o"))
    assert not list(built.top.glob("src/*.o"))


def test_a_copy_and_an_isolated_candidate_exclude_each_other(built):
    built.write("loopty.toml", TASK.format(kind="bubblewrap", more="isolated = true"))
    built.commit()
    assert "benchmark.scratch" in built.loopty("run", "1", code=2).stderr


CACHE_TASK = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 60
result = "stdout"
caches = ["build"]
{more}
[access]
write = ["src/**"]
[sandbox]
kind = "{kind}"
[[gates]]
name = "first"
command = "test ! -e build/gate && touch build/gate"
"""
# Its score is the number of entries in the cache when it starts.
COUNT = """test ! -e build/gate || exit 3
set -- build/*
[ -e "$1" ] || shift
echo "score: $#"
touch build/$(cat src/x.txt) build/more
"""


@pytest.mark.parametrize("kind", ["namespaces", "bubblewrap", "landlock"])
def test_a_cache_is_filled_by_the_baseline_alone(place, kind):
    place.write("bench.sh", COUNT)
    place.write("src/x.txt", "base\n")
    place.write("loopty.toml", CACHE_TASK.format(kind=kind, more=""))
    place.commit()
    place.loopty("run", "1")
    for name in ("one", "two"):
        made = place.json("new", "--parent", "1")
        (place.top / made["workspace"] / "src/x.txt").write_text(f"{name}\n")
        node = place.json("run", made["node"])
        assert node["outcome"]["metrics"]["score"] == 2  # what the baseline left, and nothing of another candidate
    (cache,) = (place.state / "caches").iterdir()
    assert sorted(path.name for path in cache.glob("0/*")) == ["base", "more"]


def test_a_trial_that_uses_a_cache_makes_it_young_again(place):
    place.write("bench.sh", COUNT)
    place.write("src/x.txt", "base\n")
    place.write("loopty.toml", CACHE_TASK.format(kind="bubblewrap", more=""))
    place.commit()
    place.loopty("run", "1")
    (cache,) = (place.state / "caches").iterdir()
    os.utime(cache, (1, 1))
    (place.state / "caches" / "making-0123-4194305-ab").mkdir()  # of a process that was killed
    assert len(place.json("gc")["caches"]) == 1
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/x.txt").write_text("new\n")
    place.loopty("run", made["node"])
    assert place.json("gc")["caches"] == []
    assert list((place.state / "caches").iterdir()) == [cache]


def test_a_cache_is_linked_into_a_writable_copy(place):
    place.write("bench.sh", COUNT)
    place.write("src/x.txt", "base\n")
    place.write("loopty.toml", CACHE_TASK.format(kind="bubblewrap", more="writable_copy = true"))
    place.commit()
    place.loopty("run", "1")
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/x.txt").write_text("new\n")
    assert place.json("run", made["node"])["outcome"]["metrics"]["score"] == 2


def test_caches_and_scratch_do_not_overlap(place):
    place.write("src/x.txt", "")
    place.write("bench.sh", "")
    place.write("loopty.toml", CACHE_TASK.format(kind="bubblewrap", more='scratch = ["build/deep"]'))
    place.commit()
    assert "overlaps" in place.loopty("run", "1", code=2).stderr
