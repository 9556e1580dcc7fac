# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs as AWX starts them, by ansible-runner with what the execution environment pins, that reach the cluster by their credential."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader

from ansible_collections.fabric.rdma.tests.cluster import test_handover
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
) -> t.Callable[[Site], t.Callable[..., Result]]:
    """What runs playbooks on the inventory of a cluster, with the credential of the cluster."""

    def of(site: Site) -> t.Callable[..., Result]:
        env = {**job_env, "PATH": nodes_env["PATH"], "HOME": nodes_env["HOME"]}
        controller = Controller(tmp_path / "awx", inventory_of(site), env)
        credential = Credential(OBJECTS["credential_type"]["injectors"], {"kubeconfig": site.kubeconfig.read_text()})

        def job(name: str, **variables: t.Any) -> Result:
            # as it is by now
            controller.inventory = inventory_of(site)
            given = {"rdma_output_dir": str(tmp_path / "rdma"), **variables}
            result = controller.run_here(f"playbooks/{name}.yml", given, credential=credential)
            assert result.status == "successful", result.said[-3000:]
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
    assert not [path for path in (tmp_path / "rdma").rglob("*") if path.is_file() and secret in path.read_text()]


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
