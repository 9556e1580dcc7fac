# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule finds its sample, and not the one beside it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import material_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import (
    FAMILIES,
    RULES,
    SEVERITIES,
    diagnose,
    document_of,
)
from ansible_collections.fabric.rdma.tests.unit.machines import ROOT
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor import samples
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor.samples import HOST, OTHER, material
from ansible_collections.fabric.rdma.tests.unit.schemas import checked

IDS = [rule.id for rule in RULES]


def found(given: t.Any, rule: str) -> list[t.Any]:
    return [finding for finding in diagnose(given) if finding["id"] == rule]


def test_every_rule_has_both_samples() -> None:
    assert sorted(samples.samples()) == sorted(IDS)
    assert len(IDS) == len(set(IDS))


@pytest.mark.parametrize("rule", IDS)
def test_a_rule_finds_its_cause(rule: str) -> None:
    findings = found(samples.samples()[rule][0], rule)
    assert findings
    for finding in findings:
        assert finding["evidence"]
        assert finding["cause"]
        assert finding["remedy"]
        assert finding["severity"] in SEVERITIES
        assert set(finding["hosts"]) <= {HOST, OTHER}
        assert all(len(line) < 700 and line.isprintable() for line in finding["evidence"])


@pytest.mark.parametrize("rule", IDS)
def test_a_rule_leaves_alone_what_it_is_not_about(rule: str) -> None:
    assert found(samples.samples()[rule][1], rule) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_what_it_is(rule: t.Any) -> None:
    assert set(rule.looks_at) <= {"facts", "plan", "cluster", "logs"}
    assert rule.looks_at
    assert rule.title[0].isupper() or rule.title.startswith(("nvidia", "ib_", "containerd", "iSCSI", "runc", "/dev"))
    assert not rule.title.endswith(".")
    assert not rule.cause.endswith(".")
    # a command, a variable or a field
    assert any(
        mark in rule.remedy
        for mark in (
            "kubectl ",
            "rdma_",
            "ansible-playbook",
            "`",
            "NCCL_",
            "systemctl",
            ": {",
            "dkms",
            "-d ",
            "ctr ",
            "nvidia.com/",
            "limits.",
            "look at",
            "medium: Memory",
        )
    )
    earlier = IDS[: IDS.index(rule.id)]
    assert set(rule.unless) <= set(earlier)


def test_families_are_in_files_of_their_own() -> None:
    assert [rule for rules in FAMILIES.values() for rule in rules] == list(RULES)


def test_nothing_is_found_where_nothing_is() -> None:
    assert diagnose(material()) == []
    assert diagnose(samples.running(facts={HOST: samples.unlimited()})) == []


def test_hosts_of_a_group_with_the_same_share_a_finding() -> None:
    hosts = [f"gpu-{number}" for number in (10, 9, 2)]
    facts = {host: samples.limited(8 << 20) for host in [*hosts, "other"]}
    given = material(facts=facts, groups={"a": hosts, "b": ["other"]})
    first, second = found(given, "memlock-8-mib")
    assert (first["group"], first["hosts"]) == ("a", ["gpu-2", "gpu-9", "gpu-10"])
    assert (second["group"], second["hosts"]) == ("b", ["other"])
    assert len(first["evidence"]) == 3


def of_many(given: t.Any) -> t.Any:
    """The same material for three hosts."""
    text = json.dumps(given)
    every = [json.loads(text.replace(HOST, f"gpu-1{number}").replace("ds-1", f"ds-1{number}")) for number in range(3)]
    facts = {host: own for each in every for host, own in each["facts"].items()}
    cluster = dict(every[0]["cluster"])
    for each in every[1:]:
        for key, value in each["cluster"].items():
            if key == "nodes":
                cluster["nodes"] = {**cluster["nodes"], **value}
            elif key in ("pods", "events"):
                cluster[key] = [*cluster[key], *(item for item in value if item not in cluster[key])]
    logs = [{**log, "name": f"{number}"} for number, each in enumerate(every) for log in each["logs"]]
    return material_of(facts, given["plan"], cluster, logs)


