"""What an engine is asked for, word by word."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from loopty.domain.launch import Bounds, Launch, Mount, SandboxError
from loopty.sandboxes.container_engine import ContainerEngine, EngineKind, Image
from loopty.sandboxes.container_options import ContainerSetup, run_options
from loopty.sandboxes.container_seccomp import narrow_profile, write_profile

PODMAN = ContainerEngine("/usr/bin/podman", EngineKind.PODMAN, False, frozenset({"memory", "pids"}), True, False)
DOCKER = dataclasses.replace(PODMAN, program="/usr/bin/docker", kind=EngineKind.DOCKER)
TERMS = ContainerSetup(
    PODMAN, Image("sha256:1234", ()), False, (61000, 61001), {"nofile": "10:20", "nproc": "30:30"}
)
LAUNCH = Launch(
    argv=("run", "[it]", "--now"),
    cwd="/tree",
    bounds=Bounds(seconds=60, memory_mb=512, processes=32, output_mb=4, disk_mb=8),
    stdout=Path("/out"),
    stderr=Path("/err"),
)
TMPFS = "tmpfs-size=8388608,tmpfs-mode=1777,notmpcopyup,U=true"


def asked(
    launch: Launch = LAUNCH, engine: ContainerEngine = PODMAN, mounted: tuple[str, ...] = (), **terms: object
) -> list[str]:
    changed = dataclasses.replace(TERMS, engine=engine, **terms)  # type: ignore[arg-type]
    return run_options(changed, launch, "loopty-1", [Path(point) for point in mounted])


def mounts(words: list[str]) -> list[str]:
    return [word for word in words if word.startswith(("--mount=", "--volume=", "--tmpfs="))]


def with_mounts(*shown: Mount, scratch: tuple[str, ...] = ()) -> Launch:
    return dataclasses.replace(LAUNCH, mounts=shown, scratch=scratch)


def test_the_command_is_run_exactly_and_by_the_content_of_the_image():
    assert asked()[-5:] == ["--entrypoint=", "sha256:1234", "run", "[it]", "--now"]


@pytest.mark.parametrize("engine", [PODMAN, DOCKER])
def test_a_trial_has_no_rights(engine):
    words = asked(engine=engine)
    for word in (
        "read-only",
        "cap-drop=ALL",
        "security-opt=no-new-privileges",
        "network=none",
        "user=61000:61001",
    ):
        assert f"--{word}" in words
    assert not any(word.startswith(("--privileged", "--device", "--gpus", "--cap-add")) for word in words)


@pytest.mark.parametrize("engine", [PODMAN, DOCKER])
def test_nothing_is_fetched_nothing_is_logged_and_no_check_runs(engine):
    assert {"--pull=never", "--log-driver=none", "--no-healthcheck"} <= set(asked(engine=engine))


def test_bounds_are_kept_by_the_engine_where_it_can():
    words = asked()
    assert {"--memory=536870912", "--memory-swap=536870912", "--pids-limit=33"} <= set(words)
    assert {"--ulimit=core=0:0", "--ulimit=fsize=8388608:8388608", "--ulimit=nofile=10:20"} <= set(words)
    bare = asked(engine=dataclasses.replace(PODMAN, controllers=frozenset()))
    assert not any(word.startswith(("--memory", "--pids-limit")) for word in bare)


def test_processes_are_bounded_by_a_limit_where_it_counts_one_container_alone():
    assert "--ulimit=nproc=30:30" in asked()
    words = asked(engine=dataclasses.replace(PODMAN, counts_processes=True))
    assert [word for word in words if "nproc" in word] == ["--ulimit=nproc=33:33"]


def test_the_network_is_there_only_when_asked_for():
    assert "--network=none" not in asked(dataclasses.replace(LAUNCH, network=True))


def test_a_rootless_podman_keeps_the_user():
    rootless = dataclasses.replace(PODMAN, rootless=True)
    assert "--userns=keep-id" in asked(engine=rootless)
    assert not any(word.startswith("--userns") for word in asked() + asked(engine=DOCKER))


def test_gpus_are_passed_on_in_the_words_of_each_engine():
    assert "--device=nvidia.com/gpu=all" in asked(gpus=True)
    assert "--gpus=all" in asked(engine=DOCKER, gpus=True)


def test_standard_input_is_open_only_for_a_channel():
    assert "--interactive" not in asked()
    assert "--interactive" in asked(dataclasses.replace(LAUNCH, channel=5))


def test_values_of_variables_are_not_on_the_command_line():
    words = asked(dataclasses.replace(LAUNCH, env={"TOKEN": "secret", "GOOGLE_API_KEY": "secret", "EMPTY": ""}))
    assert {"--env=TOKEN", "--env=GOOGLE_API_KEY", "--env=EMPTY"} <= set(words)
    assert not any("secret" in word for word in words)


def test_variables_that_would_steer_the_engine_itself_are_said_to_the_container_alone():
    words = asked(dataclasses.replace(LAUNCH, env={"PATH": "/bin", "LD_LIBRARY_PATH": "/lib"}))
    assert {"--env=PATH=/bin", "--env=LD_LIBRARY_PATH=/lib", "--env=HOME=/tmp"} <= set(words)


def test_mounts_are_read_only_unless_writable():
    shown = with_mounts(Mount(Path("/a b=c"), "/tree"), Mount(Path("/b:c"), "/edit", writable=True))
    assert mounts(asked(shown)) == [
        f"--mount=type=tmpfs,target=/tmp,{TMPFS}",
        "--mount=type=bind,source=/a b=c,target=/tree,readonly",
        "--mount=type=bind,source=/b:c,target=/edit",
    ]


def test_a_path_with_a_comma_goes_by_the_other_option():
    shown = with_mounts(Mount(Path("/a,b"), "/tree"), Mount(Path('/"'), "/edit", writable=True))
    assert mounts(asked(shown))[1:] == ["--volume=/a,b:/tree:ro", '--volume=/":/edit:rw']


def test_a_path_that_no_option_can_say_is_refused():
    with pytest.raises(SandboxError, match="both a colon and a comma"):
        asked(with_mounts(Mount(Path("/a,b:c"), "/tree")))
    with pytest.raises(SandboxError, match="rename it"):
        asked(with_mounts(scratch=("/a,b",)))


def test_scratch_is_empty_bounded_and_the_trials_own():
    assert mounts(asked(with_mounts(scratch=("/build",))))[-1] == f"--mount=type=tmpfs,target=/build,{TMPFS}"
    tmpfs = "rw,exec,nosuid,nodev,size=8388608,mode=1777,uid=61000,gid=61001"
    assert mounts(asked(with_mounts(scratch=("/build",)), DOCKER))[-1] == f"--tmpfs=/build:{tmpfs}"


def test_a_later_mount_covers_what_is_below_it_as_an_engine_refuses_two_at_one_place():
    shown = with_mounts(
        Mount(Path("/old"), "/tree/part"),
        Mount(Path("/tree"), "/tree"),
        Mount(Path("/one"), "/tree/one"),
        Mount(Path("/two"), "/tree/one"),
        Mount(Path("/scratched"), "/build/deep"),
        Mount(Path("/mine"), "/tmp"),
        scratch=("/build",),
    )
    assert mounts(asked(shown)) == [
        "--mount=type=bind,source=/tree,target=/tree,readonly",
        "--mount=type=bind,source=/two,target=/tree/one,readonly",
        "--mount=type=bind,source=/mine,target=/tmp,readonly",
        f"--mount=type=tmpfs,target=/build,{TMPFS}",
    ]


def test_what_the_host_mounts_below_a_read_only_mount_is_read_only_too():
    shown = with_mounts(Mount(Path("/data"), "/inside"), Mount(Path("/edit"), "/edit", writable=True))
    words = mounts(asked(shown, mounted=("/", "/data", "/data/disk", "/database", "/edit/disk")))
    assert words[1:] == [
        "--mount=type=bind,source=/data,target=/inside,readonly",
        "--mount=type=bind,source=/data/disk,target=/inside/disk,readonly",
        "--mount=type=bind,source=/edit,target=/edit",
    ]


def test_volumes_of_the_image_are_kept_off_the_disk():
    assert f"--mount=type=tmpfs,target=/cache,{TMPFS}" in asked(image=Image("sha256:1234", ("/cache",)))


PROFILE = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "syscalls": [
        {"names": ["read", "socketcall", "socketpair"], "action": "SCMP_ACT_ALLOW", "args": []},
        {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": None},
    ],
}


def test_the_engines_filter_is_kept_but_for_the_kinds_of_sockets():
    rules = json.loads(narrow_profile(json.dumps(PROFILE)) or "")["syscalls"]
    assert rules[0] == {"names": ["read", "socketpair"], "action": "SCMP_ACT_ALLOW", "args": []}
    assert {name for rule in rules[1:] for name in rule["names"]} == {"socket"}
    assert [rule["args"][0]["value"] for rule in rules[1:]] == [1, 2, 10, 16]


def test_a_filter_that_names_what_it_refuses_is_left_to_the_engine():
    assert narrow_profile(json.dumps({**PROFILE, "defaultAction": "SCMP_ACT_ALLOW"})) is None


def test_a_filter_of_ours_is_named_and_goes_with_its_file(tmp_path):
    assert not any("seccomp" in word for word in asked())
    (tmp_path / "profile").write_text(json.dumps(PROFILE))
    path, remove = write_profile(str(tmp_path / "profile"))
    assert f"--security-opt=seccomp={path}" in asked(profile=path)
    remove()
    assert not Path(path).exists()


@pytest.mark.parametrize("text", ["", "{}", "no JSON"])
def test_a_filter_that_cannot_be_read_is_left_to_the_engine(tmp_path, text):
    (tmp_path / "profile").write_text(text)
    assert write_profile(str(tmp_path / "profile"))[0] == write_profile(str(tmp_path / "absent"))[0] == ""
