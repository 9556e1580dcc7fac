# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import dump_listing
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of

SECRET = "hunter2"
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            1048576              1048576              files
Max locked memory         8388608              unlimited            bytes
"""
STATUS = f"Name:\tcontainerd\nVmRSS:\t{SECRET} kB\nCapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\n"
CONFIG = f"""version = 2
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins."io.containerd.grpc.v1.cri".registry.configs."example.org".auth]
password = "{SECRET}"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "nvidia"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "/etc/containerd/base.json"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
BinaryName = "/usr/bin/nvidia-container-runtime"
"""
MEMLOCK = {"type": "RLIMIT_MEMLOCK", "soft": 2**64 - 1, "hard": 2**64 - 1}
SPEC = {"ociVersion": "1.1.0", "process": {"rlimits": [MEMLOCK], "env": [f"A={SECRET}"]}, "hostname": SECRET}
SOCKET = "/run/containerd/containerd.sock"
SAYS = {
    "version": "v1.7.24",
    "ready": True,
    "default_handler": "nvidia",
    "handlers": {
        "runc": {"base_runtime_spec": None, "runtime_type": "io.containerd.runc.v2"},
        "nvidia": {"base_runtime_spec": "/etc/containerd/base.json", "runtime_type": "io.containerd.runc.v2"},
    },
}


def process(machine: Machine, pid: int, unit: str, command: str, cgroup: str = "/sys/fs/cgroup/system.slice") -> None:
    path = f"{cgroup}/{unit}/cgroup.procs"
    known = machine.entries[path].data.decode() if path in machine.entries else ""
    machine.file(path, f"{known}{pid}\n")
    machine.file(f"/proc/{pid}/comm", command + "\n")


def daemon(
    pid: int = 812,
    unit: str = "containerd.service",
    arguments: tuple[str, ...] = ("/usr/bin/containerd",),
    cgroup: str = "/sys/fs/cgroup/system.slice",
    exe: str = "/usr/bin/containerd",
    said: dict[str, Any] | str | None = "SAYS",
) -> Machine:
    machine = Machine()
    # shims are in the service's group, too, and one has a smaller number since they were counted round
    process(machine, 99, unit, "containerd-shim", cgroup)
    process(machine, pid, unit, "containerd", cgroup)
    machine.file(f"/proc/{pid}/cmdline", "\0".join(arguments) + "\0")
    machine.entries[f"/proc/{pid}/exe"] = Entry("l", target=exe)
    machine.file(f"/proc/{pid}/limits", LIMITS)
    machine.file(f"/proc/{pid}/status", STATUS)
    machine.file(f"/proc/{pid}/uid_map", "         0          0 4294967295\n")
    machine.file("/etc/containerd/config.toml", CONFIG)
    machine.file("/etc/containerd/base.json", json.dumps(SPEC))
    machine.file(f"/usr/lib/systemd/system/{unit}", f"[Service]\nEnvironment=HTTPS_PROXY={SECRET}\nKillMode=process\n")
    if said is not None:
        machine.file(f"/.answers/cri{SOCKET}", json.dumps(SAYS if said == "SAYS" else said))
    machine.file(f"/.answers/changed/{pid}/etc/containerd/base.json", "0")
    machine.file(f"/.answers/changed/{pid}/etc/containerd/config.toml", "0")
    return machine


def runtime(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = facts_of(machine, ["runtime"])["runtime"]
    return found


def containerd(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = runtime(machine)["containerd"]
    return found


def test_an_empty_root_has_no_runtime() -> None:
    services = {"containerd": False, "iscsid": False, "kubelet": False, "multipathd": False}
    assert runtime(Machine()) == {
        "as_root": None,
        "distribution": "none",
        "containerd": None,
        "specs": {},
        "services": services,
    }
    assert facts_of(Machine(), ["limits"])["limits"] == {"init": None, "session": None}


def test_a_running_daemon_tells_handlers_specs_and_limits() -> None:
    machine = daemon()
    machine.file("/etc/kubernetes/kubelet.conf")
    process(machine, 900, "kubelet.service", "kubelet")
    found = runtime(machine)
    assert found["distribution"] == "kubeadm"
    assert found["services"] == {"containerd": True, "iscsid": False, "kubelet": True, "multipathd": False}
    assert found["specs"] == {"/etc/containerd/base.json": {"rlimits": [MEMLOCK], "error": None}}
    handlers = {
        "runc": {"base_runtime_spec": None, "runtime_type": "io.containerd.runc.v2"},
        "nvidia": {"base_runtime_spec": "/etc/containerd/base.json", "runtime_type": "io.containerd.runc.v2"},
    }
    assert found["containerd"] == {
        "version": "1.7.24",
        "generation": "1.7",
        "pid": 812,
        "unit": "containerd.service",
        "binary": "/usr/bin/containerd",
        "socket": SOCKET,
        "config_path": "/etc/containerd/config.toml",
        "config_version": 2,
        "files": ["/etc/containerd/config.toml"],
        "handlers": {name: {**one, "file": "/etc/containerd/config.toml"} for name, one in handlers.items()},
        "default_handler": "nvidia",
        "nri": {"enabled": False, "socket": "/var/run/nri/nri.sock"},
        "cni": {"config": "/etc/cni/net.d", "programs": "/opt/cni/bin"},
        "running": {"ready": True, "error": None, "default_handler": "nvidia", "handlers": handlers},
        "stale": False,
        "daemon_rlimits": {
            "memlock": {"soft": 8388608, "hard": "unlimited"},
            "nofile": {"soft": 1048576, "hard": 1048576},
        },
        "kill_mode": "process",
        "limit_memlock": None,
        "user_namespace": False,
        "cap_sys_resource": True,
    }


@pytest.mark.parametrize(
    ("unit", "cgroup", "distribution"),
    [
        ("containerd.service", "/sys/fs/cgroup/systemd/system.slice", "none"),
        ("containerd.service", "/sys/fs/cgroup/unified/system.slice", "none"),
        ("containerd.service", "/sys/fs/cgroup/runtime.slice", "none"),
        ("k3s.service", "/sys/fs/cgroup/system.slice", "k3s"),
        ("k3s-agent.service", "/sys/fs/cgroup/system.slice", "k3s"),
        ("rke2-server.service", "/sys/fs/cgroup/system.slice", "rke2"),
        ("k0sworker.service", "/sys/fs/cgroup/system.slice", "k0s"),
        ("snap.microk8s.daemon-containerd.service", "/sys/fs/cgroup/system.slice", "microk8s"),
    ],
)
def test_where_a_daemon_is_found(unit: str, cgroup: str, distribution: str) -> None:
    found = runtime(daemon(unit=unit, cgroup=cgroup))
    assert found["distribution"] == distribution
    assert found["containerd"]["unit"] == unit
    assert found["services"]["containerd"]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("kubereserved.slice", "kubereserved.slice"),
        ("kube-node-runtime.slice", "kube.slice/kube-node.slice/kube-node-runtime.slice"),
    ],
)
def test_a_service_in_a_slice_of_its_own_is_found(name: str, place: str) -> None:
    """As kube-reserved is enforced; also in a capture."""
    machine = daemon(cgroup=f"/sys/fs/cgroup/{place}")
    machine.file("/etc/systemd/system/containerd.service.d/10-slice.conf", f"[Service]\nSlice={name}\n")
    process(machine, 900, "kubelet.service", "kubelet", f"/sys/fs/cgroup/{place}")
    machine.file("/etc/systemd/system/kubelet.service", f"[Service]\nSlice={name}\n")
    for tree in (machine.tree(), MemoryTree(record(machine.tree()))):
        found = facts_of(tree, ["runtime"])["runtime"]
        assert (found["containerd"]["pid"], found["services"]["containerd"]) == (812, True)
        assert found["services"]["kubelet"]


@pytest.mark.parametrize("name", ["../../etc", "-.slice", "a/b.slice", ""])
def test_a_slice_that_is_none_is_not_looked_for(name: str) -> None:
    machine = daemon()
    machine.file("/etc/systemd/system/containerd.service.d/10-slice.conf", f"[Service]\nSlice={name}\n")
    assert containerd(machine)["pid"] == 812


@pytest.mark.parametrize("unit", ["k3s-agent.service", "rke2-server.service"])
def test_the_containerd_of_docker_is_not_taken_for_that_of_the_distribution(unit: str) -> None:
    """Docker's packages run it in containerd.service."""
    machine = daemon(pid=812, unit=unit)
    process(machine, 700, "containerd.service", "containerd")
    found = runtime(machine)
    assert (found["containerd"]["unit"], found["containerd"]["pid"]) == (unit, 812)
    assert found["distribution"] == unit.partition("-")[0]