@pytest.mark.parametrize("rule", IDS)
def test_a_cause_of_many_hosts_is_one_finding(rule: str) -> None:
    given = samples.samples()[rule][0]
    if HOST in json.dumps([given["facts"], given["cluster"]]):
        (finding,) = found(of_many({**given, "plan": {}}), rule)
        assert finding["hosts"] == [] or len(finding["hosts"]) >= 3


def test_evidence_of_many_hosts_is_counted() -> None:
    hosts = [f"gpu-{number}" for number in range(100)]
    (finding,) = found(material(facts=dict.fromkeys(hosts, samples.limited(65536))), "memlock-64-kib")
    assert len(finding["hosts"]) == 100
    assert finding["evidence"][-1] == "and 92 more"


def test_the_worst_comes_first_and_findings_of_others_are_sorted_among_them() -> None:
    other = {
        "id": "port-slow",
        "severity": "error",
        "group": "",
        "hosts": [],
        "cause": "c",
        "evidence": [],
        "remedy": "r",
    }
    given = samples.running(samples.a_job(limits={"memory": "1Gi"}), node=samples.a_node(unschedulable=True))
    document = document_of(given, [other, {"id": "no finding"}, "x"])
    checked("doctor", document)
    assert [(each["severity"], each["id"]) for each in document["findings"]] == [
        ("error", "port-slow"),
        ("warning", "node-cordoned"),
        ("note", "pod-memory-limit"),
    ]
    assert document["looked_at"] == {"hosts": 0, "nodes": 1, "pods": 2, "objects": 2, "logs": 0}


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("rule", IDS)
def test_what_is_found_has_its_form_and_no_order_of_what_is_given_changes_it(rule: str, number: int) -> None:
    given = samples.samples()[rule][number]
    document = checked("doctor", document_of(given))
    cluster = {key: value[::-1] if isinstance(value, list) else value for key, value in given["cluster"].items()}
    turned = {**given, "logs": given["logs"][::-1], "cluster": cluster, "facts": dict(reversed(given["facts"].items()))}
    assert document_of(turned) == document


def test_a_failure_with_a_known_limit_is_reported_once() -> None:
    """64 KiB, and not also that memory could not be registered."""
    given = samples.said("Max locked memory  65536  65536  bytes", "Couldn't allocate MR")
    (finding,) = diagnose(given)
    assert (finding["id"], finding["severity"], finding["hosts"]) == ("memlock-64-kib", "error", [HOST])
    assert "rdma_memlock" in finding["remedy"]


@pytest.mark.parametrize(
    ("security", "said", "ids"),
    [
        # nearly every Pod with GPUs has a memory limit, and what refuses memory is most often another one
        ({}, [], ["mr-refused"]),
        ({}, ["memlock soft 65536"], ["memlock-64-kib"]),
        ({"capabilities": {"add": ["IPC_LOCK"]}}, ["memlock soft 65536"], ["memlock-64-kib"]),
        # nothing else is left
        ({"capabilities": {"add": ["IPC_LOCK"]}}, [], ["mr-memory-limit"]),
        ({}, ["memlock soft unlimited"], ["mr-memory-limit"]),
    ],
)
def test_a_memory_limit_is_the_cause_where_all_memory_may_be_locked(
    security: t.Any, said: list[str], ids: list[str]
) -> None:
    job = samples.a_job(limits={"memory": "512Gi"}, security=security)
    found = diagnose(samples.running(job, logs=[samples.a_log(samples.MR, *said, pod="rdma/train")]))
    assert [each["id"] for each in found if each["severity"] == "error"] == ids


@pytest.mark.parametrize(
    ("why", "rule"), [("Bad address", "gpu-memory-refused"), ("Cannot allocate memory", "mr-refused")]
)
def test_what_nccl_says_after_memory_was_refused_is_no_other_cause(why: str, rule: str) -> None:
    lines = [
        f"NCCL WARN Call to ibv_reg_mr_iova2 failed with error {why}",
        "unhandled system error, NCCL version 2.27.3",
    ]
    assert [each["id"] for each in diagnose(samples.said(*lines))] == [rule]


def test_a_host_without_gpudirect_among_others_is_quoted() -> None:
    """In the log of a launcher all of them speak."""
    other = "[1,8]<stdout>:h2:9:9 [1] NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/IB/1"
    (finding,) = found(samples.said(f"{samples.SETUP}/GDRDMA", other), "gpudirect-off")
    assert finding["evidence"] == [f"job: {other.partition('>:')[2]}"]
    assert not found(samples.said(f"{samples.SETUP}/GDRDMA", f"{other}/GDRDMA", samples.SETUP), "gpudirect-off")


