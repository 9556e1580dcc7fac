# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""images.txt has every image that what is rendered pulls, and no other.

Images are found here by a reader of its own, which takes rendered files apart and knows nothing of how the list is made: containers of any
kind, fields of the resources of operators, values of charts, variables and arguments, also in texts that are YAML or JSON themselves.
"""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base import sources
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import engine_defaults
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import plan_manifests
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.images import image_list
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import operator_manifests
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import SYSTEMS, request_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.files import files_of
from ansible_collections.fabric.rdma.tests.unit.contracts import NOTHING_KNOWN
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.test_operator import PLAN, entry, plan
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems import (
    network_sites,
    test_compute_domain,
    test_dra,
    test_gpu_operator,
    test_longhorn,
    test_topology,
    test_vgpu,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.test_secondary_network import ALL

Json = dict[str, t.Any]
MIRROR = "mirror.example.com/all"
# REGISTRY/PATH:TAG, REGISTRY/PATH@DIGEST or both
REFERENCE = re.compile(r"[a-z0-9][a-z0-9.-]*(?::[0-9]+)?/[a-z0-9._/-]+(?::[A-Za-z0-9._-]+)?(?:@sha256:[0-9a-f]{64})?")
# Nobody has it: users put in their own.
PLACEHOLDER = re.compile(r"registry\.example\.com/workload:[0-9.]+")


# --- the reader -------------------------------------------------------------------------------------------------------


def is_reference(text: t.Any) -> bool:
    return isinstance(text, str) and REFERENCE.fullmatch(text) is not None and (":" in text or "@" in text)


def within(text: str) -> t.Any:
    """What a text is that is YAML or JSON itself; None for any other."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    return found if isinstance(found, (dict, list)) else None


def of_mapping(value: Json, above: str | None) -> t.Iterator[str]:
    """Images that a mapping names itself. above: where images lie by what is around it."""
    image, repository = value.get("image"), value.get("repository") or above
    if isinstance(image, str) and value.get("version"):
        yield f"{repository}/{image}:{value['version']}"
    elif isinstance(image, str) and image:
        yield image
    if value.get("repository") and value.get("tag"):
        yield f"{value['repository']}:{value['tag']}"
    # a variable of a container
    if "IMAGE" in str(value.get("name", "")).upper() and is_reference(value.get("value")):
        yield str(value["value"])


def read(value: t.Any, above: str | None = None) -> t.Iterator[str]:
    if isinstance(value, dict):
        above = (value.get("global") or {}).get("repository") or above
        yield from of_mapping(value, above)
        for each in value.values():
            yield from read(each, above)
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, str) and (match := re.fullmatch(r"--?[a-z-]*image[a-z-]*=(\S+)", each)):
                yield match[1]
            yield from read(each, above)
    elif isinstance(value, str):
        yield from read(within(value), above)


def read_files(files: t.Mapping[str, str]) -> set[str]:
    documents = [item for name, text in files.items() if name.endswith(".yaml") for item in yaml.safe_load_all(text)]
    return {image for item in documents for image in read(item) if not PLACEHOLDER.fullmatch(image)}


def listed(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"spec": {"initContainers": [{"image": "a.io/b:1"}], "ephemeralContainers": [{"image": "a.io/c:1"}]}}, 2),
        ({"spec": {"plugin": {"repository": "a.io", "image": "b", "version": "1"}}}, 1),
        ({"spec": {"global": {"repository": "a.io"}, "deep": {"er": {"image": "b", "version": "1"}}}}, 1),
        ({"image": {"repository": "a.io/b", "tag": "1"}}, 1),
        ({"env": [{"name": "HELPER_IMAGE", "value": "a.io/b:1"}]}, 1),
        ({"args": ["--helper-image=a.io/b:1"]}, 1),
        ({"data": {"pod.json": '{"spec": {"containers": [{"image": "a.io/b:1"}]}}'}}, 1),
        ({"imagePullPolicy": "IfNotPresent", "imagePullSecrets": [{"name": "a"}]}, 0),
    ],
)
def test_the_reader_finds_an_image_wherever_it_is_named(value: Json, found: int) -> None:
    images = list(read(value))
    assert len(images) == found
    assert set(images) <= {"a.io/b:1", "a.io/c:1"}


