"""A change of a file belongs to the agent whose call was running, even where another's ended just before."""

import os
import time

from loopty.features.agents.hosts.hook_call import CallTime, HostWork


def test_an_edit_right_after_the_call_of_a_subagent_is_not_the_subagents():
    work = HostWork(by_subagents=(CallTime(10.0, 11.0),), by_directors=(CallTime(11.03, 11.2),))
    assert work.is_directors(11.05)
    assert not work.is_subagents(11.05)
    assert work.is_subagents(10.5)
    assert not work.is_directors(10.5)


def test_an_edit_by_the_clock_of_another_machine_is_the_only_agents_that_was_at_work_near_it():
    work = HostWork(by_subagents=(CallTime(10.0, 11.0),), by_directors=(CallTime(20.0, 21.0),))
    assert work.is_subagents(11.05)
    assert work.is_directors(21.05)
    assert not work.is_subagents(11.2)
    assert not work.is_directors(11.05)


def test_an_edit_at_the_very_begin_of_a_call_belongs_to_it_although_the_clock_of_files_is_behind(tmp_path):
    for number in range(200):
        file = tmp_path / str(number)
        begin = time.time()
        file.write_text("edit")
        end = time.time()
        assert CallTime(begin, end).has(os.lstat(file).st_ctime)