@pytest.mark.parametrize("before", ["2026-02-01T00:00:00Z ", "[pod/train-launcher/mpi] ", '{"log":"', "2: "])
def test_a_host_without_gpudirect_is_found_whatever_is_before_its_lines(before: str) -> None:
    end = '\\n","stream":"stdout"}' if before.startswith("{") else ""
    other = samples.SETUP.replace("h1:", "h2:")
    lines = [f"{before}{samples.SETUP}/GDRDMA{end}", f"{before}{other}{end}"]
    (finding,) = found(samples.said(*lines), "gpudirect-off")
    assert finding["evidence"] == [f"job: {other}{end}"]
    assert not found(samples.said(lines[0], f"{before}{other}/GDRDMA{end}"), "gpudirect-off")


def test_the_host_that_speaks_in_the_log_of_a_launcher_is_named() -> None:
    """Not that of the launcher, which may have no GPU; and where facts of it tell the cause, that is enough."""
    worker = samples.a_pod("train-worker-0", None, node=OTHER)
    launcher = samples.a_pod("train-launcher", None)
    for name in ("train-worker-0", OTHER):
        lines = [f"{samples.SETUP}/GDRDMA", samples.SETUP.replace("h1:", f"{name}:")]
        log = samples.a_log(*lines, pod="rdma/train-launcher")
        for loaded in (True, False):
            facts = {HOST: samples.peermem(True), OTHER: samples.peermem(loaded)}
            given = samples.running(launcher, worker, logs=[log], facts=facts)
            own = {each["id"]: each["hosts"] for each in diagnose(given) if "GPUDirect" in str(each)}
            assert own == ({"gpudirect-off": [OTHER]} if loaded else {"peermem-missing": [OTHER]})


@pytest.mark.parametrize(("error", "rule"), [("", "gpu-memory-refused"), (" with error=12", "mr-refused")])
def test_a_test_of_a_gpu_that_tells_no_error_was_refused_its_memory(error: str, rule: str) -> None:
    """As those before 23.04 do."""
    lines = [
        "allocated GPU buffer address at 0000010013000000 pointer=0x1",
        f"{samples.MR}{error}",
        "Failed to create MR",
    ]
    assert [each["id"] for each in diagnose(samples.said(*lines))] == [rule]


@pytest.mark.parametrize("way", ["NET/IB/0", "NET/IBext_v10/0", "NET/gIB/0", "NET/AWS Libfabric/0"])
def test_a_job_without_gpudirect_is_found_whatever_its_plugin_calls_the_way(way: str) -> None:
    def ids(line: str) -> set[str]:
        return {each["id"] for each in diagnose(samples.said(line))}

    line = samples.SETUP.replace("NET/IB/0", way)
    assert "gpudirect-off" in ids(line)
    assert "gpudirect-off" not in ids(f"{line}/GDRDMA")
    # nor is it one over TCP
    assert ids(f"{samples.SOCKET}\n{line}/GDRDMA") == set()


@pytest.mark.parametrize(("security", "blamed"), [({"capabilities": {"add": ["IPC_LOCK"]}}, True), ({}, False)])
def test_the_limit_of_a_host_leaves_the_memory_limit_of_who_may_pass_it(security: t.Any, blamed: bool) -> None:
    job = samples.a_job(limits={"memory": "512Gi"}, security=security)
    given = samples.running(
        job, logs=[samples.a_log(samples.MR, pod="rdma/train")], facts={HOST: samples.limited(8 << 20)}
    )
    assert ("mr-memory-limit" in {each["id"] for each in diagnose(given)}) is blamed


def test_fabrics_of_groups_that_never_meet_are_no_cause() -> None:
    """A queue pair that fails has another one, where only hosts of other groups are in other subnets."""

    def found(**groups: list[str]) -> set[str]:
        given = samples.said(" Link type       : IB", samples.RTR, facts=samples.DIFFERENT, groups=groups)
        return {each["id"] for each in diagnose(given) if each["id"].startswith("qp-")}

    assert found(one=[samples.HOST, samples.OTHER]) == found() == {"qp-different-fabrics"}
    assert found(one=[samples.HOST], two=[samples.OTHER]) == {"qp-infiniband-way"}


