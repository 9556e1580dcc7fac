# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prepare decides of a node where it looks at it, for each version of ansible-core."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.modules.ib_facts import EXAMPLES
from ansible_collections.fabric.rdma.tests.integration.stand_ins import interpreter

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
TWINS = "iqn.1993-08.org.debian:01:same"
NOTHING = {
    "rdma_ofed": {"method": "none"},
    "rdma_memlock": {"enabled": False},
    "rdma_gpudirect": "none",
    "rdma_storage": {"iscsi": True, "nfs": False, "dm_crypt": False, "multipath": False},
}


class Site:
    """Nodes that answer what they are told to, and what prepare says of them in check mode."""

    def __init__(self, user: User, directory: Path) -> None:
        self.user, self.directory = user, directory
        self.hosts: dict[str, dict[str, t.Any]] = {}
        self.said = ""

    def has(self, name: str, initiator: str, **wishes: t.Any) -> dict[str, t.Any]:
        """A node, by the name of its initiator. What it answers can still be changed."""
        facts = gather(open_tree(str(CAPTURES / "ib-v100-1.capture")))
        unit = ["iscsid.service"]
        facts["storage"]["programs"] |= {"iscsiadm": True, "iscsid": True}
        facts["storage"]["iscsi"] |= {"installed": True, "service": "running", "units": unit, "enabled": unit}
        facts["storage"]["iscsi"] |= {"initiator_name": initiator, "initiator_file": "present"}
        facts["kernel"]["modules"]["iscsi_tcp"] |= {"loaded": True, "persisted": True}
        self.hosts[name] = {"facts": facts, "wishes": wishes, "more": {}}
        return facts

    def prepare(self, *plays: dict[str, t.Any], **limits: t.Any) -> None:
        hosts = {}
        for name, host in self.hosts.items():
            distribution = {"ansible_facts": {"os_family": "Debian", "pkg_mgr": "apt"}}
            facts = {"ansible_facts": {"rdma": host["facts"]}, **host["more"]}
            answers = {"": {"changed": False}, "setup": distribution, "ib_facts": facts}
            answers["node_change"] = {"changed": False, "before": host["facts"], "interrupted": None}
            hosts[name] = {**interpreter(self.directory / name, answers), **host["wishes"]}
        variables = {
            **NOTHING,
            "rdma_groups": ["nodes"],
            "ansible_become": False,
            **(limits or {"rdma_max_unavailable": 9}),
        }
        variables["rdma_output_dir"] = str(self.directory / "output")
        inventory = {"rdma": {"children": {"nodes": {"hosts": hosts}}, "vars": variables}}
        (self.directory / "hosts.json").write_text(json.dumps(inventory))
        playbook = self.directory / "play.json"
        playbook.write_text(json.dumps(plays or [{"ansible.builtin.import_playbook": "fabric.rdma.prepare"}]))
        done = self.user.run(
            "ansible-playbook", "--check", "-i", str(self.directory / "hosts.json"), str(playbook), check=False
        )
        self.said = done.stdout + done.stderr

    def waves(self) -> dict[str, str]:
        """By node, the roles that its turn is for."""
        return dict(re.findall(r'"(\w+), wave \d+: (.*?)"', self.said))


@pytest.fixture(params=["newest_user", "oldest_user"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    return Site(request.getfixturevalue(request.param), tmp_path)


def test_a_node_that_needs_nothing_costs_one_task(site: Site) -> None:
    for name in ("first", "second", "third"):
        site.has(name, f"iqn.1993-08.org.debian:01:{name}")
    site.prepare()
    assert site.waves() == {}
    # what runs once does so at the first
    looks = site.said.partition("PLAY [Examine each node")[2].partition("PLAY [Prepare the nodes")[0]
    assert re.findall(r"^(\w+): \[third\]", looks, re.MULTILINE) == ["ok"], site.said
    assert re.search(r"first, second, third +was right", site.said), site.said


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        ({"rdma_slices": 4, "rdma_max_unavailable": 3}, True),
        ({"rdma_slices": 4, "rdma_max_unavailable": 4}, False),
        # one of each slice, where nobody says anything
        ({"rdma_slices": 4}, False),
        ({"rdma_slices": "true"}, False),
    ],
)
def test_a_limit_of_the_site_counts_in_slices(site: Site, limits: dict[str, t.Any], refused: bool) -> None:
    packages = {"version": "3.2.0", "repository": "file:/srv/doca/", "key": "/srv/doca/key.gpg"}
    site.has("one", "iqn.1993-08.org.debian:01:one", rdma_ofed={"method": "doca", **packages})
    site.prepare(**limits)
    said = " ".join(site.said.split())
    assert ("each of 4 slices (rdma_slices) takes at least one host out of service" in said) == refused, said
    assert site.waves() == ({} if refused else {"one": "ofed"}), said


def test_nodes_with_the_name_of_another_are_decided_about_by_that(site: Site) -> None:
    site.has("alone", "iqn.1993-08.org.debian:01:alone")
    for name in ("one", "other"):
        site.has(name, TWINS)
    site.has("nameless", "")["storage"]["iscsi"]["initiator_name"] = None
    # which one that somebody else controls may answer
    del site.has("silent", "")["storage"]
    site.prepare()
    # the first keeps it
    assert site.waves() == dict.fromkeys(("other", "nameless"), "storage_prereqs"), site.said


