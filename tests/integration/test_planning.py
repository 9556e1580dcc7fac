# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that see, or plan, a part of the inventory lose nothing of what earlier runs know of the rest."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import DRA_DRIVER, GPU_OPERATOR, LONGHORN
from ansible_collections.fabric.rdma.tests.unit.contracts import load

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
WISHES = {"v100": {"rdma_resource": {"name": "rdma_v100"}}, "a100": {"rdma_resource": {"name": "rdma_a100"}}}


class Site(t.NamedTuple):
    """An inventory of replayed hosts, and what comes out of runs on it."""

    user: User
    directory: Path

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def load(self, name: str) -> dict[str, t.Any]:
        return load(self.output / name)

    def rendered(self, group: str) -> set[str]:
        return {path.name for path in (self.output / "rendered" / group).glob("*")}

    def write(self, groups: dict[str, dict[str, str]], **variables: t.Any) -> None:
        """groups: {group: {host: name of its capture}}."""
        children = {
            name: {
                "hosts": {
                    host: {"rdma_capture": str(CAPTURES / f"{capture}.capture")} for host, capture in hosts.items()
                },
                "vars": WISHES.get(name, {"rdma_resource": {"name": f"rdma_{name}"}}),
            }
            for name, hosts in groups.items()
        }
        common = {"rdma_groups": sorted(groups), "rdma_output_dir": str(self.output), **variables}
        (self.directory / "hosts.json").write_text(json.dumps({"rdma": {"children": children, "vars": common}}))

    def play(self, playbook: str, *arguments: str, fails: bool = False) -> str:
        """What an ansible-playbook run says, on one line."""
        command = ("ansible-playbook", f"fabric.rdma.{playbook}", "-i", str(self.directory / "hosts.json"), *arguments)
        done = self.user.run(*command, check=not fails)
        assert not fails or done.returncode == 2, done.stdout
        return " ".join((done.stdout + done.stderr).split())


V100 = {"v1": "ib-v100-1", "v2": "ib-v100-2"}
A100 = {"a1": "ib-a100-1", "a2": "ib-a100-2"}


@pytest.fixture
def site(user: User, tmp_path: Path) -> Site:
    there = Site(user, tmp_path)
    there.write({"v100": V100, "a100": A100})
    return there


def test_discovery_of_a_part_keeps_the_facts_of_the_rest(site: Site) -> None:
    site.play("discover")
    everybody = site.load("facts.json")
    assert sorted(everybody) == ["a1", "a2", "v1", "v2"]
    # what this run does not see stays, also what its inventory does not have
    site.write({"v100": V100, "a100": {"a2": "ib-a100-2"}})
    site.play("discover", "--limit", "v100")
    assert site.load("facts.json") == everybody
    # and damage is told, not written over
    damaged = (site.output / "facts.json").read_text()[:-100]
    (site.output / "facts.json").write_text(damaged)
    said = site.play("discover", "--limit", "v100", fails=True)
    assert "output/facts.json cannot be read as the facts of an earlier run" in said
    assert (site.output / "facts.json").read_text() == damaged


def test_hosts_without_a_usable_port_are_named_together(site: Site) -> None:
    site.write({"v100": {**V100, "bare1": "no-rdma", "bare2": "no-rdma"}})
    said = site.play("discover", fails=True)
    assert "bare1 has no usable port. Found: no RDMA device at all. bare2 has no usable port." in said
    assert sorted(site.load("facts.json")) == ["bare1", "bare2", "v1", "v2"]