@pytest.mark.parametrize("lacks", [False, True])
def test_fabrics_are_no_cause_where_all_hosts_of_a_group_share_one(*, lacks: bool) -> None:
    """Rails, or storage, may have one of their own, which a host may lack for a cable that is out."""
    both = json.loads(json.dumps(samples.DIFFERENT[samples.HOST]))
    both["devices"] += json.loads(json.dumps(samples.DIFFERENT[samples.OTHER]))["devices"]
    other = samples.DIFFERENT[samples.HOST] if lacks else both
    given = samples.said(" Link type       : IB", samples.RTR, facts={samples.HOST: both, samples.OTHER: other})
    assert {each["id"] for each in diagnose(given) if each["id"].startswith("qp-")} == {"qp-infiniband-way"}


def test_the_remedy_names_what_is_known() -> None:
    """The address of the GID, the ports of the plan, the DaemonSet to restart."""
    remedies = {rule: found(samples.samples()[rule][0], rule)[0]["remedy"] for rule in IDS}
    assert "NCCL_IB_GID_INDEX=" in remedies["qp-gid-index"]
    assert remedies["nccl-wrong-hca"] == "NCCL_IB_HCA==mlx5_0:1"
    assert remedies["configuration-newer"] == "kubectl -n rdma rollout restart daemonset ds"
    assert "-d mlx5_bond_0" in remedies["device-is-bond"]
    assert "account" in remedies["plugin-tainted"]


def test_the_driver_that_a_pod_waits_for_says_why() -> None:
    """No policy with a driver, no Pod of it on the node, one that fails, one that is ready."""
    init = {"initContainerStatuses": [{"name": "mofed-validation", "ready": False, "state": {"running": {}}}]}
    waiting = samples.a_pod(status=init)
    policy = {
        "kind": "NicClusterPolicy",
        "metadata": {"name": "nic-cluster-policy"},
        "spec": {"ofedDriver": {"version": "x"}},
    }
    driver = samples.a_daemon_set("mofed", "nvcr.io/nvidia/mellanox/doca-driver:doca3.1.0")
    bad = samples.a_pod("mofed-1", "mofed", status=samples.waiting("CrashLoopBackOff", "back-off"))
    good = samples.a_pod("mofed-1", "mofed")
    causes = [
        found(samples.running(*more, pod=waiting), "mofed-wait")[0]
        for more in ((), (policy,), (policy, driver, bad), (policy, driver, good))
    ]
    assert len({each["cause"] for each in causes}) == 4
    assert len({each["remedy"] for each in causes}) == 4
    assert "CrashLoopBackOff" in causes[2]["evidence"][-1]


@pytest.mark.parametrize(
    ("lines", "given", "ids"),
    [
        # a program that died in the library that divides a GPU, as the kernel says it, and as the library does
        (
            ["python[9]: segfault at 0 ip 00007efe sp 00007ffd error 4 in libvgpu.so[7efeb767e000+38000]"],
            {},
            ["vgpu-nccl"],
        ),
        (
            ["[HAMI-core ERROR (pid:12 thread=1 multiprocess_memory_limit.c:61)]: Illegal device id: -1"],
            {},
            ["vgpu-nccl"],
        ),
        # NCCL, on GPUs as a whole and on shares of them
        (["h1:7:7 [0] transport/nvls.cc:158 NCCL WARN Cuda failure 1 'invalid argument'"], {}, []),
        (
            ["h1:7:7 [0] transport/nvls.cc:158 NCCL WARN Cuda failure 1 'invalid argument'"],
            {"limits": {"volcano.sh/vgpu-number": "1"}},
            ["vgpu-nccl", "vgpu-with-rdma"],
        ),
        (["[HAMI-core Msg(350:140526578577408:libvgpu.c:839)]: Initializing....."], {}, []),
        (["[HAMI-core Warn(350:14:multiprocess_memory_limit.c:548)]: Kick dead proc 269"], {}, []),
        # keys that are made
        (["mlx5_core 0000:3b:00.0: CREATE_MKEY(0x200) done"], {}, []),
        # both say the same of one log
        (
            ["mlx5_cmd_out_err: CREATE_MKEY(0x200) op_mod(0x0) failed, status no resources(0xf)", samples.MR],
            {},
            ["mkeys-used-up"],
        ),
    ],
)
def test_a_line_alone_is_explained(lines: list[str], given: t.Any, ids: list[str]) -> None:
    log = samples.a_log(*lines, pod="rdma/train")
    assert sorted(each["id"] for each in diagnose(samples.running(samples.a_job(**given), logs=[log]))) == ids