def test_a_process_of_the_same_name_is_not_the_daemon() -> None:
    assert runtime(daemon(unit="docker.service"))["containerd"] is None
    machine = daemon()
    # `containerd publish` of a shim, a process of the same name
    process(machine, 500, "containerd.service", "containerd")
    machine.file("/proc/500/cmdline", "/usr/bin/containerd\0--address\0x\0publish\0--topic\0/tasks/exit\0")
    assert containerd(machine)["pid"] == 812


@pytest.mark.parametrize(
    ("arguments", "config", "socket"),
    [
        (("--config", "/c.toml", "--address=/s"), "/c.toml", "/s"),
        (("-c", "/c.toml", "-a", "/s"), "/c.toml", "/s"),
        (("--config=/c.toml", "-a=/s"), "/c.toml", "/s"),
        (("--config", "c.toml"), "/c.toml", SOCKET),
        (("-l", "debug", "--config"), "/etc/containerd/config.toml", SOCKET),
    ],
)
def test_what_the_process_was_told(arguments: tuple[str, ...], config: str, socket: str) -> None:
    found = containerd(daemon(arguments=("containerd", *arguments)))
    assert (found["config_path"], found["socket"]) == (config, socket)


def test_a_program_with_many_names_that_was_upgraded() -> None:
    machine = daemon(unit="k3s.service", exe="/var/lib/rancher/k3s/data/1/bin/k3s (deleted)")
    assert containerd(machine)["binary"] == "/var/lib/rancher/k3s/data/1/bin/containerd"


