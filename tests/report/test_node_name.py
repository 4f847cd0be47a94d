"""The name of a node on the screen."""

from loopty.report.node_name import node_name, shorten_ids


def test_a_node_is_shown_by_its_id_and_its_handle():
    assert node_name("1.3", 4) == "1.3 #4"


def test_a_deep_id_is_shown_by_its_run_and_its_last_numbers():
    assert node_name("5.1.1.1.1.1.1.1.23.4", 431) == "5…23.4 #431"
    assert node_name(".".join(["5", *["1"] * 4000]), 4001) == "5…1.1 #4001"


def test_a_long_id_of_two_numbers_stays_whole():
    assert node_name("1.1234567890123456", 9) == "1.1234567890123456 #9"


def test_a_node_without_a_handle_is_shown_by_its_id():
    assert node_name("1", 0) == "1"


def test_deep_ids_in_a_message_are_shortened_and_paths_stay_whole():
    deep = "5.1.1.1.1.1.1.1.23.4"
    assert (
        shorten_ids(f"node {deep} is a draft: run `loopty run {deep}`.")
        == "node 5…23.4 is a draft: run `loopty run 5…23.4`."
    )
    for other in (f"a/{deep}", f"{deep}/a", f"{deep}-x", f"x{deep}", "192.168.100.200", "node 1.3 is a draft"):
        assert shorten_ids(other) == other