def test_what_a_run_does_not_plan_stays(site: Site) -> None:
    """One story, because each run takes seconds: all groups, a refusal, its advice followed, a lost host, a lost group."""
    site.play("plan")
    first = site.load("plan.json")
    v100, a100 = site.rendered("v100"), site.rendered("a100")
    assert len(v100) == 3, "a ConfigMap, a DaemonSet and the labels of one class"
    assert len(a100) == 6
    (site.output / "rendered" / "v100" / "mine-daemonset.yaml").write_text("kind: DaemonSet\n")

    said = site.play("plan", "--limit", "a100", fails=True)
    assert "group v100: no facts of v1, v2 (2 of 2 hosts)" in said
    assert "set rdma_groups to the groups that you want planned" in said
    assert site.load("plan.json") == first

    # a class keeps the name that an earlier run gave it
    text = json.dumps(first).replace("a100-ibp161s0", "a100-ibp161")
    (site.output / "plan.json").write_text(text)
    first = json.loads(text)
    a100 = {name.replace("ibp161s0", "ibp161") for name in a100}
    site.play("plan", "--limit", "a100", "-e", json.dumps({"rdma_groups": ["a100"]}))
    second = site.load("plan.json")
    assert sorted(second["groups"]) == ["a100", "v100"]
    assert second["groups"]["a100"] == first["groups"]["a100"]
    kept = second["groups"]["v100"]
    assert (kept["planned"], kept["kept"]) == (False, "from an earlier run: rdma_groups of this one does not name it")
    assert kept["classes"] == first["groups"]["v100"]["classes"]
    assert site.rendered("v100") == v100 | {"mine-daemonset.yaml"}
    assert sorted(site.load("facts.json")) == ["a1", "a2", "v1", "v2"]

    site.write({"v100": V100, "a100": {**A100, "gone": "no-such-file"}})
    site.play("plan", fails=True)
    entry = site.load("plan.json")["groups"]["a100"]
    assert entry["kept"] == "from an earlier run: this one could not plan it"
    assert entry["classes"] == first["groups"]["a100"]["classes"]
    assert entry["errors"] == [
        "group a100: no facts of gone (1 of 3 hosts); discover the whole group, or use a fact cache"
    ]
    assert site.rendered("a100") == a100

    # A class that is gone takes its files along, and so does a group that the inventory no longer has; not those of others.
    site.write({"a100": {"a1": "ib-a100-1"}}, rdma_rollout={"remove": ["a2", "v100"]})
    said = site.play("plan", "--diff")
    words = "taken out on purpose (rdma_rollout.remove): a2 of group a100; v1, v2 of group v100"
    assert words in said
    plan = site.load("plan.json")
    assert words in plan["warnings"]
    assert plan["removed"] == {"a2": "a100", "v1": "v100", "v2": "v100"}
    assert sorted(plan["groups"]) == ["a100"]
    assert sorted(site.load("facts.json")) == ["a1"]
    assert site.rendered("a100") == {name for name in a100 if "ibp161" in name}
    assert site.rendered("v100") == {"mine-daemonset.yaml"}


def test_a_plan_never_shrinks_by_accident(site: Site) -> None:
    """A slice of a sliced job, a copy of the inventory that lacks hosts: nothing is written, and their names are told."""
    site.play("plan")
    before = {path: path.read_bytes() for path in sorted(site.output.rglob("*")) if path.is_file()}

    def refused(playbook: str, *arguments: str) -> str:
        said = site.play(playbook, *arguments, fails=True)
        assert {path: path.read_bytes() for path in sorted(site.output.rglob("*")) if path.is_file()} == before
        assert "Gather the facts" not in said
        assert "Nothing was written or changed." in said
        return said

    site.write({"v100": {"v1": "ib-v100-1"}})
    for playbook in ("site", "rollout"):
        said = refused(playbook)
        assert "3 hosts that earlier runs know are not in the RDMA groups of this inventory" in said
        assert "a1, a2 of group a100; v2 of group v100" in said
        assert "rdma_rollout.remove: [a1, a2, v2]" in said
    slices = {"awx_workflow_job_name": "rollout", "awx_job_template_name": "rollout"}
    said = refused("rollout", "-e", json.dumps(slices))
    assert "This run is a slice of a sliced job (awx_workflow_job_name, awx_job_template_name)" in said
    # each slice would take out what all have
    said = site.play("uninstall", "-e", json.dumps(slices), fails=True)
    assert (
        "Nothing was removed: this run is a slice of a sliced job (awx_workflow_job_name, awx_job_template_name)"
        in said
    )
    assert "Take the Lease" not in said
    # also where earlier runs have left nothing, and where a role is used alone
    (site.directory / "role.yml").write_text("- hosts: rdma\n  gather_facts: false\n  roles: [fabric.rdma.plan]\n")
    command = ("ansible-playbook", "role.yml", "-i", "hosts.json")
    alone = site.user._replace(home=site.directory)
    done = alone.run(
        *command, "-e", json.dumps({**slices, "rdma_output_dir": str(site.directory / "new")}), check=False
    )
    assert "is a slice of a sliced job" in done.stdout
    assert not (site.directory / "new").exists()
    # one that is to go has to be out of the inventory
    site.write({"v100": V100, "a100": {"a1": "ib-a100-1"}}, rdma_rollout={"remove": ["a2", "v2"]})
    assert "rdma_rollout.remove names v2, which groups of this inventory that are planned for still have" in refused(
        "plan"
    )
    # what looks at hosts of its own is not refused
    site.write({"v100": {"v1": "ib-v100-1"}})
    for playbook in ("discover", "verify"):
        site.play(playbook, "-e", json.dumps(slices))
    # but Pods of another slice would be taken for what a killed run has left
    pods = {**slices, "verify_level": "pods", "verify_pod_image": "registry.example/perftest:1"}
    assert "A slice cannot measure between Pods" in site.play("verify", "-e", json.dumps(pods), fails=True)
    # nobody is in the way of what only looks at nodes, or prepares them
    site.write({"v100": {"v1": "ib-v100-1"}})
    site.play("discover")
    assert sorted(site.load("facts.json")) == ["a1", "a2", "v1", "v2"]