@pytest.mark.parametrize(
    ("files", "version"),
    [
        (
            {"/.answers/version/usr/bin/containerd": "containerd github.com/containerd/containerd 1.6.20~ds1 abc"},
            "1.6.20~ds1",
        ),
        (
            {"/.answers/version/usr/bin/containerd": "containerd github.com/k3s-io/containerd v2.1.5-k3s1 x"},
            "2.1.5-k3s1",
        ),
        (
            {
                "/var/lib/dpkg/status": "Package: x\nStatus: install ok installed\nVersion: 1\n\n"
                "Package: containerd\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:1.6.20~ds1-1+deb12u1\n\n"
            },
            "1.6.20",
        ),
        (
            {
                "/var/lib/dpkg/status": "Package: containerd\nStatus: deinstall ok config-files\nVersion: 1.6.20\n\n"
                "Package: containerd.io\nStatus: install ok installed\nVersion: 1.7.24-1\n"
            },
            "1.7.24",
        ),
        ({}, None),
    ],
)
def test_the_version_of_a_daemon_that_says_nothing(files: dict[str, str], version: str | None) -> None:
    machine = daemon(said=None)
    for path, text in files.items():
        machine.file(path, text)
    facts = facts_of(machine, ["runtime"])
    assert facts["runtime"]["containerd"]["version"] == version
    assert facts["warnings"] == (
        [] if version else ["containerd's version is not known: its configuration is not read"]
    )


