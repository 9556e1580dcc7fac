# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done once for all hosts of a run is not done again in the process of each."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_pattern import in_its_run, rdma_pattern

GROUPS = {"all": ["n1", "n2", "n3"], "ungrouped": ["n3"], "gpu": ["n1", "n2"], "rack": ["n2"], "none": []}
ROOT = Path(__file__).resolve().parents[4]
# In a process of its own: Ansible's loader finds collections in another way than pytest has found this one.
PROCESS = """
import json, sys
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible import template
init_plugin_loader([sys.argv[1]])
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.plugin_utils import _view
trusted = getattr(template, "trust_as_template", lambda text: text)

class Noting(_view.Plainer):
    kinds = set()

    def _plain(self, value, depth):
        self.kinds.add(type(value).__name__)
        return super()._plain(value, depth)

_view.Plainer = Noting
facts = gather(open_tree(sys.argv[2]))
templar = template.Templar(DataLoader(), variables={"ansible_facts": {"rdma": facts}})
pattern = templar.template(trusted("{{ ['gpu', '!old'] | fabric.rdma.rdma_pattern }}"))
ready = _view.facts_checker.cache_info().currsize
before = set(sys.modules)
needs = templar.template(trusted("{{ ansible_facts['rdma'] | fabric.rdma.rdma_needs({'method': 'none'}, host='n1') if n1 is undefined }}"))
late = [name for name in sys.modules if name.startswith(("ansible_collections.fabric.rdma.", "ansible.plugins.test")) and name not in before]
told = {"pattern": pattern, "ready": ready, "needs": sorted(needs), "kinds": sorted(Noting.kinds), "late": late}
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, t.Any]:
    capture = ROOT / "tests" / "captures" / "roce-rails-1.capture"
    command = [sys.executable, "-c", PROCESS, str(ROOT / ".collections"), str(capture)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return t.cast("dict[str, t.Any]", json.loads(done.stdout.splitlines()[-1]))


def test_what_facts_are_checked_by_is_made_before_a_process_of_a_host_starts(told: dict[str, t.Any]) -> None:
    assert (told["pattern"], told["ready"]) == ("gpu,!old", 1)


@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        ("gpu", "gpu"),
        ("gpu:!old:&rack", "gpu,!old,&rack"),
        # Ansible takes what is left of a colon beside a comma for a part of a name, and would leave nobody out
        (["gpu", "!one:!other"], "gpu,!one,!other"),
        ("gpu:!one,!other", "gpu,!one,!other"),
        (["~gpu[12]", "n[1:3]", "fd00::1"], "~gpu[12],n[1:3],fd00::1"),
        ("gpu,!fd00::1", "gpu,!fd00::1"),
        (["gpu", "&fd00:1:2:3:4:5:6:7", "!fd00::[1:3]"], "gpu,&fd00:1:2:3:4:5:6:7,!fd00::[1:3]"),
        ("~n(1|2), !~x", "~n(1|2),!~x"),
    ],
    ids=str,
)
def test_each_part_of_a_pattern_is_one(given: str | list[str], pattern: str) -> None:
    assert rdma_pattern(given) == pattern


@pytest.mark.parametrize(
    "given",
    ["gpu", "n1", "~n[12]", "gpu,&rack", "gpu:!n2", ["none", "n3"], "gpu[0:1]", "all", "g*", "localhost"],
    ids=str,
)
def test_a_pattern_that_a_host_matches_is_taken_with_groups(given: str | list[str]) -> None:
    assert rdma_pattern(given, GROUPS) == rdma_pattern(given)


@pytest.mark.parametrize("given", ["gpus", "none", "gpu,!gpu", "gpu,&none", "~x", ["n4", "n5"]], ids=str)
def test_a_pattern_that_no_host_matches_is_refused_but_in_a_slice(given: str | list[str]) -> None:
    with pytest.raises(AnsibleFilterError, match=r"The inventory has no hosts that match .*-e rdma_hosts=PATTERN"):
        rdma_pattern(given, GROUPS)
    assert rdma_pattern(given, GROUPS, True) == rdma_pattern(given)


def test_a_run_prepares_nodes_once() -> None:
    for many in (["n1", "n2"], [f"n{number}" for number in range(500)]):
        with pytest.raises(
            AnsibleFilterError, match=r"^Nodes have been prepared in this run: n\d.*Prepare all of them"
        ) as told:
            in_its_run(None, "gpu", taken=many)
        assert len(str(told.value)) < 330


def test_no_process_of_a_host_loads_what_decides(told: dict[str, t.Any]) -> None:
    assert told["late"] == []


def test_facts_of_a_node_are_read_as_they_are_kept(told: dict[str, t.Any]) -> None:
    """From 2.19 on, ansible-core would look for a template in each of their thousands of parts."""
    assert "ofed" in told["needs"]
    assert {"dict", "list", "str"} <= set(told["kinds"])
    assert [kind for kind in told["kinds"] if "Lazy" in kind] == []