def test_good_groups_are_rendered_beside_bad_ones(site: Site) -> None:
    site.write({"v100": V100, "a100": {**A100, "gone": "no-such-file"}, "bare": {"b": "no-rdma"}})
    said = site.play("plan", fails=True)
    assert "host b has no usable port (no RDMA device)" in said
    assert "group a100: no facts of gone (1 of 3 hosts)" in said
    plan = site.load("plan.json")
    assert {name: entry["planned"] for name, entry in plan["groups"].items()} == {
        "a100": False,
        "bare": True,
        "v100": True,
    }
    assert len(site.rendered("v100")) == 3
    (daemon_set,) = (site.output / "rendered" / "v100").glob("*-daemonset.yaml")
    own, *images = (site.output / "rendered" / "images.txt").read_text().splitlines()
    assert own == "# app.kubernetes.io/managed-by: fabric.rdma"
    assert images == re.findall(r"image: (\S+)", daemon_set.read_text())
    assert sorted(site.load("facts.json")) == ["a1", "a2", "b", "v1", "v2"]
    # rdma_allow_unusable excuses the host without a port, and not the group that is not planned
    said = site.play("plan", "-e", "rdma_allow_unusable=true", fails=True)
    assert "Plan: 1 error(s). group a100: no facts of gone" in said


