# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever the documentation shows as code is known to the code: each word, each key of a wish, each value of an option.

Commands and inventories have checks of their own (test_documentation.py). These are for everything between backticks, too.
"""

from __future__ import annotations

import functools
import re
import typing as t

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import ENGINES
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import VARIABLES, problems
from ansible_collections.fabric.rdma.tests.unit.documentation import (
    FENCE,
    PAPERS,
    ROOT,
    blocks,
    inventory_files,
    options,
    papers_with,
    variables,
    wrong_option,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._plan.test_defaults import TABLE

# Of a name of several parts only the whole: the 4e2 in mlx5-4e2 is none.
WORD = re.compile(r"(?<!\w)[A-Za-z_]\w+", re.ASCII)
# Where words come from: what runs, and what an inventory, a schema or a manifest of ours has. Not from prose.
PLACES = (
    *("plugins/**/*.py", "plugins/**/*.yml", "roles/*/*/**/*.*", "playbooks/*.yml", "playbooks/tasks/*.yml", "playbooks/vars/*.yml"),
    *("docs/*.json", "docs/*.yml", "docs/docsite/*", "inventories/**/*.yml", "tools/*", "benchmarks/**/*.py", "meta/*.yml"),
    *("Makefile", "*.yml", "*.cfg", "*.ini", "*.txt", "conftest.py", "molecule/**/*.yml", "tests/captures/demo-*.json"),
)  # fmt: skip
# What a test is called, its tables, and what is set for it.
OF_TESTS = re.compile(r"^ *def (\w+)|^([A-Z_]{3,})\b|\b(FABRIC_RDMA_\w+)", re.M)
# Whose other words these are.
OF_OTHERS = {
    "a reader": "CASE CHART HASH INVENTORY debian12 evil gpu_a monday my_image rail8",
    "Ansible": "ansible_ssh_retries get_url library_inventory_filtering_v1 host_pinned host_vars",
    "Git, Go and tar": "Git envtest modcache xzf",
    "Kubernetes and its operators": "certs embed eviction nvIpam schedulerName",
    "a test": "Process NaN test_NAME vvv",
    "Prometheus": "alert increase node_textfile_mtime_seconds RdmaBelowLimit RdmaErrors",
}


def spans(paper: str) -> list[str]:
    """What a page has between backticks, each on one line. `_b` behind `role_a` is `role_b`."""
    text = FENCE.sub("", (ROOT / paper).read_text())
    found: list[str] = []
    for span in (" ".join(each.split()) for each in re.findall(r"(?<!`)`([^`]+)`(?!`)", text)):
        if re.fullmatch(r"_\w+", span) and found:
            starts = [match.start() for match in re.finditer("_", found[-1])]
            span = next((found[-1][:at] + span for at in starts if found[-1][:at] + span in words()), span)
        found.append(span)
    return found


def metrics() -> set[str]:
    """Names of metrics, some of which are put together of what is measured and its unit."""
    text = (ROOT / "plugins" / "plugin_utils" / "_report" / "metrics.py").read_text()
    units = [unit for pair in re.findall(r'\("(\w+)", _\w+\) if \w+ else \("(\w+)", _\w+\)', text) for unit in pair]
    names = re.findall(r'\.(?:gauge|counter)\(\s*f?"([\w{}]+)"', text)
    whole = {name.replace("{name}", unit) for name in names for unit in units}
    return whole | {f"fabric_rdma_{name}" for name in whole}


@functools.cache
def words() -> frozenset[str]:
    """All that a page may call by its name."""
    found = {*" ".join(OF_OTHERS.values()).split(), *metrics()}
    for pattern in PLACES:
        for path in ROOT.glob(pattern):
            if path.is_file() and "__pycache__" not in path.parts:
                found |= {*WORD.findall(path.read_text()), path.stem}
    for top in ("tests", "molecule"):
        for path in (ROOT / top).glob("**/*.py"):
            found |= {path.stem, *(word for groups in OF_TESTS.findall(path.read_text()) for word in groups)}
    return frozenset(found)


@pytest.mark.parametrize("paper", PAPERS)
def test_each_word_of_code_is_a_word_of_the_code(paper: str) -> None:
    shown = [re.sub(r"\s# .*", "", block.text) for block in blocks(paper, "yaml", "console")]
    told = [*spans(paper), *shown]
    assert {word for each in told for word in WORD.findall(each)} - words() == set()


# --- wishes and options ----------------------------------------------------------------------------------------------


def around(place: str, value: t.Any) -> list[tuple[str, t.Any]]:
    """A value at a place, such as rdma_rollout.dranet.port, as inventories may have it: (variable, its value)."""
    variable, *keys = place.split(".")
    for key in reversed(keys):
        value = {key: value}
    if variable == "rdma_networks" and keys:
        return [(variable, [{"name": "fabric", "kind": "macvlan", **value}])]
    if variable == "rdma_rollout" and isinstance(value, dict):
        return [(variable, {"engine": engine, **value}) for engine in ENGINES]
    return [(variable, value)]


def wrong_at(place: str, value: t.Any) -> list[str]:
    """What is wrong with it there, however the rest is."""
    return min((problems(*each) for each in around(place, value)), key=len)


def wrong_value(name: str, value: t.Any, keys: bool) -> list[str]:
    """Of a variable; with keys of a key, too, wherever one of its name is."""
    if value is None or value == "..." or re.fullmatch(r"[A-Z:]+", str(value)):
        value = None
    if name in VARIABLES:
        return wrong_at(name, value)
    if name in options():
        return [] if value is None else wrong_option(name, value)
    places = [place for place in TABLE if place.endswith(f".{name}")]
    if places:
        return min((wrong_at(place, value) for place in places), key=len) if keys and value is not None else []
    return [f"there is no variable {name}"] if name.startswith(OURS) and name not in variables() else []


def values(told: t.Any) -> t.Iterator[tuple[str, t.Any]]:
    """Each key with its value, however deep; not below a variable, which is looked at as a whole."""
    if isinstance(told, dict):
        for key, value in told.items():
            yield str(key), value
            if key not in VARIABLES:
                yield from values(value)
    elif isinstance(told, list):
        for each in told:
            yield from values(each)


OURS = tuple(sorted({f"{name.partition('_')[0]}_" for name in (*VARIABLES, *options())}))


def pairs_of(span: str) -> t.Any:
    """What it says of names and values, if it does."""
    if not re.match(r"\{?[a-z][a-z_]+: ", span):
        return None
    try:
        return yaml.safe_load(span)
    except yaml.YAMLError:
        return None


# The same words for other things.
OF_NO_WISH = {"state: broken": "of the module rollout_lease"}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_value_in_a_sentence_is_one_that_its_variable_may_have(paper: str) -> None:
    told = [pairs_of(span) for span in spans(paper) if span not in OF_NO_WISH]
    assert [each for name, value in values(told) for each in wrong_value(name, value, keys=True)] == []


@pytest.mark.parametrize("paper", papers_with("yaml"))
def test_a_value_in_a_block_is_one_that_its_variable_may_have(paper: str) -> None:
    told = [each for block in blocks(paper, "yaml") for each in yaml.safe_load_all(block.text)]
    assert [each for name, value in values(told) for each in wrong_value(name, value, keys=False)] == []


@pytest.mark.parametrize("paper", [paper for paper in PAPERS if inventory_files(paper)])
def test_a_file_of_an_inventory_has_variables_only(paper: str) -> None:
    files = [content for path, _name, content in inventory_files(paper) if path != "hosts.yml"]
    own = {name for content in files for name in content or {} if not name.startswith("ansible_")}
    assert own - variables() == set()


@pytest.mark.parametrize("paper", PAPERS)
def test_a_key_is_one_that_its_variable_has(paper: str) -> None:
    text = (ROOT / paper).read_text()
    named = set(re.findall(rf"(?<![\w./-])((?:{'|'.join(VARIABLES)})(?:\.[a-z_]+)+)", text))
    assert {name for name in named if name not in TABLE and wrong_at(name, None)} == set()


@pytest.mark.parametrize(
    ("span", "said"),
    [
        ("rdma_slice: true", "there is no variable rdma_slice"),
        ("rdma_rollout: {methd: render}", "rdma_rollout has no key methd"),
        ("state: anything", "expected one of Active, any"),
        ("verify_topology: most", "value of verify_topology must be one of"),
        ("{host_imex: restored}", "expected one of keep, mask, restore"),
    ],
)
def test_a_value_that_cannot_be_is_found(span: str, said: str) -> None:
    found = [each for name, value in values(pairs_of(span)) for each in wrong_value(name, value, keys=True)]
    assert any(said in each for each in found), found


def test_no_word_of_others_is_listed_that_no_page_has() -> None:
    told = {word for paper in PAPERS for span in spans(paper) for word in WORD.findall(span)}
    told |= {
        word for paper in PAPERS for block in blocks(paper, "yaml", "console") for word in WORD.findall(block.text)
    }
    assert set(" ".join(OF_OTHERS.values()).split()) - told == set()
    assert {span for span in OF_NO_WISH if not any(span in spans(paper) for paper in PAPERS)} == set()