# --- systems ----------------------------------------------------------------------------------------------------------


def networks(name: str) -> Request:
    """As secondary_network answers, without what the catalogue reads off its objects."""
    return ALL[name]()


def through_catalogue(system: str, wish: Json, site: t.Any, **around: t.Any) -> Request:
    return request_of(system, wish, site, t.cast("t.Any", {**NOTHING_KNOWN, **around}))


def everything_networked() -> Request:
    site = network_sites.networked_site(
        {
            "roce": network_sites.networked(
                network_sites.ROCE,
                {"name": "dev", "kind": "hostdevice", "rails": True, "ipam": network_sites.ADDRESSES},
                rdma_resource={"name": "shared_cx5", "hca_max": 0},
            )
        },
        registry=MIRROR,
    )
    brought = {name: {"install": True} for name in ("multus", "whereabouts", "spiderpool")}
    return through_catalogue("secondary_network", brought, site)


def claims(**more: t.Any) -> Request:
    wish = test_dra.wish(claims={"namespaces": ["training"]})
    return through_catalogue("dra", wish, {**test_dra.rails(), **more})


def compute_domains(**more: t.Any) -> Request:
    site = test_compute_domain.gb200(
        workloads={"nccl_image": "images.example.com/nccl-tests:v1"}, mpi_operator="install"
    )
    return through_catalogue("compute_domain", {}, {**site, **more}, served=test_compute_domain.SERVED)


def topology() -> Request:
    leaves = {"ib-v100-1": ["a"], "ib-v100-2": ["a"]}
    return through_catalogue("topology", test_topology.WISH, test_topology.site_of(**leaves))


def of_volcano(registry: str | None = None) -> Request:
    wish = {"groups": ["ib-v100"], "stop_device_plugin": True}
    return through_catalogue("vgpu", wish, test_vgpu.site_of(registry=registry))


def of_longhorn(registry: str | None = None) -> Request:
    return through_catalogue("longhorn", {"version": sources.LONGHORN}, test_longhorn.the_site(registry=registry))


def of_gpus(registry: str | None = None) -> Request:
    return through_catalogue(
        "gpu_operator", {"version": sources.GPU_OPERATOR}, {**test_gpu_operator.SITE, "registry": registry}
    )


# What the GPU Operator's chart pulls where nothing further is asked for: by the place below its registry.
OF_THE_GPU_OPERATOR = (
    "nvidia/cloud-native/k8s-driver-manager",
    "nvidia/cloud-native/k8s-mig-manager",
    "nvidia/driver",
    "nvidia/gpu-operator",
    "nvidia/k8s-device-plugin",
    "nvidia/k8s/container-toolkit",
    "nvidia/k8s/dcgm-exporter",
    "nfd/node-feature-discovery",
)


# By case: the system, and what it answers.
CASES: dict[str, tuple[str, t.Callable[[], Request]]] = {
    **{f"secondary_network, {name}": ("secondary_network", lambda name=name: networks(name)) for name in ALL},  # type: ignore[misc]
    "secondary_network, from a mirror": ("secondary_network", everything_networked),
    "dra": ("dra", claims),
    "dra, from a mirror": ("dra", lambda: claims(registry=MIRROR)),
    "compute_domain": ("compute_domain", compute_domains),
    "compute_domain, from a mirror": ("compute_domain", lambda: compute_domains(registry=MIRROR)),
    "topology": ("topology", topology),
    "vgpu": ("vgpu", of_volcano),
    "vgpu, from a mirror": ("vgpu", lambda: of_volcano(MIRROR)),
    "longhorn": ("longhorn", of_longhorn),
    "longhorn, from a mirror": ("longhorn", lambda: of_longhorn(MIRROR)),
    "gpu_operator": ("gpu_operator", of_gpus),
    "gpu_operator, from a mirror": ("gpu_operator", lambda: of_gpus(MIRROR)),
}


def place_of(image: str) -> str:
    """Without registry or mirror, tag and digest."""
    path = image.removeprefix(f"{MIRROR}/") if image.startswith(MIRROR) else image.partition("/")[2]
    return re.sub(r"(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?$", "", path)


