# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The EXAMPLES of every filter, through Ansible's templating, on recorded nodes: what they give is what RETURN describes."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible import template
from ansible.parsing.dataloader import DataLoader

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, ROOT

Json = dict[str, t.Any]
NAMES = sorted(path.stem for path in (ROOT / "plugins" / "filter").glob("*.py"))
PYTHON = {"str": str, "int": int, "list": list, "dict": dict, "bool": bool, "float": float}
# RETURN says whose form the result has.
AS_ANOTHER = {"rdma_merged_plan": "rdma_selectors", "rdma_link_health": "rdma_evidence"}
HOSTS = ["ib-a100-1", "ib-a100-2"]
POD = {
    "metadata": {"namespace": "training", "name": "job-0", "uid": "1", "deletionTimestamp": "2026-01-31T12:00:30Z"},
    "spec": {},
}
# What stands for a text of the module documentation that has not to be a template.
TRUSTED: t.Callable[[str], str] = getattr(template, "trust_as_template", lambda text: text)
# Keys of a result that are names of the site (hosts, groups, files) or of a chart, and not of RETURN.
KEYED_BY_NAMES = {
    "rdma_bundle",
    "rdma_fabric_asked",
    "rdma_helm_values",
    "rdma_labels",
    "rdma_manifests",
    "rdma_merged_facts",
    "rdma_plan_pages",
    "rdma_turns",
    "rdma_unusable",
}


def filter_named(name: str) -> t.Callable[..., t.Any]:
    module = importlib.import_module(f"ansible_collections.fabric.rdma.plugins.filter.{name}")
    found: t.Callable[..., t.Any] = module.FilterModule().filters()[name]
    return found


def documented(name: str, what: str) -> t.Any:
    return yaml.safe_load(
        getattr(importlib.import_module(f"ansible_collections.fabric.rdma.plugins.filter.{name}"), what)
    )


def site() -> Json:
    """What plays of the examples have in their variables."""
    needs = filter_named("rdma_needs")
    hostvars: Json = {}
    for number, host in enumerate(HOSTS, 1):
        facts = gather(open_tree(str(CAPTURES / f"{host}.capture")))
        hostvars[host] = {
            "ansible_facts": {"rdma": facts},
            "rdma_groups": ["ib-a100"],
            "rdma_resource": {"name": "rdma_a100"},
            "rdma_want": {"link_layer": "InfiniBand", "state": "Active"},
            "rdma_rollout": {"method": "render"},
            "before": needs(facts),
            "after": needs(facts),
            "memlock": {"stale_containers": [{"namespace": "ml", "pod": "train-1", "container": "c"}]},
            "outcome": {"state": "failed" if number == 2 else "finished", "step": "ofed", "message": "it said no"},
            "turn": {"turn": number, "wave": number, "level": 0},
        }
    groups = {"all": HOSTS, "ib-a100": HOSTS, "rdma": HOSTS, "rdma_prepare_now": HOSTS}
    facts = {host: hostvars[host]["ansible_facts"]["rdma"] for host in HOSTS}
    view = filter_named("rdma_view")(hostvars, groups, ["ib-a100"])
    pairs = filter_named("rdma_pairs")(view, HOSTS)
    return {
        **hostvars[HOSTS[0]],
        "inventory_hostname": HOSTS[0],
        "hostvars": hostvars,
        "groups": groups,
        "ansible_play_hosts": HOSTS,
        "ansible_play_hosts_all": HOSTS,
        "ansible_check_mode": False,
        "facts_by_host": facts,
        "plan_result": filter_named("rdma_selectors")(view),
        "pairs": pairs,
        "results": {},
        "evidence": filter_named("rdma_evidence")(pairs, {}),
        "earlier": {"reading": {}},
        "later": {"reading": {}},
        "answers": {},
        "map": filter_named("rdma_fabric")(view, {}),
        "rdma_ofed": {"method": "inbox"},
        "rdma_storage": {"nfs": True},
        "rdma_memlock": {"enabled": True},
        "before": facts[HOSTS[0]],
        "ansible_failed_result": {"failed": True, "msg": "No package matching 'doca-ofed' is available"},
        "installed": {"msg": "the chart said hunter2"},
        "values": {"password": "hunter2"},
        "drivers": {"resources": []},
        "claims": {"resources": []},
        "pods": {"resources": [POD]},
        "pods_before": {"resources": [POD]},
        "domains": {"known": True, "resources": []},
        "state": {"nodes": {}, "served": {"resource.nvidia.com": ["v1beta1"]}},
        "material": {"facts": {}},
    }


def expressions(value: t.Any) -> t.Iterator[t.Any]:
    """Texts of a task that are templates."""
    if isinstance(value, dict):
        for item in value.values():
            yield from expressions(item)
    elif isinstance(value, list):
        for item in value:
            yield from expressions(item)
    elif isinstance(value, str) and "{{" in value:
        yield value