def test_a_daemon_without_cri_is_not_ready_and_says_why() -> None:
    machine = daemon(said={"error": "unknown service runtime.v1.RuntimeService"})
    machine.file("/.answers/version/usr/bin/containerd", "containerd c 1.7.24 x")
    found = containerd(machine)
    assert found["running"] == {
        "ready": None,
        "error": "unknown service runtime.v1.RuntimeService",
        "default_handler": None,
        "handlers": {},
    }
    assert found["stale"] is False, "the times of the files tell"


@pytest.mark.parametrize(
    ("answers", "handlers", "stale"),
    [
        ({}, None, False),
        ({"base.json": "1"}, None, True),
        # the daemon itself tells that its configuration is the one in the file, whenever that was touched
        ({"config.toml": "1"}, None, False),
        ({}, {"runc": {"base_runtime_spec": None}}, True),
        ({}, {**SAYS["handlers"], "nvidia": {"base_runtime_spec": "/old.json"}}, True),  # type: ignore[dict-item]
        ({"config.toml": "1"}, {}, True),
    ],
)
def test_a_daemon_that_has_not_read_its_files_is_stale(
    answers: dict[str, str], handlers: dict[str, Any] | None, stale: bool
) -> None:
    machine = daemon(said=SAYS if handlers is None else {**SAYS, "handlers": handlers})
    for name, answer in answers.items():
        machine.file(f"/.answers/changed/812/etc/containerd/{name}", answer)
    assert containerd(machine)["stale"] is stale


@pytest.mark.parametrize(
    ("lines", "enabled"),
    [
        ('[plugins."io.containerd.nri.v1.nri"]\ndisable = false\n', True),
        ('[plugins."io.containerd.nri.v1.nri"]\ndisable = true\n', False),
        ("", False),
    ],
)
def test_nri_is_as_the_files_switch_it_also_in_a_capture(lines: str, enabled: bool) -> None:
    machine = daemon()
    machine.file("/etc/containerd/config.toml", CONFIG + lines)
    assert containerd(machine)["nri"] == {"enabled": enabled, "socket": "/var/run/nri/nri.sock"}
    copy = Machine()
    copy.entries = dict(record(machine.tree()))
    assert containerd(copy)["nri"]["enabled"] is enabled


@pytest.mark.parametrize("line", ['bin_dir = "/usr/lib/cni"', 'bin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]'])
def test_cni_is_where_the_files_say_also_in_a_capture(line: str) -> None:
    """Debian's containerd has its plugins in a directory of its own."""
    machine = daemon(said={**SAYS, "version": "2.1.4"})
    machine.file("/etc/containerd/config.toml", f'version = 3\n[plugins."io.containerd.cri.v1.runtime".cni]\n{line}\n')
    assert containerd(machine)["cni"] == {"config": "/etc/cni/net.d", "programs": "/usr/lib/cni"}
    copy = Machine()
    copy.entries = dict(record(machine.tree()))
    assert containerd(copy)["cni"] == containerd(machine)["cni"]


def test_a_plugin_that_is_switched_off_by_its_name_is_off_in_a_capture_too() -> None:
    machine = daemon()
    machine.file(
        "/etc/containerd/config.toml", 'disabled_plugins = ["io.containerd.nri.v1.nri", "other.x.y.z"]\nversion = 2\n'
    )
    copy = Machine()
    copy.entries = dict(record(machine.tree()))
    assert "other" not in copy.tree().text("/etc/containerd/config.toml")
    assert containerd(copy)["nri"]["enabled"] is False


def test_nri_of_a_configuration_that_cannot_be_read_is_unknown() -> None:
    machine = daemon()
    machine.file("/etc/containerd/config.toml", "version = 2\n[plugins]\n[plugins.\n")
    assert containerd(machine)["nri"] == {"enabled": None, "socket": None}


def test_stale_is_unknown_where_no_time_is() -> None:
    machine = daemon()
    machine.remove("/.answers/changed")
    assert containerd(machine)["stale"] is None


