# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For each rule of the doctor what it has to find, and what it must not: facts of recorded nodes, objects of a small cluster, logs.

Lines of logs are those that the programs print: perftest, NCCL, UCX, k8s-rdma-shared-dev-plugin, modprobe, the kernel, containerd, Longhorn.
"""

from __future__ import annotations

import copy
import functools
import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.snapshot import KINDS, empty_snapshot, reduced
from ansible_collections.fabric.rdma.tests.unit.contracts import a_group, a_plan
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, checked

Json = dict[str, t.Any]
HOST, OTHER = "gpu-1", "gpu-2"
SPACE = "rdma"
CONFIG = {"periodicUpdateInterval": 300, "configList": []}
UNLIMITED = {"soft": "unlimited", "hard": "unlimited"}


@functools.cache
def _recorded(name: str) -> Json:
    return gather(open_tree(str(CAPTURES / f"{name}.capture")))


def facts_of(name: str = "ib-a100-1", **changes: t.Any) -> Json:
    """Facts of a recorded node with other values; a__b of a: {b: ...}."""
    facts = copy.deepcopy(_recorded(name))
    for path, value in changes.items():
        place = facts
        *ahead, last = path.split("__")
        for key in ahead:
            place = place[key]
        place[last] = value
    return checked(facts)


def limited(soft: int) -> Json:
    """A node whose containers may lock so many bytes."""
    facts = facts_of()
    containerd = facts["runtime"]["containerd"]
    for own in containerd["handlers"].values():
        own["base_runtime_spec"] = None
    containerd["daemon_rlimits"]["memlock"] = {"soft": soft, "hard": soft}
    return checked(facts)


def unlimited() -> Json:
    facts = limited(1)
    facts["runtime"]["containerd"]["daemon_rlimits"]["memlock"] = UNLIMITED
    return checked(facts)


def material(*objects: Json, **given: t.Any) -> t.Any:
    """All that is looked at; objects as the API server has them."""
    cluster = empty_snapshot()
    for item in objects:
        kind, own = item["kind"], reduced(item["kind"], item)
        if kind == "Node":
            cluster["nodes"][own["metadata"]["name"]] = own
        else:
            cluster[KINDS[kind]].append(own)
    return {
        "facts": {},
        "plan": {},
        "cluster": cluster if objects else {},
        "logs": [],
        "groups": {},
        "node_names": {},
        "unread": [],
        **given,
    }


def a_log(*lines: str, pod: str | None = None, host: str | None = HOST, name: str = "job", source: str = "pod") -> Json:
    return {"name": name, "source": source, "host": host, "pod": pod, "text": "\n".join(lines) + "\n"}


def said(*lines: str, **given: t.Any) -> t.Any:
    """One log and nothing else, of the kernel where it looks like that."""
    return material(logs=[a_log(*lines)], **given)


def a_node(name: str = HOST, allocatable: int | None = 63, **given: t.Any) -> Json:
    labels = {"rdma.fabric/class": "ib-a100", "kubernetes.io/hostname": name, **given.pop("labels", {})}
    count = {} if allocatable is None else {"rdma/r": str(allocatable)}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": given,
        "status": {"allocatable": count, "capacity": count},
    }


def a_config(**given: t.Any) -> str:
    entry = {
        "resourceName": "r",
        "resourcePrefix": "rdma",
        "rdmaHcaMax": 63,
        "selectors": {"vendors": ["15b3"]},
        **given,
    }
    return json.dumps({**CONFIG, "configList": [entry]})


def a_config_map(text: str | None = None, changed: str = "2026-01-01T00:00:00Z") -> Json:
    data = {} if text == "" else {"config.json": text or a_config()}
    fields = [{"time": changed, "fieldsV1": {"f:data": {}}}]
    return {"kind": "ConfigMap", "metadata": {"name": "ds", "namespace": SPACE, "managedFields": fields}, "data": data}


IMAGE = "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3"


def a_daemon_set(name: str = "ds", image: str = IMAGE, **spec: t.Any) -> Json:
    pod = {
        "nodeSelector": {"rdma.fabric/class": "ib-a100"},
        "containers": [{"name": "c", "image": image}],
        "volumes": [{"name": "config", "configMap": {"name": name}}],
        **spec,
    }
    return {
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {}, "spec": pod}},
    }


def a_pod(name: str = "ds-1", owner: str | None = "ds", node: str | None = HOST, **given: t.Any) -> Json:
    """given: image, container (more of it), status, and more of spec."""
    metadata: Json = {"name": name, "namespace": SPACE, "annotations": given.pop("annotations", {})}
    if owner:
        metadata["ownerReferences"] = [{"kind": "DaemonSet", "name": owner}]
    container = {"name": "c", "image": given.pop("image", IMAGE), **given.pop("container", {})}
    status = {
        "phase": "Running",
        "startTime": "2026-02-01T00:00:00Z",
        "conditions": [{"type": "Ready", "status": "True"}],
        **given.pop("status", {}),
    }
    spec = {"containers": [container], **({"nodeName": node} if node else {}), **given}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def waiting(reason: str, message: str = "") -> Json:
    """The status of a Pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "c", "ready": False, "state": state, "restartCount": 3}],
    }


