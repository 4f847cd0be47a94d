"""The fingerprint of a machine stays the same while results are comparable, and changes when they are not."""

import os
import sys
import time
from pathlib import Path

import pytest

from loopty.domain.trial import Machine, differences
from loopty.executors.this_machine import machine_drift, this_machine
from loopty.kit.installation import working_program

X86 = """processor\t: {number}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 207
model name\t: Intel(R) Xeon(R) Processor
stepping\t: {stepping}
microcode\t: {microcode}
cpu MHz\t\t: {mhz}
cache size\t: 307200 KB
flags\t\t: fpu vme avx2 {flags}
bogomips\t: {mhz}

"""
ARM = """processor\t: {number}
BogoMIPS\t: 243.75
Features\t: {features}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: {part}
CPU revision\t: 1

"""
FILES = {
    "proc/cpuinfo": X86.format(number=0, stepping=2, microcode="0x1", mhz=2100, flags="aes")
    + X86.format(number=1, stepping=2, microcode="0x1", mhz=2100, flags="aes"),
    "proc/meminfo": "MemTotal:       131980916 kB\nMemFree:        23013996 kB\n",
    "proc/self/status": "Name:\tpython\nCpus_allowed:\tffff\nCpus_allowed_list:\t0-15\n",
    "proc/self/cgroup": "0::/user.slice/job\n",
    "proc/sys/kernel/osrelease": "6.18.44-generic\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release\n",
    "proc/driver/nvidia/gpus/0000:00:06.0/information": "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\n",
    "etc/os-release": 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nID=ubuntu\nVERSION_ID="24.04"\n',
}


class Root:
    """A machine made of files."""

    def __init__(self, top: Path) -> None:
        self.top = top
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name: str, text: str | bytes) -> None:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    @property
    def machine(self) -> Machine:
        return this_machine("bubblewrap", sys.executable, root=self.top)


@pytest.fixture
def root(tmp_path):
    return Root(tmp_path / "root")


def test_the_facts_are_those_that_a_person_would_ask_for(root):
    facts = root.machine.facts
    assert list(facts) == ["cpu", "cores", "memory", "gpu", "system", "python", "sandbox"]
    assert facts["cpu"] == f"{os.uname().machine} Intel(R) Xeon(R) Processor (6-207-2)"
    assert facts["cores"] == "16"
    assert facts["memory"] == "128 GiB"
    assert facts["gpu"] == "1 × NVIDIA H200 (driver 580.159.04)"
    assert facts["system"].startswith("ubuntu 24.04, Linux 6.18")
    assert facts["python"] == f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    assert facts["sandbox"] == "bubblewrap"


def test_a_machine_that_changes_under_a_process_is_noticed(root):
    facts = root.machine.facts
    assert machine_drift(facts, root.top) == ""
    root.write("proc/self/status", "Cpus_allowed_list:\t0-3\n")
    assert machine_drift(facts, root.top) == "cores: 16 before, 4 now"


def test_the_digest_has_twelve_characters_and_ignores_the_order_of_the_facts():
    assert Machine({"a": "1", "b": "2"}).fingerprint == Machine({"b": "2", "a": "1"}).fingerprint
    assert len(Machine({}).fingerprint) == 12


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("proc/cpuinfo", X86.format(number=0, stepping=2, microcode="0x2b", mhz=3400.123, flags="aes amx") * 2),
        ("proc/meminfo", "MemTotal:       131880916 kB\nMemFree:        1 kB\n"),
        ("proc/sys/kernel/osrelease", "6.18.99-generic\n"),
        ("proc/uptime", "1.0 1.0\n"),
        ("proc/loadavg", "99.0 99.0 99.0 100/200 3\n"),
        ("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/user.slice/job/memory.max", "max\n"),
        ("etc/os-release", 'PRETTY_NAME="Ubuntu 24.04.9 LTS"\nID=ubuntu\nVERSION_ID="24.04"\n'),
    ],
)
def test_a_reboot_a_patch_or_load_changes_nothing(root, name, text):
    before = root.machine
    root.write(name, text)
    assert root.machine == before


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("proc/cpuinfo", X86.format(number=0, stepping=7, microcode="0x1", mhz=2100, flags="aes"), "cpu"),
        ("proc/cpuinfo", ARM.format(number=0, part="0xd0c", features="fp"), "cpu"),
        ("proc/self/status", "Cpus_allowed_list:\t0-3,8,10-11\n", "cores"),
        ("sys/fs/cgroup/user.slice/job/cpu.max", "350000 100000\n", "cores"),
        ("sys/fs/cgroup/user.slice/cpu.max", "200000 100000\n", "cores"),
        ("sys/fs/cgroup/memory.max", f"{8 << 30}\n", "memory"),
        ("proc/meminfo", "MemTotal:       65980916 kB\n", "memory"),
        ("proc/driver/nvidia/gpus/0000:00:07.0/information", "Model: \t\t NVIDIA H200\n", "gpu"),
        ("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu\n", "gpu"),
        ("proc/sys/kernel/osrelease", "6.19.1-generic\n", "system"),
        ("etc/os-release", "ID=debian\nVERSION_ID=12\n", "system"),
        ("sys/class/dmi/id/product_name", "m6g.large\n", "product"),
    ],
)
def test_a_change_that_makes_results_incomparable_changes_only_its_fact(root, name, text, fact):
    before = root.machine
    root.write(name, text)
    after = root.machine
    lines = differences(before.facts, after.facts)
    assert after.fingerprint != before.fingerprint
    assert [line.partition(":")[0] for line in lines] == [fact]