UNITS = "/etc/systemd/system"


@pytest.mark.parametrize(
    ("files", "links", "unit", "distribution"),
    [
        # Fedora has that of all services
        (["/usr/lib/systemd/system/service.d/10-timeout-abort.conf"], {}, None, "none"),
        (["/etc/systemd/system/k3s.service.d/10-ours.conf"], {}, None, "none"),
        (["/etc/systemd/system/k3s.service", "/usr/lib/systemd/system/containerd.service"], {}, "k3s.service", "k3s"),
        (
            ["/etc/systemd/system/k3s.service", "/usr/lib/systemd/system/containerd.service"],
            {f"{UNITS}/multi-user.target.wants/containerd.service": "/usr/lib/systemd/system/containerd.service"},
            "containerd.service",
            "none",
        ),
        (
            ["/usr/lib/systemd/system/containerd.service"],
            {f"{UNITS}/containerd.service": "/dev/null"},
            None,
            "none",
        ),
    ],
)
def test_what_is_left_of_another_distribution_is_not_the_one_that_starts(
    files: list[str], links: dict[str, str], unit: str | None, distribution: str
) -> None:
    machine = Machine()
    for path in files:
        machine.file(path, "[Service]\n")
    for path, target in links.items():
        machine.entries[path] = Entry("l", target=target)
    found = runtime(machine)
    assert ((found["containerd"] or {}).get("unit"), found["distribution"]) == (unit, distribution)


def test_one_that_is_installed_and_does_not_run() -> None:
    machine = daemon(said=None)
    for path in ("/sys/fs/cgroup", "/proc/812"):
        machine.remove(path)
    machine.file("/usr/bin/containerd")
    machine.file("/.answers/version/usr/bin/containerd", "containerd c 1.7.24 x")
    found = runtime(machine)
    assert not found["services"]["containerd"]
    assert found["containerd"]["pid"] is found["containerd"]["stale"] is found["containerd"]["daemon_rlimits"] is None
    assert set(found["containerd"]["handlers"]) == {"runc", "nvidia"}


def test_the_rights_of_the_daemon_are_facts() -> None:
    machine = daemon()
    machine.file("/proc/812/status", "CapEff:\t00000000a80425fb\n")
    machine.file("/proc/812/uid_map", "0 100000 65536\n")
    found = containerd(machine)
    assert (found["cap_sys_resource"], found["user_namespace"]) == (False, True)
    for capabilities, root in (("000001ffffffffff", True), ("0000000000000000", False)):
        machine.file("/proc/self/status", f"CapEff:\t{capabilities}\n")
        assert runtime(machine)["as_root"] is root


@pytest.mark.parametrize(
    ("files", "mode", "limit"),
    [
        ({}, "process", None),
        ({"/usr/lib/systemd/system/containerd.service": "[Service]\n"}, "control-group", None),
        ({"/usr/lib/systemd/system/containerd.service": "[Unit]\nKillMode=process\n"}, "control-group", None),
        ({"/etc/systemd/system/containerd.service": "[Service]\nKillMode = mixed\n"}, "mixed", None),
        (
            {
                "/etc/systemd/system/containerd.service.d/90-a.conf": "[Service]\nLimitMEMLOCK=infinity\n",
                "/usr/lib/systemd/system/containerd.service.d/95-b.conf": "[Service]\nLimitMEMLOCK=1G\nKillMode=\n",
            },
            "control-group",
            "1G",
        ),
        # the file in /etc hides its namesake
        (
            {
                "/etc/systemd/system/containerd.service.d/a.conf": "",
                "/usr/lib/systemd/system/containerd.service.d/a.conf": "[Service]\nLimitMEMLOCK=1G\n",
            },
            "process",
            None,
        ),
        ({"/etc/systemd/system/service.d/a.conf": "[Service]\nLimitMEMLOCK=\\\n 64K\n"}, "process", "64K"),
    ],
)
def test_settings_of_the_unit_are_those_of_the_last_drop_in(
    files: dict[str, str], mode: str, limit: str | None
) -> None:
    machine = daemon()
    for path, text in files.items():
        machine.file(path, text)
    found = containerd(machine)
    assert (found["kill_mode"], found["limit_memlock"]) == (mode, limit)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("", "is not JSON that containerd could read"),
        ("[]", "holds a JSON array"),
        ('{"ociVersion": "1", "process": {"rlimits": [{"type": "A", "soft": -1, "hard": 1}]}}', "reads only integers"),
        (None, "is not there, or cannot be read"),
    ],
)
def test_a_specification_that_containerd_could_not_use(spec: str | None, error: str) -> None:
    machine = daemon()
    machine.remove("/etc/containerd/base.json")
    if spec is not None:
        machine.file("/etc/containerd/base.json", spec)
    found = runtime(machine)["specs"]["/etc/containerd/base.json"]
    assert found["rlimits"] == []
    assert error in found["error"]
    assert facts_of(MemoryTree(record(machine.tree())), ["runtime"])["runtime"] == runtime(machine)