ROCE = {HOST: samples.facts_of("roce-rails-1")}
QP = "h1:7:7 [0] misc/ibvwrap.cc:310 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, "


@pytest.mark.parametrize(
    ("line", "given", "rule"),
    [
        # modprobe and the kernel, where Secure Boot is on
        ("modprobe: ERROR: could not insert 'mlx5_core': Required key not available", {}, "module-not-signed"),
        ("kernel: Loading of unsigned module is rejected", {}, "module-not-signed"),
        # a module of another kernel
        ("modprobe: ERROR: could not insert 'nvidia': Exec format error", {}, "kernel-without-gpu-driver"),
        # NCCL 2.12, 2.18, 2.20, 2.27
        ("NET/IB : Got completion with error 12, opcode 1, len 32631, vendor err 129", {}, "no-answer"),
        (
            "NET/IB : Got completion from peer 192.0.2.2<40012> with error 12, opcode 0, len 0, vendor err 129 (Send)",
            {},
            "no-answer",
        ),
        (
            "NET/IB: Got completion from peer 192.0.2.2<4> with status=12 opcode=0 len=0 vendor err 129 (Send)",
            {},
            "no-answer",
        ),
        (
            "NET/IB: Got completion from peer 192.0.2.2<4> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0)",
            {},
            "no-answer",
        ),
        # NCCL up to 2.12
        (
            "NCCL WARN Error while creating shared memory segment nccl-shm-recv-8f1c-0-0-1 (size 9637888)",
            {},
            "nccl-shared-memory",
        ),
        (
            "include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
            {},
            "nccl-shared-memory",
        ),
        # the index that NCCL says it used is the link-local address, or that of RoCE v2
        (QP + "curr state INIT, next state RTR, local GID index 0, local GID fe80::1", {"facts": ROCE}, "qp-gid-index"),
        (QP + "curr state INIT, next state RTR, local GID index 3, local GID ::1", {"facts": ROCE}, "qp-roce-route"),
        # an error other than ENOMEM does not come from a limit
        ("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Invalid argument", {}, "gpu-memory-refused"),
        ("NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not supported", {}, "gpu-memory-refused"),
        ("NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Cannot allocate memory", {}, "mr-refused"),
        # UCX, Open MPI
        (
            "ib_md.c:309 UCX ERROR ibv_reg_mr(address=0x7f) failed: Cannot allocate memory : Please set max locked memory (ulimit -l) "
            "to 'unlimited' (current: 64 kbytes)",
            {},
            "memlock-64-kib",
        ),
        (
            "The OpenFabrics (openib) BTL failed to initialize while trying to allocate some locked memory.",
            {},
            "mr-refused",
        ),
        # perftest
        (" Local lid 0x0 detected. Is an SM running? ", {}, "port-init"),
        # kubelet
        (
            "kubelet[9]: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices rdma/r, which is unexpected",
            {},
            "pod-refused-by-kubelet",
        ),
        (
            "kubelet[9]: Allocate failed due to requested number of devices unavailable for rdma/r. Requested: 1, Available: 0, which is "
            "unexpected",
            {},
            "pod-refused-by-kubelet",
        ),
        # runc 1.0, crun
        (
            "container_linux.go:380: starting container process caused: process_linux.go:545: container init caused: setrlimit "
            "RLIMIT_MEMLOCK: operation not permitted: unknown",
            {},
            "rlimit-refused",
        ),
        ("crun: setrlimit `RLIMIT_MEMLOCK`: Operation not permitted: OCI permission denied", {}, "rlimit-refused"),
    ],
)
def test_every_version_of_a_program_is_understood(line: str, given: t.Any, rule: str) -> None:
    errors = [each for each in diagnose(samples.said(line, **given)) if each["severity"] == "error"]
    assert [each["id"] for each in errors] == [rule]


