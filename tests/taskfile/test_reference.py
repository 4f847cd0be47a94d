"""The reference page is generated from the schema."""

import re
from pathlib import Path

from loopty.taskfile.read import PLUGIN_TABLES, TABLES, TOP_KEYS, parse
from loopty.taskfile.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "task-file.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "run `make docs`"


def test_every_table_kind_and_key_is_on_the_page():
    text = page()
    for name in (*TABLES, *TOP_KEYS, *PLUGIN_TABLES):
        assert f"`[{name}]`" in text or f"`{name}`" in text
    for plugins in PLUGIN_TABLES.values():
        for kind in plugins.kinds:
            assert f"`{kind}`" in text


def test_the_ten_keys_that_a_user_writes_make_a_task():
    first, second = re.findall(r"```toml\n(.*?)```", page(), re.DOTALL)
    assert re.findall(r"# (\d+)\.", first) == [str(number) for number in range(1, 11)]
    task = parse(first)
    assert task.proposer.kind == "llm-code"
    assert task.gates[0].name == "tests"
    parameters = parse(first.replace('write = ["src/**"]', "").replace("llm-code", "random") + second)
    assert list(parameters.space.parameters) == ["rate", "layers", "method"]