def test_scripts_of_labels_run_and_leave_out_what_cannot_name_a_node(site: Site, tmp_path: Path) -> None:
    """The scripts run; what cannot be the name of a node never gets near a command."""
    odd = "v3;touch evil"
    site.write({"v100": {**V100, "Node_3": "ib-v100-2", odd: "ib-v100-2"}})
    said = site.play("plan")
    (script,) = (site.output / "rendered" / "v100").glob("*-labels.sh")
    assert f"sh {script}" in said
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").write_text('#!/bin/sh\nprintf "%s|" "$@" >> "$CALLS"\necho >> "$CALLS"\n')
    (tmp_path / "bin" / "kubectl").chmod(0o755)
    calls = tmp_path / "calls"
    env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "CALLS": str(calls)}
    done = subprocess.run(["sh", str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "2 hosts are not labelled, see the end of this file\n")
    label = "rdma.fabric/class=v100-device-1017"
    assert calls.read_text().splitlines() == [f"label|node|{node}|{label}|--overwrite|" for node in ("v1", "v2")]
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("playbook", ["plan", "compare"])
def test_replayed_hosts_need_no_privileges(playbook: str, site: Site) -> None:
    """Playbooks become root on nodes; on the controller, where captures are read, nobody does. An AWX template may ask for it, too."""
    # also where root runs this test, who would not have to become root
    env = {**site.user.env, "ANSIBLE_BECOME_EXE": "/bin/false", "ANSIBLE_BECOME_ALLOW_SAME_USER": "true"}
    site._replace(user=site.user._replace(env=env)).play(playbook, "--become")
    assert sorted(site.load("facts.json")) == ["a1", "a2", "v1", "v2"]


@pytest.mark.parametrize("playbook", ["plan", "site", "doctor_bundle"])
def test_a_first_run_in_check_mode_warns_of_nothing_that_is_not_there_yet(playbook: str, site: Site) -> None:
    said = site.play(playbook, "--check")
    assert "PLAY RECAP" in said
    assert "[WARNING]" not in said
    assert not site.output.exists()


@pytest.mark.parametrize(("whose", "stale"), [("newest_user", "/nonexistent"), ("oldest_user", None)])
def test_output_lies_where_the_run_was_started(
    whose: str, stale: str | None, site: Site, request: pytest.FixtureRequest
) -> None:
    """Not where an environment variable says that somebody was: services have none."""
    inventory = json.loads((site.directory / "hosts.json").read_text())
    del inventory["rdma"]["vars"]["rdma_output_dir"]
    (site.directory / "hosts.json").write_text(json.dumps(inventory))
    user: User = request.getfixturevalue(whose)
    home = site.directory / "here"
    home.mkdir()
    env = {name: value for name, value in user.env.items() if name != "PWD"}
    env |= {} if stale is None else {"PWD": stale}
    site._replace(user=user._replace(home=home, env=env)).play("discover", "--limit", "v1")
    assert [path.name for path in (home / "rdma-output").iterdir()] == ["facts.json"]


@pytest.mark.parametrize(
    ("whose", "playbook"),
    [("newest_user", name) for name in ("site", "prepare", "plan")] + [("oldest_user", "rollout")],
)
def test_wishes_are_looked_at_before_anything_else(
    whose: str, playbook: str, site: Site, request: pytest.FixtureRequest
) -> None:
    """Those of all groups, also of hosts that a run is not for; with no connection to any host, and none to the controller."""
    inventory = json.loads((site.directory / "hosts.json").read_text())
    groups = inventory["rdma"]["children"]
    groups["a100"]["vars"]["rdma_want"] = {"stat": "Active"}
    groups["v100"]["vars"]["rdma_memlok"] = {"enabled": False}
    groups["v100"]["hosts"]["v2"]["rdma_ofed"] = {"method": "docar"}
    # nobody could be reached
    inventory["rdma"]["vars"].update(ansible_connection="ssh", ansible_host="192.0.2.1", ansible_ssh_timeout=1)
    for group in groups.values():
        for variables in group["hosts"].values():
            del variables["rdma_capture"]
    (site.directory / "hosts.json").write_text(json.dumps(inventory))
    user: User = request.getfixturevalue(whose)
    said = site._replace(user=user).play(playbook, "--limit", "a1,!localhost", "-b", fails=True)
    assert "group a100: rdma_want has no key stat; it knows exclude, kinds, link_layer, min_rate_gbps, state" in said
    assert "did you mean state?" in said
    assert "group v100, host v2: rdma_ofed.method is 'docar'; expected one of" in said.replace("''", "'")
    assert "group v100: nobody reads the variable rdma_memlok; did you mean rdma_memlock?" in said
    assert "UNREACHABLE" not in said
    assert not site.output.exists()
    # whether facts make wishes, the wishes, and why they are refused
    assert said.count("TASK [") == 3


def test_wishes_are_looked_at_once_a_run(site: Site) -> None:
    said = site.play("site", "--tags", "all")
    assert re.findall(r"TASK \[Check the variables\] \*+ (\w+): ", said) == ["ok", "skipping", "skipping"]


def test_rdma_groups_is_asked_for(site: Site) -> None:
    inventory = json.loads((site.directory / "hosts.json").read_text())
    del inventory["rdma"]["vars"]["rdma_groups"]
    (site.directory / "hosts.json").write_text(json.dumps(inventory))
    said = site.play("plan", fails=True)
    assert "rdma_groups is not set. It is the list of the inventory's groups that RDMA is planned for" in said


def test_facts_from_a_cache_are_called_so(site: Site) -> None:
    cache = {
        "ANSIBLE_CACHE_PLUGIN": "ansible.builtin.jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(site.directory / "cache"),
    }
    cached = site._replace(user=site.user._replace(env=site.user.env | cache))
    words = (
        "the facts of 4 hosts (a1, a2, v1, ...) are from a fact cache or an earlier step, not discovered by this run"
    )
    assert "not discovered by this run" not in cached.play("plan")
    assert cached.load("plan.json")["warnings"] == []
    said = cached.play("plan")
    assert words in said
    (warning,) = cached.load("plan.json")["warnings"]
    assert re.search(r"the plan may be out of date \(facts of 20\d\d-\d\d-\d\d \d\d:\d\d UTC", warning), warning
    assert "facts of 2 hosts are not of this run, but of 20" in said
    assert not any("gathered" in facts for facts in cached.load("facts.json").values())


# Each kind of group with what it may ask for, and what the whole cluster may.
EVERY_KIND: dict[str, tuple[dict[str, str], dict[str, t.Any]]] = {
    "v100": (V100, {"rdma_gpudirect": "none"}),
    "a100": (
        A100,
        {
            "rdma_want": {"link_layer": "InfiniBand"},
            "rdma_networks": [
                {"name": "ib", "kind": "ipoib", "ipam": {"type": "whereabouts", "range": "10.20.0.0/24"}}
            ],
        },
    ),
    "gb200": (
        {"g1": "gb200-1", "g2": "gb200-2"},
        {"rdma_want": {"link_layer": "InfiniBand"}, "rdma_compute_domain": {"version": DRA_DRIVER}},
    ),
    "rails": (
        {"r1": "roce-rails-1", "r2": "roce-rails-2"},
        {
            "rdma_want": {"link_layer": "Ethernet"},
            "rdma_rails": True,
            "rdma_roce_host": {"mtu": 9000},
            "rdma_networks": [
                {
                    "name": "fabric",
                    "kind": "macvlan",
                    "rails": True,
                    "ipam": {"type": "whereabouts", "range": "192.168.0.0/16", "per_rail": 24},
                }
            ],
        },
    ),
}
OF_ALL: dict[str, t.Any] = {
    "rdma_cluster_cidrs": {"pods": ["10.244.0.0/16"], "services": ["10.96.0.0/12"]},
    "rdma_multus": {"install": True},
    "rdma_whereabouts": {"install": True},
    "rdma_gpu_operator": {"version": GPU_OPERATOR},
    "rdma_longhorn": {"version": LONGHORN, "groups": [], "nodes": ["v1"]},
    "rdma_vgpu": {"groups": ["v100"], "stop_device_plugin": True, "hypernodes": True},
    "rdma_topology": {"labels": True},
}
# By group: the systems of its page in their order, and some of what each says.
ON_ITS_PAGE = {
    "v100": {
        "device_plugin": ["Pods ask for rdma/rdma_v100", "deviceIDs 1017"],
        "gpu_operator": [GPU_OPERATOR],
        "vgpu": ["binpack", "HyperNode rdma-v100-", "label nvidia.com/gpu.deploy.device-plugin=false"],
        "topology": ["label topology.fabric.rdma/leaf=leaf-1"],
        "longhorn": [LONGHORN, "label node.longhorn.io/create-default-disk=true"],
    },
    "a100": {
        "device_plugin": ["ifNames ibp161s0", "port is Down"],
        "gpu_operator": [GPU_OPERATOR],
        "secondary_network": ["NetworkAttachmentDefinition default/ib-a100-ibp161s0", "10.20.0.0/24", "Whereabouts"],
    },
    "gb200": {
        "device_plugin": ["deviceIDs 1021"],
        "gpu_operator": [GPU_OPERATOR],
        "compute_domain": [DRA_DRIVER, "workloads/nvbandwidth-gb200.yaml"],
    },
    "rails": {
        "device_plugin": ["mlx5_7 as rdma/rdma_rails_gpu8"],
        "gpu_operator": [GPU_OPERATOR],
        "secondary_network": ["fabric-rail1", "enp18s0f0np0", "192.168.7.1 to 192.168.7.254", "macvlan"],
    },
}


# Systems that pull images: what has labels only pulls none.
OF_IMAGES = {"gpu_operator", "compute_domain", "secondary_network", "vgpu", "longhorn"}


def images(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def sections(page: str) -> dict[str, str]:
    """By title: what is below it, in one line."""
    parts = re.split(r"\n\n(\S.*)\n-+\n", page)
    return {title: " ".join(text.split()) for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def test_all_that_is_planned_for_a_group_is_on_one_page_before_it_is_applied(site: Site) -> None:
    groups = {name: hosts for name, (hosts, _wishes) in EVERY_KIND.items()}
    site.write(groups, **OF_ALL)
    whole = json.loads((site.directory / "hosts.json").read_text())
    for name, (_hosts, wishes) in EVERY_KIND.items():
        whole["rdma"]["children"][name]["vars"] |= wishes
    (site.directory / "hosts.json").write_text(json.dumps(whole))
    site.output.mkdir()
    place = {"host": "v1", "group": "v100", "device": "mlx5_0", "port": 1, "netdev": None, "rail": 0, "subnet": None}
    place |= {"link_layer": "InfiniBand", "leaf": "leaf-1", "leaf_port": "1"}
    switch = {"id": "leaf-1", "name": "leaf-1", "link_layer": "InfiniBand", "leaf": True}
    nothing: dict[str, list[str]] = {
        key: [] for key in ("trunks", "units", "unplaced", "sources", "findings", "warnings")
    }
    drawn = {"schema": 1, "places": [place], "switches": [switch], "leaves": {}, **nothing}
    (site.output / "fabric.json").write_text(json.dumps(drawn))

    said = site.play("plan")
    for name, systems in ON_ITS_PAGE.items():
        page = (site.output / "plan" / f"{name}.txt").read_text()
        assert max(map(len, page.splitlines())) <= 100
        found = sections(page)
        nodes = found.pop("prepare the nodes")
        assert "storage_prereqs: Package" in nodes
        assert ("roce_host: " in nodes) is (name == "rails")
        assert list(found) == list(systems), name
        for system, words in systems.items():
            assert [word for word in words if word not in found[system]] == [], (name, system)
        # what is written is what is shown
        assert all(" ".join(line.split()) in said for line in page.splitlines())

    assert "warning: group v100: NCCL between nodes fails" in (site.output / "plan" / "v100.txt").read_text()
    # one list for mirrors has what the lists of all systems have
    listed = {path: images(path) for path in site.output.glob("**/images.txt") if path.parent != site.output}
    assert {path.parent.name for path in listed} == {"rendered", *OF_IMAGES}
    assert images(site.output / "images.txt") == sorted({*itertools.chain.from_iterable(listed.values())})

    # what cannot be of several systems is said together, on the pages, too, and no page is missing for it
    whole["rdma"]["vars"]["rdma_longhorn"] |= {"replicas": 3}
    whole["rdma"]["children"]["rails"]["vars"]["rdma_networks"][0]["ipam"]["range"] = "10.244.0.0/16"
    (site.directory / "hosts.json").write_text(json.dumps(whole))
    said = site.play("plan", fails=True)
    network = "error: group rails: network fabric"
    for name, systems in ON_ITS_PAGE.items():
        page = (site.output / "plan" / f"{name}.txt").read_text()
        assert [*systems] == [title for title in sections(page) if title != "prepare the nodes"], name
        told = [system for system in systems if "error: " in sections(page)[system]]
        assert told == {"v100": ["longhorn"], "rails": ["secondary_network"]}.get(name, []), name
        assert (network in page) is (name == "rails")
        assert ("below are gone" in page) is bool(told)
    assert "10.244.0.0/16" in said.rpartition("Check that the settings can work")[2]
    assert "replicas" in said.rpartition("Check that the settings can work")[2]

    # a group that there is no more has no page; what is not ours stays
    (site.output / "plan" / "notes.txt").write_text("mine")
    site.write({"v100": V100}, rdma_rollout={"remove": ["a100", "gb200", "rails"]})
    site.play("plan")
    assert sorted(path.name for path in (site.output / "plan").iterdir()) == ["notes.txt", "v100.txt"]
    assert list(sections((site.output / "plan" / "v100.txt").read_text())) == ["prepare the nodes", "device_plugin"]
    assert images(site.output / "images.txt") == images(site.output / "rendered" / "images.txt")
