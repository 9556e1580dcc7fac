# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON of what filters return, through the templating engine that is installed."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_json import rdma_json
from ansible_collections.fabric.rdma.tests.unit.machines import ROOT

# What nodes could say, and what JSON has.
VALUE: dict[str, t.Any] = {
    "b": {"hosts": ["n1", {"text": "{{ 1 + 1 }}", "more": [1, 1.5, True, None, "ä", "a\nb"]}], "none": {}},
    "a": [],
}
# In a process of its own: Ansible's loader finds collections in another way than pytest has found this one.
PROCESS = """
import json, sys
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible import template
init_plugin_loader([sys.argv[1]])
from ansible_collections.fabric.rdma.plugins.plugin_utils import _view
trusted = getattr(template, "trust_as_template", lambda text: text)
variables = {"value": json.loads(sys.argv[2]), "wish": {"name": trusted("{{ value.a }}")}}
templar = template.Templar(DataLoader(), variables=variables)

def made(text):
    return templar.template(trusted(text))

bare, kinds = _view._bare, []
def noted(value):
    kinds.append(type(value).__name__)
    return bare(value)
_view._bare = noted
print(json.dumps({
    "ours": made("{{ value | dict2items | items2dict | fabric.rdma.rdma_json }}\\n"),
    "theirs": made("{{ value | dict2items | items2dict | to_nice_json(indent=2) }}\\n"),
    "part": made("{{ (value | dict2items | items2dict).b | fabric.rdma.rdma_json }}\\n"),
    "unwrapped": len(kinds),
    "variable": made("{{ wish | fabric.rdma.rdma_json }}\\n"),
}))
"""


@pytest.fixture(scope="module")
def texts() -> dict[str, t.Any]:
    command = [sys.executable, "-c", PROCESS, str(ROOT / ".collections"), json.dumps(VALUE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return t.cast("dict[str, t.Any]", json.loads(done.stdout.splitlines()[-1]))


def test_it_is_the_text_of_ansible(texts: dict[str, t.Any]) -> None:
    assert texts["ours"] == texts["theirs"]
    assert json.loads(texts["ours"]) == VALUE
    assert json.loads(texts["part"]) == VALUE["b"]


def test_what_a_filter_returns_is_read_as_it_is(texts: dict[str, t.Any]) -> None:
    """If this fails, ansible-core keeps it elsewhere: reports of thousands of hosts are slow then, and right."""
    assert texts["unwrapped"] > 0


def test_templates_of_variables_are_evaluated(texts: dict[str, t.Any]) -> None:
    assert json.loads(texts["variable"]) == {"name": []}


@pytest.mark.parametrize("value", [{1: 2, "a": 3}, {"a": {"b"}}, math.nan])
def test_odd_values_are_written_or_refused(value: t.Any) -> None:
    try:
        text = rdma_json(value)
    except AnsibleFilterError as exc:
        assert "rdma_json cannot write this as JSON" in str(exc)  # noqa: PT017 - one of both is right
    else:
        json.loads(text)


def test_what_has_no_end_is_refused() -> None:
    endless: dict[str, t.Any] = {}
    endless["a"] = endless
    with pytest.raises(AnsibleFilterError, match="cannot write this as JSON"):
        rdma_json(endless)
