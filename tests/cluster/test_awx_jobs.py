# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs as AWX starts them, by ansible-runner with what the execution environment pins, that reach the cluster by their credential."""

from __future__ import annotations

import json
import shutil
import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader

from ansible_collections.fabric.rdma.tests.cluster import (
    cluster as control_plane,
    test_all_systems as all_systems,
    test_handover,
)
from ansible_collections.fabric.rdma.tests.cluster.conftest import groups
from ansible_collections.fabric.rdma.tests.integration.test_events import GROWTH, NAME, sizes
from ansible_collections.fabric.rdma.tests.receptor import conftest as receptor
from ansible_collections.fabric.rdma.tests.receptor.controller import ROOT, Controller, Credential, Inventory, Result

if t.TYPE_CHECKING:
    from conftest import Kubelets, Site

pytestmark = pytest.mark.cluster

both = test_handover.both
execution_environment = receptor.execution_environment
job_env = receptor.job_env
nodes_env = receptor.nodes_env
pinned_collections = receptor.pinned_collections

OBJECTS = DataLoader().load_from_file(str(ROOT / "playbooks" / "vars" / "awx.yml"))["awx_objects"]
OLD = "rdma/old"


def inventory_of(site: Site) -> Inventory:
    """Its groups, as AWX has them from the project."""
    wishes = {
        name: {key: value for key, value in group.items() if key != "hosts"} for name, group in site.groups.items()
    }
    captures = {host: capture for group in site.groups.values() for host, capture in group["hosts"].items()}
    return Inventory(
        {name: list(group["hosts"]) for name, group in site.groups.items()},
        {**wishes, "rdma": {"rdma_groups": list(site.groups), "rdma_rollout": site.rollout}},
        {
            host: {"rdma_capture": f"{{{{ playbook_dir }}}}/../tests/captures/{capture}.capture"}
            for host, capture in captures.items()
        },
    )


def changed(result: Result) -> dict[str, int]:
    (stats,) = [each["event_data"] for each in result.events if each.get("event") == "playbook_on_stats"]
    return t.cast("dict[str, int]", stats["changed"])


@pytest.fixture
def start(
    tmp_path: Path, job_env: dict[str, str], nodes_env: dict[str, str]
) -> t.Callable[..., t.Callable[..., Result]]:
    """What runs playbooks on the inventory of a cluster, with the credential of the cluster."""

    def of(site: Site, name: str = "awx") -> t.Callable[..., Result]:
        env = {**job_env, "PATH": nodes_env["PATH"], "HOME": nodes_env["HOME"]}
        controller = Controller(tmp_path / name, inventory_of(site), env)
        credential = Credential(OBJECTS["credential_type"]["injectors"], {"kubeconfig": site.kubeconfig.read_text()})

        def job(name: str, **variables: t.Any) -> Result:
            # as it is by now
            controller.inventory = inventory_of(site)
            given = {"rdma_output_dir": str(site.directory / "output"), **variables}
            result = controller.run_here(f"playbooks/{name}.yml", given, credential=credential)
            failed = [each["event_data"] for each in result.events if each.get("event") == "runner_on_failed"]
            assert result.status == "successful", [
                (each["task"], each["res"].get("msg")) for each in failed
            ] or result.said[-3000:]
            return result

        return job

    return of


def test_jobs_roll_out_clean_up_and_take_out_by_the_credential_of_the_cluster(
    small: Site, kubelets: Kubelets, tmp_path: Path, start: t.Callable[[Site], t.Callable[..., Result]]
) -> None:
    job = start(small)
    job("discover")
    job("plan")
    # what the survey of the template answers
    assert changed(job("rollout", rdma_rollout_method="apply")) != {}
    hosts = {host for group in small.groups.values() for host in group["hosts"]}
    assert set(small.classes()) == hosts
    before = small.objects()
    assert any(name.startswith("DaemonSet") for name in before)
    assert changed(job("rollout", rdma_rollout_method="apply")) == {}
    assert small.objects() == before

    node = min(hosts)
    kubelets.give_up(node, OLD)
    job("cleanup_stale", rdma_stale_resources=[OLD])
    assert OLD not in small.node(node)["status"]["capacity"]
    assert small.objects() == before

    job("uninstall")
    assert (small.objects(), small.classes()) == ({}, {})
    # a credential is neither shown nor kept with what a job leaves
    key = json.loads(small.kubeconfig.read_text())["users"][0]["user"]
    secret = next(str(value) for value in key.values())
    assert not [path for path in (tmp_path / "output").rglob("*") if path.is_file() and secret in path.read_text()]


