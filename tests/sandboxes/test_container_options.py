"""The exact options that an engine gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopty.domain.launch import Bounds, Launch, Mount, SandboxError
from loopty.kit.records import replace
from loopty.sandboxes.container.engine import ContainerEngine, EngineKind, Image
from loopty.sandboxes.container.options import ContainerSetup, narrow_profile, run_options, write_profile

PODMAN = ContainerEngine("/usr/bin/podman", EngineKind.PODMAN, False, frozenset({"memory", "pids"}), True, False)
DOCKER = replace(PODMAN, program="/usr/bin/docker", kind=EngineKind.DOCKER)
SETUP = ContainerSetup(
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


def options_for(
    launch: Launch = LAUNCH, engine: ContainerEngine = PODMAN, mounted: tuple[str, ...] = (), **changes: object
) -> list[str]:
    setup = replace(SETUP, engine=engine, **changes)  # type: ignore[arg-type]
    return run_options(setup, launch, "loopty-1", [Path(point) for point in mounted])


def mounts(words: list[str]) -> list[str]:
    return [word for word in words if word.startswith(("--mount=", "--volume=", "--tmpfs="))]


def with_mounts(*shown: Mount, scratch: tuple[str, ...] = ()) -> Launch:
    return replace(LAUNCH, mounts=shown, scratch=scratch)


def test_the_command_is_exact_and_the_image_is_named_by_its_content():
    assert options_for()[-5:] == ["--entrypoint=", "sha256:1234", "run", "[it]", "--now"]


@pytest.mark.parametrize("engine", [PODMAN, DOCKER])
def test_a_trial_has_no_privileges(engine):
    words = options_for(engine=engine)
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
def test_no_image_is_fetched_nothing_is_logged_and_no_health_check_runs(engine):
    assert {"--pull=never", "--log-driver=none", "--no-healthcheck"} <= set(options_for(engine=engine))


def test_the_engine_enforces_the_bounds_that_it_can():
    words = options_for()
    assert {"--memory=536870912", "--memory-swap=536870912", "--pids-limit=33"} <= set(words)
    assert {"--ulimit=core=0:0", "--ulimit=fsize=8388608:8388608", "--ulimit=nofile=10:20"} <= set(words)
    bare = options_for(engine=replace(PODMAN, controllers=frozenset()))
    assert not any(word.startswith(("--memory", "--pids-limit")) for word in bare)


def test_processes_are_bounded_by_a_limit_where_it_counts_one_container_only():
    assert "--ulimit=nproc=30:30" in options_for()
    words = options_for(engine=replace(PODMAN, counts_processes=True))
    assert [word for word in words if "nproc" in word] == ["--ulimit=nproc=33:33"]


def test_only_a_launch_that_asks_for_the_network_has_it():
    assert "--network=none" not in options_for(replace(LAUNCH, network=True))


def test_a_rootless_podman_keeps_the_user():
    rootless = replace(PODMAN, rootless=True)
    assert "--userns=keep-id" in options_for(engine=rootless)
    assert not any(word.startswith("--userns") for word in options_for() + options_for(engine=DOCKER))


def test_gpus_are_passed_with_the_option_of_each_engine():
    assert "--device=nvidia.com/gpu=all" in options_for(gpus=True)
    assert "--gpus=all" in options_for(engine=DOCKER, gpus=True)


def test_standard_input_is_open_only_for_a_channel():
    assert "--interactive" not in options_for()
    assert "--interactive" in options_for(replace(LAUNCH, channel=5))


def test_values_of_variables_are_not_on_the_command_line():
    words = options_for(replace(LAUNCH, env={"TOKEN": "secret", "GOOGLE_API_KEY": "secret", "EMPTY": ""}))
    assert {"--env=TOKEN", "--env=GOOGLE_API_KEY", "--env=EMPTY"} <= set(words)
    assert not any("secret" in word for word in words)


def test_variables_that_the_engine_itself_would_read_get_their_value_on_the_command_line():
    words = options_for(replace(LAUNCH, env={"PATH": "/bin", "LD_LIBRARY_PATH": "/lib"}))
    assert {"--env=PATH=/bin", "--env=LD_LIBRARY_PATH=/lib", "--env=HOME=/tmp"} <= set(words)


def test_mounts_are_read_only_unless_writable():
    shown = with_mounts(Mount(Path("/a b=c"), "/tree"), Mount(Path("/b:c"), "/edit", writable=True))
    assert mounts(options_for(shown)) == [
        f"--mount=type=tmpfs,target=/tmp,{TMPFS}",
        "--mount=type=bind,source=/a b=c,target=/tree,readonly",
        "--mount=type=bind,source=/b:c,target=/edit",
    ]


def test_a_path_with_a_comma_uses_the_volume_option():
    shown = with_mounts(Mount(Path("/a,b"), "/tree"), Mount(Path('/"'), "/edit", writable=True))
    assert mounts(options_for(shown))[1:] == ["--volume=/a,b:/tree:ro", '--volume=/":/edit:rw']


def test_a_path_that_no_option_can_express_is_refused():
    with pytest.raises(SandboxError, match="both a colon and a comma"):
        options_for(with_mounts(Mount(Path("/a,b:c"), "/tree")))
    with pytest.raises(SandboxError, match="rename it"):
        options_for(with_mounts(scratch=("/a,b",)))


def test_scratch_is_empty_bounded_and_owned_by_the_trial():
    assert mounts(options_for(with_mounts(scratch=("/build",))))[-1] == f"--mount=type=tmpfs,target=/build,{TMPFS}"
    tmpfs = "rw,exec,nosuid,nodev,size=8388608,mode=1777,uid=61000,gid=61001"
    assert mounts(options_for(with_mounts(scratch=("/build",)), DOCKER))[-1] == f"--tmpfs=/build:{tmpfs}"


def test_mounts_that_a_later_one_covers_are_left_out_because_an_engine_refuses_two_at_one_target():
    shown = with_mounts(
        Mount(Path("/old"), "/tree/part"),
        Mount(Path("/tree"), "/tree"),
        Mount(Path("/one"), "/tree/one"),
        Mount(Path("/two"), "/tree/one"),
        Mount(Path("/scratched"), "/build/deep"),
        Mount(Path("/mine"), "/tmp"),
        scratch=("/build",),
    )
    assert mounts(options_for(shown)) == [
        "--mount=type=bind,source=/tree,target=/tree,readonly",
        "--mount=type=bind,source=/two,target=/tree/one,readonly",
        "--mount=type=bind,source=/mine,target=/tmp,readonly",
        f"--mount=type=tmpfs,target=/build,{TMPFS}",
    ]


def test_mounts_of_the_host_below_a_read_only_mount_are_read_only_too():
    shown = with_mounts(Mount(Path("/data"), "/inside"), Mount(Path("/edit"), "/edit", writable=True))
    words = mounts(options_for(shown, mounted=("/", "/data", "/data/disk", "/database", "/edit/disk")))
    assert words[1:] == [
        "--mount=type=bind,source=/data,target=/inside,readonly",
        "--mount=type=bind,source=/data/disk,target=/inside/disk,readonly",
        "--mount=type=bind,source=/edit,target=/edit",
    ]


def test_volumes_of_the_image_are_kept_off_the_disk():
    assert f"--mount=type=tmpfs,target=/cache,{TMPFS}" in options_for(image=Image("sha256:1234", ("/cache",)))


PROFILE = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "syscalls": [
        {
            "names": ["chmod", "openat", "openat2", "read", "socketcall", "socketpair"],
            "action": "SCMP_ACT_ALLOW",
            "args": [],
        },
        {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": None},
    ],
}


def rules_of(**changes):
    return json.loads(narrow_profile(json.dumps({**PROFILE, **changes})) or "")["syscalls"]


def test_the_engines_filter_is_kept_except_for_the_kinds_of_sockets():
    rules = rules_of()
    assert rules[0] == {"names": ["read", "socketpair"], "action": "SCMP_ACT_ALLOW", "args": []}
    sockets = [rule["args"][0]["value"] for rule in rules[1:] if rule["names"] == ["socket"]]
    assert sockets == [1, 2, 10, 16]


def test_the_engines_filter_lets_no_file_have_a_set_id_bit():
    def allowed(name):
        found = [rule for rule in rules_of()[1:] if rule["names"] == [name]]
        assert all(rule["action"] == "SCMP_ACT_ALLOW" for rule in found)
        conditions = [condition for rule in found for condition in rule["args"]]
        assert all((each["op"], each["valueTwo"]) == ("SCMP_CMP_MASKED_EQ", 0) for each in conditions)
        return [(each["index"], oct(each["value"])) for each in conditions]

    assert allowed("chmod") == allowed("fchmod") == [(1, "0o6000")]
    assert allowed("fchmodat2") == allowed("mknodat") == [(2, "0o6000")]
    assert allowed("openat") == [(2, "0o20000100"), (3, "0o6000")]
    absent = {"names": ["openat2", "process_madvise"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}
    assert rules_of()[-1] == absent
    assert absent not in rules_of(defaultErrnoRet=38), "a rule must not say what the profile says of all calls"


def test_the_engines_filter_ignores_advice_to_drop_what_is_in_memory():
    found = [rule for rule in rules_of() if rule["names"] == ["madvise"]]
    assert [(rule["args"][0]["op"], rule["args"][0]["value"], rule.get("errnoRet")) for rule in found] == [
        ("SCMP_CMP_LT", 20, None),
        ("SCMP_CMP_GT", 21, None),
        ("SCMP_CMP_EQ", 20, 0),
        ("SCMP_CMP_EQ", 21, 0),
    ]
    assert {rule["args"][0]["index"] for rule in found} == {2}


def test_a_filter_that_lists_what_it_refuses_is_not_narrowed():
    assert narrow_profile(json.dumps({**PROFILE, "defaultAction": "SCMP_ACT_ALLOW"})) is None


def test_a_narrowed_filter_is_passed_to_the_engine_and_its_file_is_removed(tmp_path):
    assert not any("seccomp" in word for word in options_for())
    (tmp_path / "profile").write_text(json.dumps(PROFILE))
    path, remove = write_profile(str(tmp_path / "profile"))
    assert f"--security-opt=seccomp={path}" in options_for(profile=path)
    remove()
    assert not Path(path).exists()


@pytest.mark.parametrize("text", ["", "{}", "no JSON"])
def test_a_filter_that_cannot_be_read_is_not_narrowed(tmp_path, text):
    (tmp_path / "profile").write_text(text)
    assert write_profile(str(tmp_path / "profile"))[0] == write_profile(str(tmp_path / "absent"))[0] == ""
