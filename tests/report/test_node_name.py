"""The name of a node on the screen."""

from loopty.report.node_name import node_name


def test_a_node_is_shown_by_its_id_and_its_handle():
    assert node_name("1.3", 4) == "1.3 #4"


def test_a_deep_id_is_shown_by_its_run_and_its_last_numbers():
    assert node_name("5.1.1.1.1.1.1.1.23.4", 431) == "5…23.4 #431"
    assert node_name(".".join(["5", *["1"] * 4000]), 4001) == "5…1.1 #4001"


def test_a_long_id_of_two_numbers_stays_whole():
    assert node_name("1.1234567890123456", 9) == "1.1234567890123456 #9"


def test_a_node_without_a_handle_is_shown_by_its_id():
    assert node_name("1", 0) == "1"