def a_job(name: str = "train", **given: t.Any) -> Json:
    """A Pod that asks for the resource, and may lock memory."""
    limits = {"rdma/r": "1", **given.pop("limits", {})}
    security = given.pop("security", {"capabilities": {"add": ["IPC_LOCK"]}})
    container = {"resources": {"limits": limits}, "securityContext": security, **given.pop("container", {})}
    return a_pod(name, None, image="registry.example/train:1", container=container, **given)


def unschedulable(message: str) -> Json:
    rows = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]
    return {"phase": "Pending", "conditions": rows}


def planned(*hosts: str, **given: t.Any) -> Json:
    return a_plan(**{"ib-a100": a_group(hosts=list(hosts), resource="rdma/r", **given)})


def running(*more: Json, **given: t.Any) -> t.Any:
    """A plugin that runs, on a node that has its resource."""
    own: dict[str, Json] = {"node": a_node(), "ds": a_daemon_set(), "map": a_config_map(), "pod": a_pod()}
    own.update({key: given.pop(key) for key in list(own) if key in given})
    return material(*own.values(), *more, **given)


TAINT = {"key": "account", "value": "x", "effect": "NoSchedule"}
NIC = {"feature.node.kubernetes.io/pci-15b3.present": "true"}
CUDA = "CUDA device 0: PCIe address is 3B:00"
MR = "Couldn't allocate MR"
KEY = "[1.5] mlx5_core 0000:3b:00.0: mlx5_cmd_out_err:808:(pid 77): CREATE_MKEY(0x200) op_mod(0x0) failed, status"
RTR = " Failed to modify QP 267 to RTR"
EVENT = {
    "kind": "Event",
    "type": "Normal",
    "reason": "Starting",
    "message": "Starting kubelet.",
    "involvedObject": {"kind": "Node", "name": HOST},
}


def invisible() -> Json:
    facts = facts_of()
    facts["devices"][0]["plugin"].update(visible=False, reason="umad device missing: load ib_umad")
    return checked(facts)


def bonded() -> Json:
    facts = facts_of("roce-rails-1")
    one = facts["devices"][0]
    one["name"] = "mlx5_bond_0"
    one["lag"] = {"netdev": "bond0", "mode": "802.3ad", "members": []}
    return checked(facts)


def with_subnet(prefix: str) -> Json:
    facts = facts_of()
    for device in facts["devices"]:
        for port in device["ports"]:
            for row in port["gids"]:
                row["gid"] = f"{prefix}:{':'.join(row['gid'].split(':')[4:])}"
    return checked(facts)