def test_what_kubectl_describe_says_of_a_pod_that_waits_is_read() -> None:
    """The output that people attach first."""
    line = "  Warning  FailedScheduling  12s  default-scheduler  0/9 nodes are available: 4 Insufficient cpu, 5 Insufficient rdma/rdma_a100."
    (finding,) = diagnose(samples.said(line))
    assert finding["id"] == "pod-waits-for-resource"
    assert "Insufficient rdma/rdma_a100" in finding["evidence"][0]


@pytest.mark.parametrize(
    "line",
    [
        # a resource of somebody else
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 8, Available: 7, which is unexpected",
        "NET/IB : Got completion with error 5, opcode 0, len 0, vendor err 244",
        "ulimit: max locked memory (ulimit -l) to 'unlimited' (current: unlimited kbytes)",
        "setrlimit RLIMIT_NOFILE: operation not permitted",
        "0/3 nodes are available: 2 Insufficient nvidia.com/gpu, 1 Insufficient cpu.",
    ],
)
def test_a_line_that_is_like_one_of_a_cause_has_no_finding(line: str) -> None:
    assert diagnose(samples.said(line)) == []


# What is attached to tickets and is as it should be: the limit of a shell, tables with a row like the other, a job on one node.
WELL = {
    "ulimit -a": ["max locked memory           (kbytes, -l) 8192"],
    "limits": ["Max locked memory         8388608              8388608              bytes"],
    "rdma resource": [
        f"link mlx5_0/1 lqpn {number} rqpn {number} type RC state RTS comm python3" for number in range(300)
    ],
    "NCCL of many ranks": [f"h1:{rank}:{rank} [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]" for rank in range(300)],
    "the same, with times": [
        f"2026-01-06 08:00:00 NCCL INFO NET/IB : Using [0]mlx5_0:1/IB {rank}" for rank in range(300)
    ],
    "NCCL on one node": [samples.SOCKET, "h1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"],
}


@pytest.mark.parametrize("what", WELL)
def test_what_is_well_has_no_finding(what: str) -> None:
    log = {**samples.a_log(*WELL[what]), "source": "file"}
    assert diagnose(material(logs=[log])) == []


def test_the_same_of_a_job_has_one() -> None:
    """A limit inside a Pod, a job that wants HCAs, messages of a driver in each form."""
    told = {
        "memlock-8-mib": WELL["ulimit -a"],
        "nccl-over-socket": WELL["NCCL on one node"],
    }
    for rule, lines in told.items():
        given = samples.running(samples.a_job(), logs=[samples.a_log(*lines, pod="rdma/train")])
        assert [each["id"] for each in diagnose(given)] == [rule]
    for start in (
        "[  5.1] ",
        "[Tue Jan  6 08:00:00 2026] ",
        "Jan  6 08:00:00 h1 kernel: ",
        "2026-01-06T08:00:00Z ",
        "I0106 08:00:00 ",
    ):
        assert found(samples.said(*[f"{start}mlx5_core: cmd {number}" for number in range(300)]), "driver-log-flood")