@pytest.mark.parametrize(
    ("kilobytes", "bought"),
    [(494420, 1), (2014544, 2), (3882140, 4), (8025344, 8), (16303428, 16), (24643328, 24), (263711492, 256)],
)
def test_memory_is_the_size_bought_and_not_the_part_that_the_kernel_leaves(root, kilobytes, bought):
    root.write("proc/meminfo", f"MemTotal: {kilobytes} kB\n")
    assert root.machine.facts["memory"] == f"{bought} GiB"


def test_the_quota_of_a_container_counts_in_both_versions_of_control_groups(root):
    root.write("proc/self/cgroup", "5:cpuset:/\n4:memory:/docker/1\n1:cpu,cpuacct:/docker/1\n0::/\n")
    root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n")
    root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    root.write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", f"{4 << 30}\n")
    root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert root.machine.facts["cores"] == "2"
    assert root.machine.facts["memory"] == "4 GiB"


def test_cores_without_a_name_are_identified_by_numbers_and_all_kinds_count(root):
    cores = [ARM.format(number=n, part=part, features="fp aes") for n, part in enumerate(["0xd0c", "0xd0b"] * 2)]
    root.write("proc/cpuinfo", "".join(cores))
    cpu = root.machine.facts["cpu"]
    assert "0x41/0xd0b 0x3.1, features " in cpu
    assert " + 0x41/0xd0c" in cpu
    root.write("proc/cpuinfo", "".join(reversed(cores)).replace("fp aes", "aes fp"))
    assert root.machine.facts["cpu"] == cpu
    root.write("proc/cpuinfo", "".join(cores).replace("fp aes", "fp"))
    assert root.machine.facts["cpu"] != cpu


def test_many_cores_are_not_read_to_the_end_and_a_truncated_one_is_no_new_kind(root):
    before = root.machine
    root.write("proc/cpuinfo", FILES["proc/cpuinfo"].replace("aes", "flag " * 200) * 200)
    assert root.machine == before


def test_amd_accelerators_are_distinguished_from_cpus(root):
    nodes = "sys/class/kfd/kfd/topology/nodes"
    root.write(f"{nodes}/0/properties", "cpu_cores_count 64\nsimd_count 0\n")
    for number in (1, 2):
        root.write(f"{nodes}/{number}/properties", "simd_count 304\ngfx_target_version 90402\ndevice_id 29857\n")
        root.write(f"{nodes}/{number}/name", "gfx942\n")
    assert "2 × gfx942 gfx90402 29857" in root.machine.facts["gpu"]


def test_a_machine_without_known_facts_still_has_a_fingerprint(tmp_path):
    machine = this_machine("unsafe", None, root=tmp_path)
    assert machine == this_machine("unsafe", None, root=tmp_path)
    assert machine.facts["sandbox"] == "unsafe"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("garbage", [b"", b"\0\xff" * 5000, b":::\n\n=\n ,-\n", b"9" * 9999, b"Model:\n- -\n1:\n"])
def test_garbage_anywhere_breaks_nothing(root, name, garbage):
    root.write(name, garbage)
    assert len(root.machine.fingerprint) == 12


@pytest.mark.parametrize(
    "line", ["MemTotal: " + "9" * 5000 + " kB", "Cpus_allowed_list:\t-,,-3,9-", "0::/../../etc"]
)
def test_absurd_numbers_and_paths_break_nothing(root, line):
    for name in FILES:
        root.write(name, f"{line}\n")
    assert len(root.machine.fingerprint) == 12


def test_directories_and_loops_in_place_of_files_break_nothing(root):
    for name in FILES:
        (root.top / name).unlink()
        (root.top / name).mkdir()
    (root.top / "sys").mkdir()
    (root.top / "sys/class").symlink_to("class")
    assert len(root.machine.fingerprint) == 12


def test_another_python_is_asked_for_its_version(tmp_path):
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho pypy 3.10.14\n")
    other.chmod(0o755)
    assert this_machine("unsafe", str(other)).facts["python"] == "pypy 3.10.14"
    assert "python" not in this_machine("unsafe", str(tmp_path / "none")).facts


def test_a_compiler_counts_when_it_is_given(tmp_path):
    assert "compiler" not in this_machine("unsafe", None).facts
    assert "compiler" not in this_machine("unsafe", None, compiler=str(tmp_path)).facts
    if found := working_program("cc"):
        assert any(
            character.isdigit() for character in this_machine("unsafe", None, compiler=found).facts["compiler"]
        )


def test_extra_facts_of_the_caller_are_included(root):
    machine = this_machine("container", None, {"image": "python:3.13"}, root=root.top)
    assert machine.facts["image"] == "python:3.13"
    assert "python" not in machine.facts


def test_differences_are_listed_in_both_directions():
    assert differences({"cpu": "A", "gpu": "G"}, {"cpu": "B", "memory": "8 GiB"}) == [
        "cpu: A, now B",
        "gpu: G, now unknown",
        "memory: unknown, now 8 GiB",
    ]
    assert differences({"cpu": "A"}, {"cpu": "A"}) == []


def test_the_fingerprint_of_this_machine_is_stable_and_cheap():
    first = this_machine("bubblewrap", sys.executable)
    started = time.perf_counter()
    for _ in range(20):
        assert this_machine("bubblewrap", sys.executable) == first
    assert time.perf_counter() - started < 20
    assert {"cpu", "cores", "memory", "system", "python", "sandbox"} <= set(first.facts)