def port_of(facts: Json, state: str) -> Json:
    """The first InfiniBand port in another state."""
    port = next(row for each in facts["devices"] for row in each["ports"] if row["link_layer"] == "InfiniBand")
    port["state"] = state
    return checked(facts)


def active() -> Json:
    """All ports Active."""
    facts = facts_of()
    for device in facts["devices"]:
        for port in device["ports"]:
            port["state"] = "Active"
    return checked(facts)


def peermem(loaded: bool) -> Json:
    """A V100 node whose GPUDirect needs nvidia_peermem."""
    facts = facts_of("ib-v100-1")
    facts["kernel"]["modules"]["nvidia_peermem"].update(loaded=loaded, available=True)
    facts["nvidia"]["peer_memory"] = {"loaded": True, "installed": True}
    return checked(facts)


def imex(service: str) -> Json:
    facts = facts_of("gb200-1")
    facts["nvidia"]["imex"].update(service=service, masked=service != "running")
    return checked(facts)


def storage(**parts: Json) -> Json:
    """A node that has all that Longhorn needs, but for what is given."""
    facts = facts_of("ib-v100-1")
    own: dict[str, Json] = {
        "iscsi": {"installed": True, "service": "running", "units": ["iscsid.service"], "enabled": ["iscsid.service"]},
        "nfs": {"installed": True},
    }
    for part, values in own.items():
        facts["storage"][part].update(values, **parts.get(part, {}))
    return checked(facts)


DRA = a_daemon_set("dra", "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1")
TOOLKIT = a_daemon_set("toolkit", "nvcr.io/nvidia/k8s/container-toolkit:v1.18.1")
LONGHORN = a_daemon_set("longhorn-manager", "docker.io/longhornio/longhorn-manager:v1.12.1")
SETUP = "h1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"
USES = "h1:7:7 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.1<0>"
SOCKET = "h1:7:7 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.1<0>"
PLUGIN_LOG = "2026/02/01 00:00:00 resource manager reading configs"
GONE = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start "
    'container process: error gathering device information while adding custom device "/dev/infiniband/uverbs3": no such file or directory'
)
FLOOD = (
    "kernel: nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing"
)
DIFFERENT = {HOST: with_subnet("fe80:0000:0000:0000"), OTHER: with_subnet("fec0:0000:0000:0001")}


def _plugin_samples() -> dict[str, tuple[t.Any, t.Any]]:
    init = {
        "conditions": [{"type": "Ready", "status": "False"}],
        "initContainerStatuses": [{"name": "mofed-validation", "ready": False, "state": {"running": {}}}],
    }
    done = {"initContainerStatuses": [{"name": "mofed-validation", "ready": True, "state": {"terminated": {}}}]}
    own = a_daemon_set(nodeSelector=NIC)
    admission = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Pod was rejected"}
    digest = {"rdma.fabric/config-sha256": "0" * 64}
    crash = waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container")
    refused = a_log(PLUGIN_LOG, "Exiting.. one or more invalid configuration(s) given: error", pod="rdma/ds-1")
    other = a_config(selectors={"vendors": ["8086"]})
    return {
        "plugin-tainted": (
            material(a_node(taints=[TAINT]), a_daemon_set(), a_config_map()),
            material(a_node(taints=[TAINT]), a_daemon_set(tolerations=[{"operator": "Exists"}]), a_config_map()),
        ),
        "node-cordoned": (running(node=a_node(unschedulable=True)), running()),
        "mofed-wait": (running(pod=a_pod(status=init)), running(pod=a_pod(status=done))),
        "nfd-label-missing": (
            material(a_node(), own, plan=planned(HOST)),
            material(a_node(labels=NIC), own, plan=planned(HOST)),
        ),
        "plugin-not-on-node": (material(a_node(), a_daemon_set()), material(a_node(), a_daemon_set(), a_pod())),
        "pod-waits-for-resource": (
            running(a_job(node=None, status=unschedulable("0/1 nodes are available: 1 Insufficient rdma/r."))),
            running(a_job(node=None, status=unschedulable("0/1 nodes are available: 1 Insufficient cpu."))),
        ),
        "pod-refused-by-kubelet": (running(a_job(status=admission)), running(a_job())),
        "character-device-missing": (material(facts={HOST: invisible()}), material(facts={HOST: facts_of()})),
        "exclusive-namespaces": (
            material(facts={HOST: facts_of(kernel__rdma_netns="exclusive")}),
            material(facts={HOST: facts_of()}),
        ),
        "plugin-configuration-refused": (running(map=a_config_map("{'configList': []}")), running()),
        "selectors-match-nothing": (
            running(map=a_config_map(other), facts={HOST: facts_of()}),
            running(facts={HOST: facts_of()}),
        ),
        "configuration-newer": (running(pod=a_pod(annotations=digest)), running()),
        "kubelet-restarted": (
            running({**EVENT, "lastTimestamp": "2026-02-02T00:00:00Z"}, node=a_node(allocatable=0)),
            running({**EVENT, "lastTimestamp": "2026-02-02T00:00:00Z"}),
        ),
        "image-not-pulled": (running(pod=a_pod(status=waiting("ImagePullBackOff"))), running(pod=a_pod(status=crash))),
        "device-file-gone": (
            running(a_job(status=waiting("RunContainerError", GONE))),
            running(a_job(status=waiting("RunContainerError", GONE.replace("infiniband/uverbs3", "nvidia7")))),
        ),
        "plugin-crashes": (
            running(pod=a_pod(status=crash)),
            running(pod=a_pod(status=crash), logs=[refused]),
        ),
        "resource-zero": (running(node=a_node(allocatable=0)), running()),
    }


