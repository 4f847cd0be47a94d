"""The name of a node on the screen."""

from loopty.show.figures import node_name


def test_a_node_is_shown_by_its_handle_however_deep_it_is():
    assert node_name("1.3", 4) == "@4"
    assert node_name(".".join(["5", *["1"] * 4000]), 4001) == "@4001"


def test_a_node_of_another_ledger_is_shown_by_its_path():
    assert node_name("1.3", 0) == "1.3"