def test_jobs_hand_a_class_over_to_dranet_and_back(
    both: tuple[Site, test_handover.Dranet], start: t.Callable[[Site], t.Callable[..., Result]]
) -> None:
    site, driver = both
    nodes = list(site.groups["gb200"]["hosts"])
    job = start(site)
    job("rollout", rdma_rollout_method="apply")
    assert (driver.offered(), driver.published()) == (nodes, {})
    plugin = site.objects()
    site.rollout |= {"engine": "dra"}
    job("handover")
    assert (driver.offered(), driver.published()) == ([], {node: test_handover.devices(node) for node in nodes})
    assert changed(job("handover")) == {}
    job("handover", rdma_handover_to="daemonset")
    assert (driver.offered(), driver.published()) == (nodes, {})
    assert set(site.objects()) == set(plugin)


# Of lists that have an end, it is reached with the fewer.
FEW, MANY = 22, 26
MORE_LABELS = {f"feature.node.kubernetes.io/cpu-{number}": "true" for number in range(100)}


def large(site: Site, nodes: int) -> dict[str, str]:
    """A cluster of one group, whose nodes have as many labels as where somebody discovers their features. Their recordings."""
    hosts = {NAME.format(number): "gb200-1" for number in range(1, nodes + 1)}
    site.groups = {"gb200": {**groups()["gb200"], "hosts": hosts}}
    labels = {key: value for case in all_systems.CHARTED for key, value in case.labels}
    site.nodes({**MORE_LABELS, **all_systems.GPU_NODE, **labels})
    return hosts


def wish(site: Site, *systems: str) -> None:
    """For systems that come as charts."""
    charts = site.directory / "charts"
    charts.mkdir(exist_ok=True)
    for case in [each for each in all_systems.CHARTED if each.system in systems]:
        all_systems.chart(charts, case.chart, case.version)
        own = {key: value for key, value in case.wish.items() if key not in ("groups", "nodes")}
        site.groups["gb200"][f"rdma_{case.system}"] = own
    site.rollout |= {"charts": str(charts), "helm": {"binary": control_plane.find_helm()}}


def of_systems(site: Site, hosts: dict[str, str], job: t.Callable[..., Result]) -> list[Result]:
    """The device plugin, and systems that label nodes or have objects of them: come, stay and go."""
    wish(site, "longhorn", "gpu_operator", "compute_domain")
    site.groups["gb200"]["rdma_longhorn"] |= {"groups": [], "nodes": list(hosts)}
    site.groups["gb200"]["rdma_topology"] = {"labels": True}
    all_systems.draw(site, **{host.replace("-", "_"): "leaf-1" for host in hosts})
    # what these charts bring runs nowhere
    site.rollout["timeout"] = 0
    came = [job("rollout", rdma_rollout_method="apply")]
    # which do not go together
    job("uninstall", rdma_uninstall_systems=["compute_domain"])
    del site.groups["gb200"]["rdma_compute_domain"]
    wish(site, "vgpu")
    site.groups["gb200"]["rdma_vgpu"] |= {"groups": ["gb200"]}
    return [*came, job("rollout", rdma_rollout_method="apply"), job("uninstall")]


def of_a_handover(site: Site, hosts: dict[str, str], job: t.Callable[..., Result]) -> list[Result]:
    """From the device plugin to DRANET, which is rolled out again, and back."""
    all_systems.forget_claims(site)
    driver = test_handover.Dranet(str(site.kubeconfig), hosts)
    driver.start()
    try:
        came = [job("rollout", rdma_rollout_method="apply")]
        site.rollout |= {"engine": "dra"}
        came += [job("handover"), job("rollout", rdma_rollout_method="apply")]
        return [*came, job("handover", rdma_handover_to="daemonset"), job("uninstall")]
    finally:
        driver.ends.set()
        driver.join()
        assert driver.published() == {}
        assert driver.both == []


@pytest.mark.parametrize("jobs", [of_systems, of_a_handover])
def test_no_event_of_a_rollout_grows_with_the_cluster(
    jobs: t.Callable[..., list[Result]], site: Site, start: t.Callable[..., t.Callable[..., Result]]
) -> None:
    seen: dict[int, dict[tuple[t.Any, ...], int]] = {}
    for nodes in (FEW, MANY):
        # to which no host is known
        results = jobs(site, large(site, nodes), start(site, str(nodes)))
        told = enumerate(sizes(result.events) for result in results)
        seen[nodes] = {(number, *key): size for number, each in told for key, size in each.items()}
        site.clear()
        site.rollout.pop("engine", None)
        # what a plan has known before is said of the next one
        shutil.rmtree(site.directory / "output")
    assert len(seen[FEW]) > 100
    assert sorted(seen[FEW]) == sorted(seen[MANY])
    growth = {key: (seen[MANY][key] - size) / (MANY - FEW) for key, size in seen[FEW].items()}
    assert {key: each for key, each in growth.items() if each > GROWTH} == {}