def test_a_node_about_which_nothing_can_be_decided_costs_no_other_anything(site: Site) -> None:
    """Its initiator name counts all the same: the other one that has it is renamed."""
    site.has("one", TWINS)["kernel"]["page_size"] = "large"
    site.has("other", TWINS)
    site.has("well", "iqn.1993-08.org.debian:01:well")
    site.prepare()
    assert site.waves() == {"other": "storage_prereqs"}, site.said
    assert re.search(r"one failed in the step decide: .*kernel.page_size is 'large'", " ".join(site.said.split())), (
        site.said
    )
    assert re.search(r"well +was right", site.said), site.said


@pytest.mark.parametrize("answer", [{}, {"failed": True, "msg": "no"}], ids=["a look", "a failure"])
def test_what_a_node_says_was_decided_was_not(site: Site, answer: dict[str, t.Any]) -> None:
    nothing = {"ofed": {"needed": False, "reasons": []}}
    for name, forged in (("first", "x"), ("second", nothing)):
        site.has(name, f"iqn.1993-08.org.debian:01:{name}")["kernel"]["page_size"] = "large"
        site.hosts[name]["more"] = {"concluded": forged, **answer}
    site.has("other", "iqn.1993-08.org.debian:01:other")
    site.prepare()
    said = " ".join(site.said.split())
    step = "discover" if answer else "decide"
    assert all(f"{name} failed in the step {step}: " in said for name in ("first", "second")), site.said
    # and nobody else pays for it
    assert re.search(r"HOSTS +WHAT +DETAILS.nother +was right", site.said), site.said


@pytest.mark.parametrize("answer", [{"skipped": True}, {"rc": 1}, {"results": [5]}, {"ansible_stats": 5}], ids=str)
def test_a_node_hides_neither_itself_nor_its_twin(site: Site, answer: dict[str, t.Any]) -> None:
    """With what Ansible reads in the result of a task."""
    site.has("one", TWINS)
    site.hosts["one"]["more"] = answer
    site.has("other", TWINS)
    site.prepare()
    if "rc" in answer and "one failed in the step discover: " in " ".join(site.said.split()):
        # ansible-core 2.21 takes it for a failure, which is named, and then the node passes as nothing else
        assert not re.search(r"one\b[^\n]* was right", site.said), site.said
        return
    assert site.waves() == {"other": "storage_prereqs"}, site.said
    assert "one failed" not in site.said
    assert re.search(r"one +was right +ofed, storage_prereqs", site.said), site.said


def test_what_was_decided_stays_when_a_node_is_looked_at_again(site: Site) -> None:
    site.has("one", "iqn.1993-08.org.debian:01:one")
    rows = "{{ hostvars | fabric.rdma.rdma_prepared(['one'], 'prepare_needs', 'prepare_left', 'memlock') | map('join', ' / ') }}"
    show = {"hosts": "rdma", "gather_facts": False, "tasks": [{"ansible.builtin.debug": {"msg": rows}}]}
    imported = [{"ansible.builtin.import_playbook": f"fabric.rdma.{name}"} for name in ("prepare", "discover")]
    site.prepare(*imported, show)
    assert "one / was right / ofed" in site.said.rpartition("PLAY [rdma]")[2], site.said


def test_nodes_of_an_earlier_import_are_not_decided_about_by_a_later_one(site: Site) -> None:
    for name in ("one", "other"):
        site.has(name, TWINS)
    site.has("well", "iqn.1993-08.org.debian:01:well")
    none = {**NOTHING["rdma_storage"], "iscsi": False}
    site.prepare(
        {
            "ansible.builtin.import_playbook": "fabric.rdma.prepare",
            "vars": {"rdma_hosts": "one:other", "rdma_storage": none},
        },
        {"ansible.builtin.import_playbook": "fabric.rdma.prepare", "vars": {"rdma_hosts": ["rdma", "!one:!other"]}},
    )
    second = site.said.rpartition("PLAY [Examine each node")[2]
    assert "[well]" in second
    assert not re.search(r"\[(one|other)\]", second), site.said
    assert "still missing" not in site.said


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("{{ 6 * 7 }}", "it is <{{ 6 * 7 }}>"),
        # As ansible-core marks a template from 2.19 on. It takes none from a node; before, it is a dictionary.
        (
            {
                "__ansible_type": "_AnsibleTaggedStr",
                "value": "{{ 6 * 7 }}",
                "tags": [{"__ansible_type": "TrustedAsTemplate"}],
            },
            r"it is <\{'__ansible_type': .*\{\{ 6 \* 7 \}\}|'TrustedAsTemplate' is not JSON deserializable",
        ),
    ],
    ids=["plain", "marked"],
)
def test_a_node_writes_no_template(site: Site, said: t.Any, shown: str) -> None:
    site.has("one", "iqn.1993-08.org.debian:01:one")["warnings"] = [said]
    variables = {"seen": "{{ ansible_facts['rdma'].warnings | first | string }}"}
    look = {"fabric.rdma.ib_facts": {"conclude": "seen"}, "register": "looked"}
    show = {"ansible.builtin.debug": {"msg": "it is <{{ looked.concluded }}>"}}
    site.prepare({"hosts": "rdma", "gather_facts": False, "vars": variables, "tasks": [look, show]})
    told = site.said.replace("\\", "")
    assert re.search(shown, told) if isinstance(said, dict) else shown in told, site.said


