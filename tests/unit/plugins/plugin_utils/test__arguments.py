# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wrong argument of a filter is an error that names the filter, what it expects, and what is there."""

from __future__ import annotations

import importlib
import inspect
import re
import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list, insist_on_mapping
from ansible_collections.fabric.rdma.tests.unit.machines import ROOT

FILTERS = sorted(path.stem for path in (ROOT / "plugins" / "filter").glob("*.py"))
# Whatever their first argument is, it is looked up, shown, or left alone.
OF_ANYTHING = {"rdma_redacted", "rdma_why"}
# Their input is one variable, which the error names instead.
OF_A_VARIABLE = {"rdma_pattern": "rdma_hosts is "}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "expects a plan, found list"),
        (None, "expects a plan, found NoneType"),
        ({"groups": {}}, "expects a plan, found a dictionary without schema"),
    ],
)
def test_what_is_missing_in_a_dictionary_is_named(value: t.Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=f"^fabric.rdma.rdma_x {words}$"):
        insist_on_mapping("rdma_x", value, "a plan", "groups", "schema")
    insist_on_mapping("rdma_x", {"groups": {}, "schema": 1, "more": 2}, "a plan", "groups", "schema")


@pytest.mark.parametrize("value", ["gpu-1", {"gpu-1": 1}, None, 7])
def test_a_text_is_not_a_list_of_its_letters(value: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match=f"^fabric.rdma.rdma_x expects a list of hosts, found {value!r}$"):
        insist_on_list("rdma_x", value, "hosts")
    for fine in ([], ["gpu-1"], ("gpu-1",)):
        insist_on_list("rdma_x", fine, "hosts")


def test_a_long_argument_is_shown_in_part() -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        insist_on_list("rdma_x", "x" * 10**6, "hosts")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_names_itself_when_its_input_is_wrong(name: str) -> None:
    """And never ends with the traceback of what it would have done with it."""
    module = importlib.import_module(f"ansible_collections.fabric.rdma.plugins.filter.{name}")
    call = module.FilterModule().filters()[name]
    needed = [each for each in inspect.signature(call).parameters.values() if each.default is inspect.Parameter.empty]
    arguments: list[t.Any] = [object(), *({} for _each in needed[1:])]
    if name in OF_ANYTHING:
        call(*arguments)
        return
    with pytest.raises(AnsibleFilterError, match="^" + re.escape(OF_A_VARIABLE.get(name, f"fabric.rdma.{name}"))):
        call(*arguments)