def of_charts(found: Request) -> set[str]:
    """Places of what charts pull that no value of theirs names."""
    known: set[str] = set()
    for chart in found["charts"]:
        name = chart["chart"].rpartition("/")[2]
        if name == "spiderpool":
            known |= {place_of(image) for image in sources.SPIDERPOOL_IMAGES}
        elif name == "volcano":
            known |= {place_of(image) for image in sources.VOLCANO_IMAGES}
        elif name == "longhorn":
            known |= {*sources.LONGHORN_IMAGES[1, 12][1]}
        elif name == "gpu-operator":
            known |= {*OF_THE_GPU_OPERATOR}
    return known


def test_every_system_of_the_catalogue_is_here() -> None:
    # the device plugin renders by itself (below)
    assert {system for system, _make in CASES.values()} == {each.name for each in SYSTEMS} - {"device_plugin"}


@pytest.mark.parametrize("name", CASES)
def test_the_list_has_each_image_of_what_is_rendered_and_no_other(name: str) -> None:
    found = CASES[name][1]()
    assert found["problems"] == []
    files = {path: file["text"] for path, file in files_of(found).items()}
    in_files, in_list = read_files(files), listed(files.get("images.txt", ""))
    assert in_list == sorted(set(in_list))
    assert all(map(is_reference, in_list))
    assert in_files <= set(in_list)
    assert {place_of(image) for image in {*in_list} - in_files} == of_charts(found) - {*map(place_of, in_files)}


@pytest.mark.parametrize("name", [name for name in CASES if "mirror" in name])
def test_a_mirror_is_where_everything_comes_from(name: str) -> None:
    """Whatever in a rendered file looks like an image, wherever it stands."""
    found = CASES[name][1]()
    files = {path: file["text"] for path, file in files_of(found).items()}
    own = {image for image in listed(files["images.txt"]) if image.startswith("images.example.com/")}
    for image in {*read_files(files), *listed(files["images.txt"])} - own:
        assert image.startswith(f"{MIRROR}/")
    text = "\n".join(text for path, text in files.items() if path != "images.txt")
    in_text = {each.rstrip(".") for each in re.findall(rf"{re.escape(MIRROR)}/[a-z0-9._/-]+:[A-Za-z0-9._@:-]+", text)}
    assert in_text <= set(listed(files["images.txt"]))


# --- the device plugin ------------------------------------------------------------------------------------------------

DRIVER = {"ofed_driver": {"version": "doca3.3.0-26.01-1.0.0.0-0"}}
OPERATED: list[Json] = [
    {"version": f"{in_dots(line)}.0", "policy": policy, **more}
    for line in sources.LINES
    for policy in (["cluster", "node"] if line >= (26, 4) else ["cluster"])
    for more in ({}, {"registry": MIRROR}, DRIVER)
]


def rendered(objects: t.Mapping[str, t.Any]) -> tuple[set[str], list[str]]:
    """(images that are found in the files, those of the list)."""
    files = {path: yaml.safe_dump(value) for path, value in objects.items()}
    return read_files(files), listed(image_list(list(objects.values())))


@pytest.mark.parametrize("registry", [None, MIRROR])
def test_the_list_of_the_device_plugin_has_each_image_and_no_other(registry: str | None) -> None:
    settings = {**engine_defaults("daemonset"), "pod_security": False, "registry": registry}
    in_files, in_list = rendered(plan_manifests(PLAN, settings))
    assert in_files == set(in_list)
    assert len(in_list) == 1


@pytest.mark.parametrize("settings", OPERATED, ids=lambda each: " ".join(map(str, each.values()))[:50])
def test_the_list_of_the_network_operators_policies_has_each_image_and_no_other(settings: Json) -> None:
    one = plan(a=[entry("a-1", "rdma_a", "n1", vendors=["15b3"])])
    quiet = {"default_route_netdevs": [], "rdma_backed": False, "mounts_over_rdma": []}
    facts = {"n1": {"management": quiet, "ofed": {"flavour": "inbox"}}}
    told = {**settings, "facts": facts, "ofed_methods": {"n1": "none"}}
    in_files, in_list = rendered(operator_manifests(one, told))
    assert in_files == set(in_list)
    assert len(in_list) == (2 if "ofed_driver" in settings else 1)
