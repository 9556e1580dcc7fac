# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of the evidence, as docs/evidence.schema.json describes it with a word on every key, and of the pairs that it is made from.
Private. Types only."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._verify.jobs import Collective
from ansible_collections.fabric.rdma.plugins.module_utils._verify.links import HostLink
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import Bandwidth, Latency, Side, Size

__all__ = [
    "Endpoint",
    "Evidence",
    "Exposed",
    "Floor",
    "Found",
    "Given",
    "Inspection",
    "Job",
    "JobTest",
    "Limits",
    "Look",
    "Measurement",
    "Memlock",
    "Outlier",
    "Pair",
    "Pairs",
    "Ping",
    "Place",
    "PlannedTest",
    "Proof",
    "RoundTrip",
    "Untested",
]


class Endpoint(t.TypedDict):
    host: str
    device: str
    port: int
    gid_index: t.Optional[int]
    address: t.Optional[str]


class Floor(t.TypedDict, total=False):
    """One of both."""

    min_gbps: float
    max_us: float


class Memlock(t.TypedDict):
    soft: t.Optional[str]
    hard: t.Optional[str]


class _Files(t.TypedDict):
    client: list[str]
    server: list[str]


class Given(t.TypedDict):
    """What Pods were given."""

    user: t.Optional[int]
    memlock: Memlock
    files: _Files
    image: str


class _OfLevel(t.TypedDict, total=False):
    level: t.Literal["hosts", "pods"]
    pods: Given
    bidirectional: bool
    memory: str
    sizes: list[Size]
    software: bool


class Measurement(_OfLevel):
    """level is in all that is written; files of earlier versions lack it. pods is there where it is pods.

    bidirectional, software: where true; memory: where it is a GPU's; sizes: where more than one was measured.
    """

    test: str
    client: Endpoint
    server: Endpoint
    message_bytes: int
    iterations: int
    qps: int
    mtu_bytes: t.Optional[int]
    bandwidth_gbps: t.Optional[Bandwidth]
    message_rate_mpps: t.Optional[float]
    latency_us: t.Optional[Latency]
    floor: Floor
    verdict: t.Literal["pass", "fail", "error"]
    message: str
    remedy: t.Optional[str]


class Untested(t.TypedDict):
    host: str
    device: t.Optional[str]
    port: t.Optional[int]
    reason: str
    defect: bool


class Inspection(t.TypedDict):
    """What a Pod on a host was given as a user. None: it did not say. memory_bytes: limit of memory, None for none."""

    host: str
    user: int
    memlock: Memlock
    ipc_lock: t.Optional[bool]
    memory_bytes: t.Optional[int]
    files: list[str]
    devices: list[str]
    image: str
    lacks: list[str]
    verdict: t.Literal["pass", "fail", "error"]
    message: str
    remedy: t.Optional[str]


class RoundTrip(t.TypedDict):
    """Microseconds, there and back."""

    min: float
    average: float
    max: float


class Ping(t.TypedDict):
    """Whether a Pod on a host reaches one on another over a secondary network."""

    client: str
    server: str
    network: str
    address: t.Optional[str]
    sent: t.Optional[int]
    received: t.Optional[int]
    rtt_us: t.Optional[RoundTrip]
    verdict: t.Literal["pass", "fail", "error"]
    message: str
    remedy: t.Optional[str]


class _OfPodLevel(t.TypedDict, total=False):
    collectives: list[Collective]
    inspections: list[Inspection]
    pings: list[Ping]


class Found(_OfPodLevel):
    """What was measured in a group, and what was not. inspections, pings: where Pods measure."""

    tests: list[Measurement]
    untested: list[Untested]


class Place(t.TypedDict):
    host: str
    device: str
    port: int


class _OfOutlier(t.TypedDict, total=False):
    """memory: whose, where it is that of GPUs."""

    memory: str


class Outlier(_OfOutlier):
    """A port, or a pair of ports, that is far from the median of a group. unit: of figure and median; of: how many were compared."""

    kind: t.Literal["port", "pair"]
    level: t.Literal["hosts", "pods"]
    test: str
    ends: list[Place]
    figure: float
    median: float
    unit: str
    of: int
    message: str
    remedy: str


class _OfEvidence(t.TypedDict, total=False):
    """links: what has grown on the links of the hosts while traffic moved, where hosts measured."""

    links: list[HostLink]
    outliers: list[Outlier]


class Evidence(Found, _OfEvidence):
    """The file of a group. Files of earlier versions lack outliers and links."""

    schema: int
    group: str


class Proof(t.TypedDict):
    """All of a run. failures: a sentence on each test that did not pass; expected: hosts that were to be measured."""

    groups: dict[str, Evidence]
    failures: list[str]
    expected: list[str]


# --- what is to be measured -------------------------------------------------------------------------------------------


class Limits(t.TypedDict):
    """From where on a figure is far from the median: a share of it, and microseconds. fail: it does not pass then."""

    fail: bool
    share: float
    us: float
    software_share: float


class _OfTest(t.TypedDict, total=False):
    all_sizes: bool
    bidirectional: bool
    memory: str


class _Planned(_OfTest, total=False):
    software: bool
    gpus: dict[Side, str]
    traffic_classes: dict[Side, int]


class PlannedTest(_Planned):
    """floor_reason: where its floor comes from, in words. What is false, or the host's memory, is not there.

    gpus: PCI addresses of those whose memory it is, where it is known which are near the HCAs; for hosts, as a Pod has its own.
    traffic_classes: what the packets of each side carry, where somebody has set it.
    """

    test: str
    client: Endpoint
    server: Endpoint
    message_bytes: int
    iterations: int
    qps: int
    floor: Floor
    floor_reason: str


class Exposed(t.TypedDict):
    """What a Pod on a host gets, by the plan, when it asks for one of each resource. whole: all devices, and not some of them."""

    resources: list[str]
    devices: list[str]
    whole: bool


class Look(Exposed):
    """A host whose Pods are to be looked at."""

    group: str
    host: str


class _OfPods(t.TypedDict, total=False):
    pods: dict[Side, Exposed]


class Pair(_OfPods):
    """Two hosts and their tests. pods: where Pods measure."""

    group: str
    client: str
    server: str
    tests: list[PlannedTest]


class _OfJob(_OfTest, total=False):
    gpu: str
    traffic_class: int


class JobTest(_OfJob):
    test: str
    device: str
    port: int
    gid_index: t.Optional[int]
    message_bytes: int
    iterations: int
    qps: int
    address: t.Optional[str]


class Job(t.TypedDict):
    """What one host does in one round. deadline: seconds."""

    role: Side
    peer: str
    deadline: int
    tests: list[JobTest]


class _OfRun(t.TypedDict, total=False):
    expected: list[str]
    looks: list[Look]
    limits: Limits


class Pairs(_OfRun):
    """Rounds of pairs without a common host, what cannot be measured by group, and the job of each host in each round.

    expected: hosts that were to be measured, once the filter rdma_pairs has added them. looks: where Pods measure.
    """

    rounds: list[list[Pair]]
    untested: dict[str, list[Untested]]
    jobs: dict[str, list[t.Optional[Job]]]