def results_of(name: str, task: Json, variables: Json, directory: str) -> list[t.Any]:
    """Everything that the filter returns while the templates of a task are made."""
    returned: list[t.Any] = []
    module = importlib.import_module(f"ansible_collections.fabric.rdma.plugins.filter.{name}")
    real = getattr(module, name)

    def kept(*arguments: t.Any, **named: t.Any) -> t.Any:
        returned.append(real(*arguments, **named))
        return returned[-1]

    setattr(module, name, kept)
    try:
        task = json.loads(json.dumps(task).replace("/srv/rdma", directory))
        for key, value in task.get("vars", {}).items():
            variables = {**variables, key: made(template.Templar(DataLoader(), variables=variables), value)}
        templar = template.Templar(DataLoader(), variables=variables)
        (action,) = (key for key in task if "." in key)
        if "when" in task:
            made(templar, f"{{{{ {task['when']} }}}}")
        if action.endswith(".assert"):
            assert made(templar, f"{{{{ {task[action]['that']} }}}}") is True, "the assertion does not hold"
        for text in expressions(task[action]):
            made(templar, text)
    finally:
        setattr(module, name, real)
    return returned


def all_results(directory: str) -> dict[str, t.Any]:
    """By the name of a filter and the number of its example: what it returns, or what is wrong. In a process of its own."""
    variables, found = site(), {}
    # of a directory without files, nothing is made
    Path(directory, "job.log").write_text("nothing\n")
    for name in NAMES:
        for number, task in enumerate(documented(name, "EXAMPLES")):
            try:
                found[f"{name}-{number}"] = results_of(name, task, variables, directory)
            except Exception as exc:
                found[f"{name}-{number}"] = f"{type(exc).__name__}: {exc}"
    return found


# Ansible's loader finds collections in another way than pytest has found this one.
PROCESS = """
import json, sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible_collections.fabric.rdma.tests.unit.contracts import checks, watch
watch()
from ansible_collections.fabric.rdma.tests.unit.plugins.filter.test_examples import all_results
print(json.dumps({**all_results(sys.argv[2]), "checks": checks()}))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, t.Any]:
    command = [sys.executable, "-c", PROCESS, str(ROOT / ".collections"), str(tmp_path_factory.mktemp("run"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return t.cast("dict[str, t.Any]", json.loads(done.stdout.splitlines()[-1]))


def made(templar: t.Any, value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: made(templar, item) for key, item in value.items()}
    if isinstance(value, list):
        return [made(templar, item) for item in value]
    return templar.template(TRUSTED(value)) if isinstance(value, str) else value


def like(sample: t.Any, value: t.Any) -> None:
    """A result has the form of its sample: the keys of the one are keys of the other, with values of the same type."""
    if isinstance(sample, dict):
        assert isinstance(value, dict)
        for key in set(sample) & set(value):
            if sample[key] is not None and value[key] is not None:
                like(sample[key], value[key])
    elif isinstance(sample, list):
        assert isinstance(value, (list, tuple))
        for item in value[: bool(sample)]:
            like(sample[0], item)
    else:
        assert isinstance(value, type(sample)), (sample, value)


def insist_on_return(name: str, value: t.Any) -> None:
    told = documented(name, "RETURN")["_value"]
    assert isinstance(value, PYTHON[told["type"]])
    if "elements" in told:
        assert all(isinstance(item, PYTHON[told["elements"]]) for item in value)
    if "sample" in told:
        like(told["sample"], value)
    if isinstance(value, dict) and name not in KEYED_BY_NAMES:
        told = documented(AS_ANOTHER.get(name, name), "RETURN")["_value"]
        words = "\n".join(told["description"]) if isinstance(told["description"], list) else told["description"]
        named = set(re.findall(r"C\((\w+)\)", words))
        assert set(value) <= named, set(value) - named
        assert not set(told.get("sample") or {}) - set(value)


def examples() -> t.Iterator[t.Any]:
    for name in NAMES:
        for number, _task in enumerate(documented(name, "EXAMPLES")):
            yield pytest.param(name, number, id=f"{name}-{number}")


@pytest.mark.parametrize(("name", "number"), list(examples()))
def test_an_example_gives_what_is_documented(name: str, number: int, results: dict[str, t.Any]) -> None:
    returned = results[f"{name}-{number}"]
    assert isinstance(returned, list), returned
    assert returned, "the example does not use its filter"
    for value in returned:
        insist_on_return(name, value)


def test_what_examples_make_is_checked_by_its_schema(results: dict[str, t.Any]) -> None:
    """As what all other tests make is, though it is made in another process."""
    made_there = {"plan_groups", "merged_plan", "build_evidence", "record_of", "outcomes"}
    assert {name for name, count in results["checks"].items() if count} >= made_there


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_of_its_type(name: str) -> None:
    told = documented(name, "RETURN")["_value"]
    assert isinstance(told.get("sample", PYTHON[told["type"]]()), PYTHON[told["type"]])
    assert ("elements" in told) == (told["type"] == "list")