def test_a_configuration_that_is_no_toml() -> None:
    machine = daemon()
    machine.file("/etc/containerd/config.toml", f'version = 2\n\npassword = "{SECRET}" "x"\n')
    facts = facts_of(machine, ["runtime"])
    assert facts["runtime"]["containerd"]["handlers"] == {}
    (warning,) = facts["warnings"]
    assert "/etc/containerd/config.toml" in warning
    assert "line 3" in warning
    listing = dump_listing(record(machine.tree()))
    assert SECRET not in listing
    assert facts_of(MemoryTree(record(machine.tree())), ["runtime"]) == facts


@pytest.mark.parametrize("said", [SAYS, None, {"error": "x"}, {"handlers": []}])
def test_a_recording_replays_without_secrets_and_strangers(said: dict[str, Any] | None) -> None:
    machine = daemon(said=said)
    machine.file("/.answers/version/usr/bin/containerd", "containerd c 1.7.24 x")
    machine.file("/proc/812/cmdline", f"/usr/bin/containerd\0--token\0{SECRET}\0--config\0/etc/containerd/link.toml\0")
    # under another name the file is the same
    machine.link("/etc/containerd/link.toml", "/etc/containerd/config.toml")
    machine.file("/etc/containerd/conf.d/99-nvidia.toml", f'version = 2\nroot = "{SECRET}"\n')
    machine.file("/var/lib/dpkg/status", f"Package: containerd\nStatus: install ok installed\nMaintainer: {SECRET}\n\n")
    machine.file(
        "/etc/systemd/system/containerd.service.d/p.conf", f"[Service]\nEnvironment=A={SECRET}\nLimitMEMLOCK=1G\n"
    )
    entries = record(machine.tree())
    listing = dump_listing(entries)
    assert SECRET not in listing
    assert "/proc/99/comm" not in entries
    assert facts_of(MemoryTree(entries)) == facts_of(machine)
    # and once more, from the recording
    assert dump_listing(record(MemoryTree(entries))) == listing
    files = facts_of(machine)["runtime"]["containerd"]["files"]
    assert files == ["/etc/containerd/link.toml", "/etc/containerd/conf.d/99-nvidia.toml"]


def test_limits_are_those_of_init_and_of_the_user() -> None:
    machine = Machine()
    machine.file("/proc/1/limits", LIMITS)
    machine.file("/proc/self/limits", "Max locked memory  x y bytes\n")
    limits = facts_of(machine, ["limits"])["limits"]
    assert limits["init"]["memlock"] == {"soft": 8388608, "hard": "unlimited"}
    assert facts_of(MemoryTree(record(machine.tree())), ["limits"])["limits"] == limits
    assert b"cpu time" not in record(machine.tree())["/proc/1/limits"].data