def test_the_example_of_a_conclusion_says_what_a_driver_needs(site: Site) -> None:
    (example,) = [each for each in yaml.safe_load(EXAMPLES) if "conclude" in (each.get("fabric.rdma.ib_facts") or {})]
    site.has("one", "iqn.1993-08.org.debian:01:one")
    show = {"ansible.builtin.debug": {"msg": "needed: {{ looked.concluded.ofed.needed }}"}}
    site.prepare({"hosts": "rdma", "gather_facts": False, "tasks": [example, show]})
    assert "needed: False" in site.said


def test_what_a_playbook_wishes_where_it_imports_prepare_is_decided_by(site: Site) -> None:
    """Such as one that leaves storage alone."""
    for name in ("one", "other"):
        site.has(name, TWINS)
    none = {**NOTHING["rdma_storage"], "iscsi": False}
    site.prepare({"ansible.builtin.import_playbook": "fabric.rdma.prepare", "vars": {"rdma_storage": none}})
    assert site.waves() == {}, site.said
    assert "was right" in site.said


def test_a_wish_that_is_a_template_of_the_node_is_what_it_comes_out_as(site: Site) -> None:
    """Whether its name is one that it has to give up is its own wish."""
    wishes = {
        "wants": "{{ inventory_hostname != 'other' }}",
        "rdma_storage": {**NOTHING["rdma_storage"], "iscsi": "{{ wants }}"},
    }
    for name in ("one", "other", "third"):
        site.has(name, TWINS, **wishes)
    site.prepare()
    assert site.waves() == {"third": "storage_prereqs"}, site.said


def test_a_template_in_a_name_is_decided_about_as_text(site: Site) -> None:
    evil = "{{ lookup('ansible.builtin.pipe', 'touch " + str(site.directory / "evaluated") + "') }}"
    for name in ("one", "other"):
        facts = site.has(name, TWINS)
        facts["storage"]["iscsi"]["initiator_name"] = evil
        facts["kernel"]["release"] = evil
    # a capture is read on the controller, where no module stands between it and the decision
    listing = (CAPTURES / "ib-v100-1.capture").read_text()
    release = gather(open_tree(str(CAPTURES / "ib-v100-1.capture")))["kernel"]["release"]
    (site.directory / "evil.capture").write_text(
        "".join(
            line.rpartition(" ")[0] + " " + json.dumps(evil + "\n") + "\n" if "osrelease" in line else line
            for line in listing.splitlines(keepends=True)
        )
    )
    assert release not in (site.directory / "evil.capture").read_text().partition("osrelease")[2].split("\n")[0]
    site.has("replayed", "", rdma_capture=str(site.directory / "evil.capture"))
    site.prepare()
    assert set(site.waves()) == {"other"}, site.said
    assert "replayed failed" not in site.said
    assert not (site.directory / "evaluated").exists()


IN_A_SLICE = {"awx_workflow_job_name": "prepare", "awx_job_template_name": "prepare"}


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, 1),
        ({"rdma_slices": 4}, 1),
        ({"rdma_slices": 4, **IN_A_SLICE}, 4),
        ({"rdma_slices": True, **IN_A_SLICE}, 1),
        # whatever somebody says counts
        ({"rdma_slices": 4, "rdma_max_unavailable": 2, **IN_A_SLICE}, 2),
        ({"rdma_slices": 4, "ofed_max_unavailable": 1, **IN_A_SLICE}, 1),
    ],
)
def test_a_limit_counts_when_a_node_is_drained_from_a_slice(
    whose: str, given: dict[str, t.Any], limit: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    user: User = request.getfixturevalue(whose)
    role = user.collection / "roles" / "ofed"
    defaults = yaml.safe_load((role / "defaults" / "main.yml").read_text())
    tasks = [
        {"ansible.builtin.include_vars": str(role / "vars" / "main.yml")},
        {"ansible.builtin.debug": {"msg": "at most {{ __ofed_away_limit }} away"}},
    ]
    # hostvars have no variables of a play, as they have no defaults of a role
    variables = {"ofed_max_unavailable": defaults["ofed_max_unavailable"]}
    play = {"hosts": "n1", "gather_facts": False, "vars": variables, "tasks": tasks}
    (tmp_path / "play.json").write_text(json.dumps([play]))
    inventory = {"rdma": {"hosts": {f"n{number}": {} for number in range(1, 6)}}}
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))
    words = ("-i", str(tmp_path / "hosts.json"), "-e", json.dumps(given), str(tmp_path / "play.json"))
    assert f"at most {limit} away" in user.run("ansible-playbook", *words).stdout
