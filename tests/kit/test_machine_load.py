"""How busy a machine is, by the counters of the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopty.kit.machine_load import LoadSeen, load_now


def seen(folder: Path, stalled: int, steal: int, idle: int) -> LoadSeen:
    pressure, stat = folder / "cpu", folder / "stat"
    pressure.write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled}\nfull avg10=0.00 total=0\n")
    stat.write_text(f"cpu  100 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3\n")
    return load_now(pressure, stat)


def test_waiting_and_stolen_time_are_shares_of_the_time(tmp_path: Path) -> None:
    first = seen(tmp_path, 1_000_000, 0, 0)
    later = seen(tmp_path, 1_500_000, 10, 90)
    later = LoadSeen(first.at + 2.0, later.stalled_seconds, later.stolen, later.ticks)
    assert first.share_until(later) == pytest.approx(0.25)
    later = LoadSeen(first.at + 50.0, later.stalled_seconds, later.stolen, later.ticks)
    assert first.share_until(later) == pytest.approx(0.1)


def test_a_kernel_without_counters_reads_as_no_load(tmp_path: Path) -> None:
    first = load_now(tmp_path / "none", tmp_path / "none")
    assert first.share_until(load_now(tmp_path / "none", tmp_path / "none")) == 0.0
    assert 0.0 <= load_now().share_until(load_now()) <= 1.0