@pytest.mark.parametrize(
    ("pod", "asks"),
    [
        ({}, False),
        ({"container": {"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "1"}}}}, False),
        ({"resourceClaims": [{"name": "rdma", "resourceClaimTemplateName": "x"}]}, True),
        ({"container": {"resources": {"limits": {"nvidia.com/hostdev": "1"}}}}, True),
    ],
)
def test_a_claim_or_a_resource_of_an_unknown_name_may_be_rdma(pod: t.Any, asks: bool) -> None:
    given = material(
        samples.a_pod("train", None, image="registry.example/train:1", **pod),
        logs=[
            samples.a_log(" IB device mlx5_9 not found", pod="rdma/train"),
            samples.a_log("NCCL INFO NET/IB : No device found.", samples.SOCKET, pod="rdma/train", name="nccl"),
        ],
    )
    socket = found(given, "nccl-over-socket")[0]
    assert bool(found(given, "device-not-asked-for")) is not asks
    assert ("asks for no RDMA resource" in socket["cause"]) is not asks


def test_the_name_of_a_host_is_no_reason() -> None:
    facts = samples.facts_of()
    facts["devices"][0]["plugin"].update(visible=False, reason="no driver bound to the PCI function")
    assert found(material(facts={"missing: load 1": facts}), "character-device-missing") == []


def test_a_software_device_at_a_function_lacks_a_character_device_as_any_other() -> None:
    """The device plugin lists the function, whatever its RDMA device is of; one that it never lists lacks nothing."""
    facts = samples.invisible()
    facts["devices"][0]["kind"] = "software"
    (hit,) = found(material(facts={HOST: facts}), "character-device-missing")
    assert "umad device missing: load ib_umad" in hit["evidence"][0]
    facts["devices"][0]["plugin"]["reason"] = (
        "software device: it has no PCI function, and the plugin lists PCI functions only"
    )
    assert found(material(facts={HOST: facts}), "character-device-missing") == []


def test_network_cards_without_rdma_lack_no_character_device() -> None:
    """The device plugin says the same of each of them, which every node has."""
    rule, (device,) = "character-device-missing", samples.facts_of()["devices"][:1]
    line = 'error creating new device: "missing RDMA device spec for device {}, RDMA device \\"{}\\" not found"'
    of_others = samples.a_log(line.format("0000:00:03.0", "rdma_cm"))
    facts = {HOST: samples.facts_of()}
    assert found(material(logs=[of_others], facts=facts), rule) == []
    assert found(material(logs=[of_others]), rule) == []
    own = samples.a_log(line.format(device["pci"], "rdma_cm"))
    assert [hit["hosts"] for hit in found(material(logs=[of_others, own], facts=facts), rule)] == [[HOST]]
    # what has one of the others has rdma_cm: it is one
    for name in ("umad", "uverbs"):
        (hit,) = found(material(logs=[samples.a_log(line.format("0000:00:03.0", name))]), rule)
        assert name in hit["evidence"][0]


HOSTILE = ["\x1b[31mred", "{{ lookup('pipe', 'id') }}", "\u202e", "a" * 5000, "://user:secret@host/"]


def test_cards_and_links_are_looked_at_too() -> None:
    """By the rules of health, for hosts of a group."""
    facts = {host: samples.facts_of() for host in (HOST, OTHER, "gpu-3")}
    facts[HOST]["devices"][0]["firmware"] = "1.2.3"
    document = checked("doctor", document_of(material(facts=facts, groups={"a": list(facts)})))
    assert [each["hosts"] for each in document["findings"] if "1.2.3" in str(each["evidence"])] == [[HOST]]
    assert document_of(material(facts=facts))["findings"] != document["findings"]


def test_a_plugin_without_a_selector_is_wanted_on_known_hosts_only() -> None:
    """As upstream has it: its Pods are on CPU nodes, too, and offer nothing there."""
    own = samples.a_daemon_set(nodeSelector={})
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    nodes = [samples.a_node(), samples.a_node("cpu-1", 0), samples.a_node("control-1", None, taints=[taint])]
    pods = [samples.a_pod(), samples.a_pod("ds-2", node="cpu-1")]
    given = material(*nodes, own, samples.a_config_map(), *pods, groups={"a": [HOST]})
    assert diagnose(given) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_log_says_is_quoted_without_harm(text: str) -> None:
    (finding,) = diagnose(samples.said(f"Couldn't allocate MR {text}"))
    (line,) = finding["evidence"]
    assert line.isprintable()
    assert len(line) <= 310
    assert "secret" not in line


NFS = "nfs-missing"
ODD = (5, "x", [5], {"x": [1]}, [{}], "\ud800", "9" * 5000, "", 10**30, None, True)


def places(value: t.Any, path: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    """The ways to all parts of a document."""
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


def other(value: t.Any, path: tuple[t.Any, ...], part: t.Any) -> t.Any:
    """The same document with something else in one place."""
    if not path:
        return part
    changed = {**value} if isinstance(value, dict) else [*value]
    changed[path[0]] = other(changed[path[0]], path[1:], part)
    return changed


def test_anything_in_any_field_of_the_cluster_costs_nothing_else() -> None:
    """Of every rule's sample; objects may come out of a directory that anybody has sent."""
    tried = 0
    for number, given in enumerate(sample for pair in samples.samples().values() for sample in pair):
        for path in places(given["cluster"]):
            tried += 1
            odd = ODD[(number + tried) % len(ODD)]
            logs = [*given["logs"], *samples.said("mount.nfs: not found")["logs"]]
            bad = {**given, "cluster": other(given["cluster"], path, odd), "logs": logs}
            document = document_of(material_of(**bad), [])
            assert any(each["id"] == NFS for each in document["findings"]), (path, odd)
            json.dumps(document, ensure_ascii=False).encode()
    assert tried > 2000


def test_a_log_is_read_in_a_time_that_its_length_bounds() -> None:
    """Whatever is in it: each of these is some MiB, and takes hours where a rule looks from each of its places again."""
    texts = ["IB device " * 400_000, "NET/IB : Using " + "[1]a:1/" * 500_000, "[" * 4_000_000, "\n" * 4_000_000]
    start = time.monotonic()
    for text in texts:
        diagnose(material(logs=[{**samples.a_log(""), "text": text}]))
    assert time.monotonic() - start < limit(30)


@pytest.mark.parametrize("folder", ["tools-perftest", "tools-nccl-tests"])
def test_recorded_outputs_of_tests_that_passed_have_no_finding(shared_captures: Path, folder: str) -> None:
    """One of them has a run that failed before the one that passed."""
    failed = {"crater-ib_write_bw-both.txt": {"device-wrong-name", "port-down"}}
    paths = [path for path in sorted((shared_captures / folder).glob("*")) if path.suffix in (".txt", ".log")]
    assert paths
    for path in paths:
        log = {**samples.a_log("", host=None, name=path.name), "text": path.read_text(errors="replace")}
        assert {each["id"] for each in diagnose(material(logs=[log]))} == failed.get(path.name, set()), path.name
    print(f"{len(paths)} outputs read")


def test_the_page_of_causes_is_up_to_date() -> None:
    """tools/troubleshooting.py writes docs/troubleshooting.md."""
    command = [sys.executable, ROOT / "tools" / "troubleshooting.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert [rule.id for rule in RULES if f"`{rule.id}`: {rule.severity}" not in text] == []
    chinese = (ROOT / "docs" / "zh" / "troubleshooting.md").read_text()
    assert [rule.id for rule in RULES if f"\n`{rule.id}`" not in chinese] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda chinese: chinese["rules"].pop("mofed-wait"), "the rule mofed-wait is not translated"),
        (lambda chinese: chinese["rules"].update(gone={}), "there is no rule gone to translate"),
        (lambda chinese: chinese["families"].pop("Storage"), "the family Storage is not translated"),
        (lambda chinese: chinese["rules"]["mofed-wait"].pop("cause"), "the rule mofed-wait needs title, cause, remedy"),
        (
            lambda chinese: chinese["rules"]["plugin-tainted"].update(remedy="rdma_rollout.toleration"),
            "the remedy of the rule plugin-tainted and its translation differ in kubectl taint nodes, rdma_rollout.toleration, "
            "rdma_rollout.tolerations",
        ),
    ],
)
def test_a_rule_without_a_translation_is_found(change: t.Any, said: str) -> None:
    path = ROOT / "tools" / "troubleshooting.py"
    spec = importlib.util.spec_from_file_location("troubleshooting", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    chinese = yaml.safe_load(tool.CHINESE.read_text())
    assert tool.translation_problems(chinese) == []
    change(chinese)
    assert any(said in problem for problem in tool.translation_problems(chinese))


def test_a_node_that_dranet_serves_may_have_exclusive_namespaces() -> None:
    """Once the device plugin has nothing to do there any more."""
    facts = {HOST: samples.facts_of(kernel__rdma_netns="exclusive")}
    both = samples.a_node(labels={"rdma.fabric/dra": "ib-a100"})
    only = samples.a_node(labels={"rdma.fabric/dra": "ib-a100"})
    del only["metadata"]["labels"]["rdma.fabric/class"]
    assert [finding["hosts"] for finding in found(material(both, facts=facts), "exclusive-namespaces")] == [[HOST]]
    assert found(material(only, facts=facts), "exclusive-namespaces") == []