def _memory_samples() -> dict[str, tuple[t.Any, t.Any]]:
    failed = [a_log(MR, pod="rdma/train")]
    ordinary = {"securityContext": {"runAsUser": 1000}}
    killed = {
        "containerStatuses": [{"name": "c", "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]
    }
    small = {"memory": "64Mi"}
    few, many = {HOST: limited(8 << 20)}, {HOST: unlimited()}
    return {
        "memlock-64-kib": (
            said("Max locked memory         65536                65536                bytes", MR),
            said("Max locked memory         unlimited            unlimited            bytes", MR),
        ),
        "memlock-8-mib": (material(facts=few), material(facts=many)),
        "mkeys-used-up": (
            said(f"{KEY} limits exceeded(0x8), syndrome (0x59c8a4), err(-11)"),
            said(f"{KEY} bad parameter(0x3), syndrome (0x35e6ec), err(-22)"),
        ),
        "mkey-refused": (
            said(f"{KEY.replace('CREATE_MKEY', 'create_mkey')} bad parameter(0x3), syndrome (0x35e6ec)"),
            said("infiniband mlx5_0: create_mkey_callback:131:(pid 12): async reg mr failed. status -12"),
        ),
        "mr-ordinary-user": (
            running(a_job(**ordinary), logs=failed, facts=few),
            running(a_job(**ordinary), logs=failed, facts=many),
        ),
        "mr-memory-limit": (running(a_job(limits=small, status=killed)), running(a_job(limits=small))),
        "pod-without-ipc-lock": (running(a_job(security={}), facts=few), running(a_job(), facts=few)),
        "pod-memory-limit": (running(a_job(limits=small)), running(a_job())),
        "mr-refused": (said(MR), said("Couldn't allocate MR with error=14", CUDA)),
    }


def _addressing_samples() -> dict[str, tuple[t.Any, t.Any]]:
    gone = " IB device mlx5_9 not found"
    from_pod = [a_log(gone, pod="rdma/train")]
    asks_not = a_pod("train", None, image="registry.example/train:1")
    roce = {HOST: facts_of("roce-rails-1")}
    qp = "h1:7:7 [0] ibvwrap.cc:300 NCCL WARN Call to ibv_modify_qp failed with error"
    return {
        "port-down": (said(" Port number 1 state is Down"), said(" Port number 1 state is Active")),
        "port-init": (material(facts={HOST: port_of(facts_of(), "Init")}), material(facts={HOST: active()})),
        "device-not-asked-for": (material(asks_not, logs=from_pod), material(a_job(), logs=from_pod)),
        "device-is-bond": (
            said(" IB device mlx5_0 not found", facts={HOST: bonded()}),
            said(" IB device mlx5_9 not found", facts={HOST: facts_of()}),
        ),
        "device-wrong-name": (said(gone, facts={HOST: facts_of()}), material(asks_not, logs=from_pod)),
        "qp-different-fabrics": (said(RTR, facts=DIFFERENT), said(RTR, facts={HOST: facts_of()})),
        "qp-gid-index": (
            said(f"{qp} Invalid argument errno 22", facts=roce),
            said(f"{qp} Connection timed out errno 110", facts=roce),
        ),
        "qp-roce-route": (
            said(f"{qp} Connection timed out errno 110", facts=roce),
            said(f"{qp} Invalid argument errno 22", facts=roce),
        ),
        "qp-infiniband-way": (
            said(" Link type       : IB", RTR, facts={HOST: active()}),
            said(" Link type       : IB", RTR, facts=DIFFERENT),
        ),
        "no-answer": (
            said(" Completion with error at client", " Failed status 12: wr_id 0 syndrom 0x81"),
            said(" Failed status 10: wr_id 0 syndrom 0x88"),
        ),
    }


def _job_samples() -> dict[str, tuple[t.Any, t.Any]]:
    wanted = [
        {"device": "mlx5_0", "port": 1, "rate_gbps": 200.0, "link_layer": "InfiniBand", "netdev": None, "pci": None}
    ]
    plan = planned(HOST, wanted={HOST: wanted}, environment={HOST: {"NCCL_IB_HCA": "=mlx5_0:1"}})
    uses_one = USES.replace(" [1]mlx5_1:1/RoCE", "")
    hami = "[HAMI-core Msg(350:140526578577408:libvgpu.c:839)]: Initializing....."
    no_gdr, gdr = (
        "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
        "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
    )
    unknown = "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)"
    differs = "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"
    invalid = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"
    share = {"volcano.sh/vgpu-number": "1"}
    return {
        "nccl-proxy-crash": (
            said(
                "[h1:1] Signal: Segmentation fault (11)", "frame 2: ncclProxyServiceUDS (_args=0x55) at proxy.cc:1835"
            ),
            said("proxy.cc:1835 ncclProxyServiceUDS started"),
        ),
        "nccl-shared-memory": (
            said(
                "NCCL WARN Error: failed to extend /dev/shm/nccl-Ab12Cd to 9637892 bytes, error: No space left on device (28)"
            ),
            said("NCCL INFO Allocated 9637892 bytes of shared memory in /dev/shm/nccl-Ab12Cd"),
        ),
        "nccl-system-error": (
            said("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"),
            said(
                "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Ab12Cd (size 9637888)",
                "unhandled system error (run with NCCL_DEBUG=INFO for details)",
            ),
        ),
        "nccl-over-socket": (said("NCCL INFO NET/IB : No device found.", SOCKET), said(USES, SOCKET)),
        "nccl-wrong-hca": (said(USES, plan=plan), said(uses_one, plan=plan)),
        "peermem-symbol-version": (said(differs, unknown), said(unknown)),
        "peermem-unknown-symbol": (said(unknown), said(differs, unknown)),
        "peermem-invalid": (said(invalid), said(invalid, differs)),
        "peermem-missing": (material(facts={HOST: peermem(False)}), material(facts={HOST: peermem(True)})),
        "gpu-memory-refused": (said("Couldn't allocate MR with error=14"), said("Couldn't allocate MR with error=22")),
        "gpudirect-off": (
            said(f"h1:7:7 [0] NCCL INFO {no_gdr}", SETUP),
            said(f"h1:7:7 [0] NCCL INFO {gdr}", SETUP + "/GDRDMA"),
        ),
        "vgpu-nccl": (said(hami, "h1:7:7 [0] NCCL WARN Cuda failure 'invalid argument'"), said(hami, USES)),
        "nccl-without-cuda-functions": (
            said("h1:7:7 [0] misc/cudawrap.cc:162 NCCL WARN Retrieve cuDeviceGet failed with 0 status 1"),
            said(hami, "h1:7:7 [0] misc/cudawrap.cc:230 NCCL WARN CUDA some PFN functions not found in the library"),
        ),
        "vgpu-with-rdma": (material(a_job(limits=share)), material(a_job())),
    }


def _host_samples() -> dict[str, tuple[t.Any, t.Any]]:
    own = facts_of("gb200-1")
    stale = copy.deepcopy(own)
    stale["runtime"]["containerd"]["stale"] = True
    toolkit = [a_node(), TOOLKIT, a_pod("toolkit-1", "toolkit")]
    longhorn = [a_node(), LONGHORN]
    doca = {"flavour": "doca", "version": "2.9.1", "packages": {"mlnx-ofed-kernel-dkms": "24.10"}}
    kernel = {f"ofed__{key}": value for key, value in doca.items()}
    bad = facts_of("ib-v100-1", **kernel, ofed__mlx5_core={"path_kind": "inbox", "version": None})
    good = facts_of("ib-v100-1", **kernel, ofed__mlx5_core={"path_kind": "updates", "version": "24.10"})
    older = peermem(False)
    older["kernel"]["modules"]["nvidia_peermem"]["available"] = False
    older["nvidia"]["peermem_kernels"] = ["5.4.0-1-generic"]
    serving = copy.deepcopy(own)
    serving["runtime"]["containerd"]["running"].update(ready=False, error="unknown service")
    rlimit = (
        "runc create failed: unable to start container process: error during container init: error setting rlimit type"
    )
    return {
        "imex-on-host": (
            material(a_node(), DRA, facts={HOST: imex("running")}),
            material(a_node(), DRA, facts={HOST: imex("stopped")}),
        ),
        "containerd-two-owners": (material(*toolkit, facts={HOST: own}), material(a_node(), facts={HOST: own})),
        "containerd-stale": (material(facts={HOST: stale}), material(facts={HOST: own})),
        "containerd-configuration-broken": (
            said('level=fatal msg="failed to load TOML: /etc/containerd/config.toml: (3, 1): no key"'),
            said('level=info msg="containerd successfully booted in 0.04s"'),
        ),
        "containerd-not-serving": (material(facts={HOST: serving}), material(facts={HOST: own})),
        "rlimit-refused": (said(f"{rlimit} 8: operation not permitted"), said(f"{rlimit} 7: operation not permitted")),
        "iscsi-missing": (
            material(*longhorn, facts={HOST: storage(iscsi={"service": "stopped"})}),
            material(*longhorn, facts={HOST: storage()}),
        ),
        "nfs-missing": (
            material(*longhorn, facts={HOST: storage(nfs={"installed": False})}),
            material(*longhorn, facts={HOST: storage()}),
        ),
        "driver-log-flood": (said(*[f"[{number}.1] {FLOOD}" for number in range(300)]), said(FLOOD, "all well")),
        "kernel-without-rdma-driver": (material(facts={HOST: bad}), material(facts={HOST: good})),
        "module-not-signed": (
            said("modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service"),
            said("modprobe: ERROR: could not insert 'vboxdrv': Key was rejected by service"),
        ),
        "kernel-without-gpu-driver": (material(facts={HOST: checked(older)}), material(facts={HOST: peermem(False)})),
    }


@functools.cache
def samples() -> dict[str, tuple[t.Any, t.Any]]:
    """{rule: (what it finds, what it does not)}."""
    return {
        **_plugin_samples(),
        **_memory_samples(),
        **_addressing_samples(),
        **_job_samples(),
        **_host_samples(),
    }
