# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a group has all that systems bring to it, in words, and nothing that is another group's."""

from __future__ import annotations

import itertools
import re
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import LONGHORN
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import GROUP_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import page_parts, request_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request, Site, empty_request
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.page import (
    Part,
    concerned_groups,
    parts_of_groups,
    plan_page,
    rows_of_groups,
)
from ansible_collections.fabric.rdma.tests.unit.contracts import NOTHING_KNOWN
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems import (
    network_sites,
    test_dra,
    test_longhorn,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.test_secondary_network import ALL

Json = dict[str, t.Any]
GROUP_OF = {"ib": network_sites.IB, "roce": network_sites.ROCE}
V100 = ["ib-v100-1", "ib-v100-2"]
NODES = {"resource.k8s.io": ["v1"], "apps": ["v1"]}


def asked(system: str, wish: Json, site: Site, **around: t.Any) -> Request:
    return request_of(system, wish, site, t.cast("t.Any", {**NOTHING_KNOWN, **around}))


def part(*rows: tuple[str, str], errors: t.Sequence[str] = (), warnings: t.Sequence[str] = ()) -> Part:
    return {"rows": list(rows), "errors": list(errors), "warnings": list(warnings)}


def of_group(request: Request, group: str) -> list[Json]:
    return [
        item
        for item in request["objects"]
        if (item["metadata"].get("labels") or {}).get(GROUP_LABEL) == group_value(group)
    ]


@pytest.mark.parametrize("name", list(ALL))
def test_each_network_and_pool_is_on_the_page_in_words(name: str) -> None:
    request = ALL[name]()
    group = next(iter(request["group_rows"]))
    site = network_sites.networked_site({group: GROUP_OF[group]})
    rows = rows_of_groups(request, site, [group])[group]
    own = of_group(request, group)
    words = {row[0]: row[1] for row in rows}
    assert own
    for item in own:
        place = "/".join(filter(None, (item["metadata"].get("namespace"), item["metadata"]["name"])))
        said = words[f"{item['kind']} {place}"]
        assert said
        # what the plan of functions is told in is a file, as it stands
        assert said != "as its file has it" or item["kind"] == "ConfigMap"
        assert not re.search(r"\b(of|on|resource|pool) ?(,|$)|None", said), "a word without what it is of"


def test_addresses_of_each_rail_are_on_the_page_with_what_they_leave_out() -> None:
    ranges = {**network_sites.ADDRESSES, "exclude": ["10.20.3.64/26"]}
    request = network_sites.roce({"name": "fabric", "kind": "macvlan", "rails": True, "mtu": 9000, "ipam": ranges})
    site = network_sites.networked_site({"roce": network_sites.ROCE})
    words = dict(rows_of_groups(request, site, ["roce"])["roce"])
    assert request["problems"] == []
    for number in range(8):
        said = words[f"NetworkAttachmentDefinition default/fabric-rail{number + 1}"]
        assert said.startswith(f"macvlan, on enp{11 + number}s0f0np0, MTU 9000, whereabouts, 10.20.{number}.0/24 (")
        assert ("without 10.20.3.64/26" in said) is (number == 3)


def test_claims_have_their_selectors_on_the_page() -> None:
    site = test_dra.rails()
    request = asked("dra", test_dra.wish(claims={"namespaces": ["training"]}), site, served=NODES)
    assert request["problems"] == []
    words = dict(page_parts(request, test_dra.wish(), site)["roce"]["rows"])
    classes = [item for item in request["objects"] if item["kind"] == "DeviceClass"]
    assert len(classes) == 8
    for item in classes:
        expression = item["spec"]["selectors"][0]["cel"]["expression"]
        assert words[f"DeviceClass {item['metadata']['name']}"] == " ".join(expression.split("\n"))
    (every,) = [said for what, said in words.items() if what.endswith("-rails")]
    assert [f"rail{number}: 1 of " in every for number in range(1, 9)] == [True] * 8


def test_what_is_of_another_group_is_not_on_the_page() -> None:
    two = {"ib": network_sites.IB, "roce": network_sites.ROCE}
    wished = {
        "ib": network_sites.networked(two["ib"], {"name": "ib", "kind": "ipoib", "ipam": network_sites.ONE}),
        "roce": network_sites.networked(
            two["roce"],
            {
                "name": "fabric",
                "kind": "macvlan",
                "rails": True,
                "ipam": {**network_sites.ADDRESSES, "range": "10.21.0.0/16"},
            },
        ),
    }
    site = network_sites.networked_site(wished)
    request = asked("secondary_network", network_sites.BROUGHT, site)
    assert request["problems"] == []
    pages = page_parts(request, network_sites.BROUGHT, site)
    assert sorted(pages) == ["ib", "roce"]
    for own, other in (("ib", "roce"), ("roce", "ib")):
        names = {f"/{item['metadata']['name']}" for item in of_group(request, other)}
        assert names
        text = "\n".join(f"{what} {said}" for what, said in pages[own]["rows"])
        assert not [name for name in names if name in text]
        assert f"({other})" not in text
        assert f"({own})" in text
    assert [what for what, _said in pages["roce"]["rows"] if what.startswith("workloads/")] == [
        "workloads/roce-fabric.yaml"
    ]


def test_a_group_is_asked_whether_a_system_is_for_it() -> None:
    site = a_site({"ib-v100": ({"rdma_networks": [{}]}, V100), "ib-a100": ({}, ["ib-a100-1"])})
    assert concerned_groups("rdma_networks", True, {}, site) == ["ib-v100"]
    assert concerned_groups("rdma_vgpu", False, {"groups": ["ib-a100"]}, site) == ["ib-a100"]
    assert concerned_groups("rdma_gpu_operator", False, {"version": "1"}, site) == ["ib-v100", "ib-a100"]
    assert concerned_groups("rdma_longhorn", False, {"groups": [], "nodes": ["ib-v100-2"]}, site) == ["ib-v100"]
    assert concerned_groups("rdma_longhorn", False, {"groups": [], "nodes": ["elsewhere"]}, site) == []
    (slug,) = [each["name"] for each in site["plan"]["groups"]["ib-a100"]["classes"]]
    for classes, groups in (
        ({"groups": ["ib-v100"]}, ["ib-v100"]),
        ({"names": [slug]}, ["ib-a100"]),
        ({"groups": []}, ["ib-v100", "ib-a100"]),
    ):
        assert concerned_groups("rdma_rollout", False, {"engine": "dra", "classes": classes}, site) == groups


def test_a_group_that_keeps_the_plugin_is_not_said_to_be_served_by_dra() -> None:
    site = a_site({"gb200": ({}, ["gb200-1"]), "b": ({}, ["gb200-2"])})
    wish = {"engine": "dra", "classes": {"groups": ["gb200"]}}
    request = asked("dra", wish, site)
    assert request["problems"] == []
    parts = page_parts(request, wish, site)
    assert list(parts) == ["gb200"]
    pages = {
        name: plan_page(name, group, ["dra"], {"dra": parts}, []) for name, group in site["plan"]["groups"].items()
    }
    assert "served by dra" in pages["gb200"]
    assert "served by dra" not in pages["b"]
    assert (
        "device_plugin\n-------------\nIt stays as it is: rdma_rollout.classes leaves the group to it.\n" in pages["b"]
    )


def test_nodes_that_are_named_bring_a_system_to_the_page_of_their_group() -> None:
    site = test_longhorn.the_site()
    wish = {"version": LONGHORN, "groups": [], "nodes": ["ib-v100-1"]}
    request = asked("longhorn", wish, site)
    assert request["problems"] == []
    pages = page_parts(request, wish, site)
    assert list(pages) == ["ib-v100"]
    assert ("label node.longhorn.io/create-default-disk=true", "on ib-v100-1") in pages["ib-v100"]["rows"]


def test_labels_of_nodes_are_on_the_page_of_their_group_only() -> None:
    site = a_site({"ib-v100": ({}, V100), "ib-a100": ({}, ["ib-a100-1"])}, leaves={"ib-v100-1": ["leaf-1"]})
    wish = {"labels": True}
    pages = page_parts(asked("topology", wish, site), wish, site)
    assert list(pages) == ["ib-v100"]
    assert ("label topology.fabric.rdma/leaf=leaf-1", "on ib-v100-1") in pages["ib-v100"]["rows"]


def test_hypernodes_are_those_that_nodes_of_the_group_are_in() -> None:
    site = a_site({"ib-v100": ({"rdma_gpudirect": "none"}, V100), "ib-a100": ({}, ["ib-a100-1"])})
    wish = {"groups": ["ib-v100"], "stop_device_plugin": True, "hypernodes": True}
    rows = page_parts(asked("vgpu", wish, site), wish, site)["ib-v100"]["rows"]
    tiers = [said for what, said in rows if what.startswith("HyperNode rdma-")]
    assert [said.partition(":")[0] for said in tiers] == ["tier 1", "tier 2", "tier 3"]
    assert "a100" not in "".join(tiers)


def test_the_page_says_what_comes_in_which_order_and_that_nothing_is_done() -> None:
    site = a_site({"ib-v100": ({}, V100)})
    asked_for = {
        "gpu_operator": {"ib-v100": part(("GPU Operator", "v1"))},
        "longhorn": {"ib-a100": part(("Longhorn", "1.2.3"))},
    }
    prepared = [("ib-v100-1", "would change", "ofed: ib_umad is not loaded")]
    systems = ["device_plugin", "gpu_operator", "longhorn"]
    text = plan_page("ib-v100", site["plan"]["groups"]["ib-v100"], systems, asked_for, prepared)
    lines = text.splitlines()
    assert "Nothing of this page is applied yet." in text
    assert "prepare the nodes, then device_plugin, then gpu_operator" in " ".join(text.split())
    assert "longhorn" not in text
    titles = [line for line, under in itertools.pairwise(lines) if under and set(under) == {"-"}]
    assert titles == ["prepare the nodes", "device_plugin", "gpu_operator"]
    for words in ("ofed: ib_umad is not loaded", "Pods ask for rdma/ib_v100", "deviceIDs 1017", "GPU Operator  v1"):
        assert words in text
    assert max(map(len, lines)) <= 100


def test_what_cannot_be_and_what_is_warned_of_are_below_the_rows_of_their_system() -> None:
    group = a_site({"ib-v100": ({}, V100)})["plan"]["groups"]["ib-v100"]
    long = "there is not one node that could store, " * 4
    asked_for = {
        "gpu_operator": {"ib-v100": part(("GPU Operator", "v1"), warnings=["it is old"])},
        "longhorn": {"ib-v100": part(errors=[long, "no\x1b[2J"])},
    }
    text = plan_page("ib-v100", group, ["device_plugin", "gpu_operator", "longhorn"], asked_for, [])
    assert "Nothing is applied before the errors of longhorn below are gone." in text
    assert text.index("GPU Operator  v1\n\nwarning: it is old\n") < text.index(
        "longhorn\n--------\nerror: there is not"
    )
    assert long.strip() in " ".join(text.split())
    assert text.endswith("error: no?[2J\n")
    assert max(map(len, text.splitlines())) <= 100
    # and none is announced where there is none
    del asked_for["longhorn"]
    assert "errors of" not in plan_page("ib-v100", group, ["device_plugin", "gpu_operator"], asked_for, [])


def test_a_group_is_told_what_is_said_of_it_and_of_all_and_nothing_of_others() -> None:
    site = a_site({"ib-v100": ({}, V100), "ib-a100": ({}, ["ib-a100-1"])})
    (slug,) = [each["name"] for each in site["plan"]["groups"]["ib-a100"]["classes"]]
    sentences = ["group ib-v100: x", f"class {slug}: y", "hosts a and b: z"]
    request: Request = {**empty_request("longhorn"), "warnings": sentences, "summary": [("Longhorn", "1")]}
    assert parts_of_groups(request, site, []) == {}
    request["objects"] = [{"kind": "ConfigMap", "metadata": {"name": "of-all"}}]
    parts = parts_of_groups(request, site, ["ib-v100", "ib-a100"])
    assert parts["ib-v100"]["warnings"] == [sentences[0], sentences[2]]
    assert parts["ib-a100"]["warnings"] == sentences[1:]
    # what cannot be has no objects, and may be of no group
    refused: Request = {**empty_request("longhorn"), "problems": sentences}
    told = {"ib-v100": [sentences[0], sentences[2]], "ib-a100": sentences[1:]}
    assert {name: each["errors"] for name, each in parts_of_groups(refused, site, []).items()} == told
    assert list(parts_of_groups(refused, site, ["ib-a100"])) == ["ib-a100"]


def test_vgpu_warns_of_nccl_between_nodes_on_the_page_of_its_group() -> None:
    site = a_site({"ib-v100": ({"rdma_gpudirect": "none"}, V100), "ib-a100": ({}, ["ib-a100-1"])})
    wish = {"groups": ["ib-v100"], "stop_device_plugin": True}
    parts = page_parts(asked("vgpu", wish, site), wish, site)
    assert list(parts) == ["ib-v100"]
    assert "NCCL between nodes fails" in " ".join(parts["ib-v100"]["warnings"])


def test_selectors_are_told_where_claims_take_the_place_of_the_plugin() -> None:
    group = a_site({"ib-v100": ({}, V100)})["plan"]["groups"]["ib-v100"]
    text = plan_page("ib-v100", group, ["dra"], {"dra": {"ib-v100": part(("DeviceClass x", "cel"))}}, [])
    assert "functions (served by dra, below)" in text
    assert "deviceIDs 1017" in text


def test_what_a_node_says_moves_no_cursor() -> None:
    request = empty_request("secondary_network")
    request["objects"] = [{"kind": "ConfigMap", "metadata": {"name": "of-all"}}]
    request["summary"] = [("a\x1b[2J", "b\r\nc")]
    rows = rows_of_groups(request, a_site({"ib-v100": ({}, V100)}), ["ib-v100"])["ib-v100"]
    assert rows == [("a?[2J", "b??c")]
