# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks, roles and documentation know the same keys, and the same default of each."""

from __future__ import annotations

import ast
import itertools
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import (
    DEFAULTS,
    ENGINES,
    Said,
    defaults_of,
    engine_defaults,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.node_wishes import NODE_DEFAULTS
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import PLAN_DEFAULTS, VARIABLES, problems

ROOT = Path(__file__).resolve().parents[5]
ROLES = sorted(path.parent.parent.name for path in (ROOT / "roles").glob("*/defaults/main.yml"))
Json = dict[str, t.Any]

# What a table of docs/variables.md is about, by the head of its first column, else by the heading above it.
OF_A_COLUMN = {
    "key of `dranet`": ("rdma_rollout.dranet",),
    "key of `ipam`": ("rdma_networks.ipam",),
    "key of `workloads`": ("rdma_compute_domain.workloads",),
    "key of `rdma_multus`, `rdma_whereabouts`": ("rdma_multus", "rdma_whereabouts"),
    "key of `rdma_spiderpool`": ("rdma_spiderpool",),
    "key of `rdma_cluster_cidrs`": ("rdma_cluster_cidrs",),
}
# Variables of a role, and no wishes: their defaults are those of its specification.
OF_A_ROLE = ("verify_", "doctor_")
OF_A_HEADING = {"### `rdma_rollout`": "rdma_rollout", "### Secondary networks": "rdma_networks"}
# A whole that a row of its own stands for: what its keys are is below, or in the text of the row.
WHOLES = ("rdma_rollout", "rdma_networks", "rdma_multus", "rdma_whereabouts", "rdma_spiderpool", "rdma_cluster_cidrs")


def table() -> Json:
    """Every default by its dotted name, as documentation has it: those of an engine among those of rdma_rollout."""
    rollout: Json = dict(DEFAULTS["rdma_rollout"])
    for keys in ENGINES.values():
        rollout.update({key: default for key, default in keys.items() if key not in rollout})
    # of every engine, and more with one of them
    rollout["helm"] = {**rollout["helm"], **ENGINES["network_operator"]["helm"]}
    found: Json = {}

    def add(name: str, default: t.Any) -> None:
        found[name] = default
        for key, item in default.items() if isinstance(default, dict) else ():
            add(f"{name}.{key}", item)

    for variable, default in {**DEFAULTS, "rdma_rollout": rollout}.items():
        add(variable, default)
    return found


TABLE = table()


def rows() -> t.Iterator[tuple[list[str], str, str]]:
    """(names, default, meaning) of each row of docs/variables.md whose table has a column of defaults."""
    heading, head, last = "", [""], ""
    for line in (ROOT / "docs" / "variables.md").read_text().splitlines():
        if line.startswith("#"):
            heading = line
        if not line.startswith("|"):
            head = [""]
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if head == [""]:
            head = cells
        if len(head) < 3 or head[1] != "default" or not cells[0].startswith("`"):
            continue
        names = []
        for name in re.findall(r"`([\w.]+)`", cells[0]):
            parents = OF_A_COLUMN.get(head[0]) or (OF_A_HEADING.get(heading, ""),)
            if name.startswith(("rdma_", *OF_A_ROLE)):
                names.append(name)
                last = name.partition(".")[0]
            elif name.startswith("."):
                names.append(last + name)
            else:
                assert parents != ("",), line
                names += [f"{parent}.{name}" for parent in parents]
        yield [name for name in names if not name.startswith(OF_A_ROLE)], cells[1], " | ".join(cells[2:])


ROWS = [row for row in rows() if row[0]]


def test_every_default_has_its_row() -> None:
    """What lies deeper than two keys may stand in the text of the row above it."""
    told = {name for names, _default, _meaning in ROWS for name in names}
    # reconcile is in the table of both, and is of one
    told.discard("rdma_multus.reconcile")
    said = {name for name in TABLE if name.count(".") < 2 or name in told}
    assert told <= set(TABLE)
    # a variable whose keys have rows needs none
    assert {
        name
        for name in said - told
        if not (isinstance(TABLE[name], dict) and any(row.startswith(f"{name}.") for row in told))
    } == set()


def literal(cell: str) -> t.Any:
    """The value between backticks, as an inventory would have it."""
    match = re.fullmatch(r"`([^`]*)`", cell)
    assert match, cell
    return yaml.safe_load(match[1])


@pytest.mark.parametrize(
    ("names", "cell"), [row[:2] for row in ROWS], ids=lambda value: value[0] if isinstance(value, list) else ""
)
def test_the_column_of_defaults_has_them(names: list[str], cell: str) -> None:
    names = [name for name in names if name in TABLE]
    cells = cell.split(", ") if len({str(TABLE[name]) for name in names}) > 1 else [cell] * len(names)
    for name, own in zip(names, cells, strict=True):
        default = TABLE[name]
        if isinstance(default, Said):
            assert own == default.words, name
        elif name == "rdma_networks":
            assert literal(own) == []
        elif isinstance(default, dict):
            assert literal(own) == {}, name
            if name not in WHOLES and f"{name}." not in " ".join(each for row in ROWS for each in row[0]):
                in_the_text(name, " ".join(text for others, _default, text in ROWS if name in others))
        else:
            assert literal(own) == default, name


def in_the_text(name: str, meaning: str) -> None:
    """Keys that have no row of their own: the text names them, and behind each its default, but for what is empty."""
    for key, default in TABLE[name].items():
        assert f"`{key}`" in meaning, (name, key)
        if not isinstance(default, (Said, dict)) and default != []:
            found = re.search(rf"`{key}` \(`([^`]*)`", meaning)
            assert found, (name, key)
            assert yaml.safe_load(found[1]) == default


def checked(where: str, value: t.Callable[[Json], t.Any]) -> set[str]:
    """Keys that the checks let pass at a place. value: of the variable, with the keys that are asked for at that place."""
    (text,) = [each for each in problems(where.partition(".")[0], value({"zz": 1})) if "has no key zz" in each]
    return set(re.search(r"it knows ([\w, ]+)", text)[1].split(", "))  # type: ignore[index]


def test_checks_and_defaults_have_the_same_keys() -> None:
    assert set(VARIABLES) == set(DEFAULTS)
    flat = {variable for variable in VARIABLES if not isinstance(DEFAULTS[variable], dict)}
    assert all("has no key" not in " ".join(problems(variable, {"zz": 1})) for variable in flat)
    places: dict[str, t.Callable[[Json], t.Any]] = {
        variable: (lambda keys: keys) for variable in set(VARIABLES) - flat - {"rdma_rollout", "rdma_networks"}
    }
    entry = {"name": "fabric", "kind": "macvlan"}
    places["rdma_networks"] = lambda keys: [{**entry, **keys}]
    places["rdma_networks.ipam"] = lambda keys: [{**entry, "ipam": keys}]
    places["rdma_rollout.dranet"] = lambda keys: {"engine": "dra", "dranet": keys}

    def operators(driver: Json) -> Json:
        return {"engine": "network_operator", "ofed_driver": driver}

    places["rdma_rollout.ofed_driver"] = operators
    places["rdma_rollout.ofed_driver.upgrade_policy"] = lambda keys: operators({"upgrade_policy": keys})
    places["rdma_rollout.ofed_driver.upgrade_policy.drain"] = lambda keys: operators(
        {"upgrade_policy": {"drain": keys}}
    )
    places["rdma_gpu_operator.driver"] = lambda keys: {"driver": keys}
    places["rdma_gpu_operator.toolkit"] = lambda keys: {"toolkit": keys}
    places["rdma_compute_domain.workloads"] = lambda keys: {"workloads": keys}
    assert {name: set(TABLE[name]) for name in places} == {name: checked(name, value) for name, value in places.items()}
    for engine in ENGINES:
        found = checked("rdma_rollout", lambda keys, engine=engine: {"engine": engine, **keys})  # type: ignore[misc]
        assert found == set(engine_defaults(engine))


def written(default: t.Any) -> t.Any:
    """A default as an inventory could have it: without what only words tell."""
    if not isinstance(default, dict):
        return default
    return {key: written(item) for key, item in default.items() if not isinstance(item, Said)}


def test_a_default_is_a_wish_that_passes() -> None:
    for variable, default in DEFAULTS.items():
        # a network has no defaults of what it needs
        if variable != "rdma_networks" and not isinstance(default, Said):
            assert problems(variable, written(default)) == [], variable
    for engine in ENGINES:
        assert (
            problems("rdma_rollout", written({**DEFAULTS["rdma_rollout"], **ENGINES[engine], "engine": engine})) == []
        )


def test_what_code_on_nodes_reads_is_the_same() -> None:
    for variable, default in {**PLAN_DEFAULTS, **NODE_DEFAULTS}.items():
        keys = default if isinstance(default, dict) else {}
        assert {key: defaults_of(variable, key) for key in keys} == keys
        assert keys or defaults_of(variable) == default


def pairs(table: t.Any) -> t.Iterator[tuple[str, t.Any]]:
    """Each key of a table of defaults with its value, where that is a text."""
    for key, value in table.items():
        said = value.value if isinstance(value, Said) else value
        if isinstance(said, dict):
            yield from pairs(said)
        elif isinstance(said, str) and said:
            yield key.removeprefix("rdma_"), said


def repeated(source: str, known: set[tuple[str, t.Any]]) -> list[str]:
    """Where code says a default itself: get("KEY") or VALUE, get("KEY", VALUE)."""
    found = []
    for node in ast.walk(ast.parse(source)):
        call = node.values[0] if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) else node
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "get":
            continue
        others = node.values[1:] if isinstance(node, ast.BoolOp) else call.args[1:]
        for key, other in itertools.product(call.args[:1], others):
            if not isinstance(key, ast.Constant) or not isinstance(other, ast.Constant):
                continue
            if (str(key.value).removeprefix("rdma_"), other.value) in known:
                found.append(f"{key.value}: {other.value}")
    return found


def test_code_takes_defaults_from_the_table() -> None:
    known = {*pairs(DEFAULTS), *itertools.chain.from_iterable(pairs(each) for each in ENGINES.values())}
    assert repeated("a.get('engine') or 'daemonset'; b.get('policy', 'auto'); c.get('x') or 'y'", known) == [
        "engine: daemonset",
        "policy: auto",
    ]
    places = [*(ROOT / "plugins" / "module_utils").rglob("*.py"), *(ROOT / "plugins" / "plugin_utils").rglob("*.py")]
    assert {path.name: found for path in places if (found := repeated(path.read_text(), known))} == {
        # which the table itself imports
        "wishes.py": ["engine: daemonset", "namespace: default"]
    }


def test_nobody_changes_the_table() -> None:
    defaults_of("rdma_want")["kinds"].append("vf")
    assert defaults_of("rdma_want", "kinds") == ["pf"]


READ = re.compile(r"\b(rdma_\w+)((?:\.\w+)?) *\| *default\(((?:[^()]|\([^()]*\))*)\)")
# Roles that run one engine; another one's keys of rdma_rollout are not theirs.
ENGINE_OF = {"device_plugin": "daemonset", "network_operator": "network_operator", "dra": "dra"}
# What is looked up for the controller, and stands in the documentation in words.
LOOKED_UP = "rdma_output_dir"


def same(one: t.Any, other: t.Any) -> bool:
    """Whether two defaults are the same for who reads them: nothing is an empty text, all handlers are [all]."""
    if one in (None, "", [], {}) and other in (None, "", [], {}):
        return True
    return bool([one] == other or one == [other] or one == other)


@pytest.mark.parametrize("role", ROLES)
def test_roles_have_the_same_defaults(role: str) -> None:
    """The specification of a role has those of its defaults/main.yml: tests/unit/test_metadata.py."""
    for value in (yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text()) or {}).values():
        for variable, key, text in READ.findall(str(value)):
            if variable == LOOKED_UP:
                assert text == "'rdma-output', true"
                continue
            # a wish as a whole goes to code that reads the table
            own = yaml.safe_load(text.removesuffix(", true"))
            engine = ENGINE_OF.get(role, "daemonset")
            default = (
                engine_defaults(engine)[key[1:]]
                if variable == "rdma_rollout" and key
                else defaults_of(variable, *key[1:].split(".")[: bool(key)])
            )
            if isinstance(default, dict) and own == {}:
                # its keys: below
                continue
            assert same(own, default), (variable, key, own, default)


def options_below(options: Json, default: Json, where: str) -> t.Iterator[tuple[str, t.Any, t.Any]]:
    """(name, default of the specification, default of the table) of each key that both have, however deep."""
    assert set(options) == set(default), where
    for key, own in default.items():
        if isinstance(own, dict) and "options" in options[key]:
            yield from options_below(options[key]["options"], own, f"{where}.{key}")
        else:
            yield f"{where}.{key}", options[key].get("default"), own


def test_keys_in_specifications_of_roles_have_the_same_defaults() -> None:
    told = 0
    for role in ROLES:
        entry = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
        for name, value in (
            yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text()) or {}
        ).items():
            options = entry["main"]["options"].get(name, {}).get("options")
            (variable, key, _text), *more = READ.findall(str(value)) or [("", "", "")]
            if not options or not variable:
                continue
            assert not more
            engine = ENGINE_OF.get(role, "daemonset")
            table = (
                {**DEFAULTS["rdma_rollout"], **ENGINES[engine]} if variable == "rdma_rollout" else DEFAULTS[variable]
            )
            for where, own, default in options_below(options, table[key[1:]] if key else table, variable + key):
                # what depends on something else is in words there
                assert isinstance(default, Said) or same(own, default), where
                told += 1
    assert told > 20


def taken(spec: Json, value: t.Any) -> bool:
    """Whether Ansible would begin a role with this value of an option."""
    try:
        result = ArgumentSpecValidator({"option": {**spec, "default": None}}).validate({"option": value})
    except TypeError:
        # of an option with keys that is given something else
        return False
    return not result.error_messages


def options_of_wishes() -> t.Iterator[tuple[str, Json, str]]:
    """(option, its specification, dotted name of the wish that it is by default) of every role, keys of options included."""

    def below(option: str, spec: Json, wish: str) -> t.Iterator[tuple[str, Json, str]]:
        yield option, spec, wish
        for key, own in spec.get("options", {}).items():
            yield from below(f"{option}.{key}", own, f"{wish}.{key}")

    for role in ROLES:
        entry = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
        defaults = yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text()) or {}
        for name, spec in entry["main"]["options"].items():
            wishes = {variable + key for variable, key, _text in READ.findall(str(defaults.get(name)))} - {LOOKED_UP}
            if len(wishes) == 1:
                yield from below(name, spec, wishes.pop())


def passes(role: str, wish: str, value: t.Any) -> bool:
    """Whether the checks let a wish pass, of which only this is said."""
    variable, *keys = wish.split(".")
    for key in reversed(keys):
        value = {key: value}
    if variable == "rdma_rollout" and isinstance(value, dict):
        value = {"engine": ENGINE_OF.get(role, "daemonset"), **value}
    return problems(variable, value) == []


# One of each sort that YAML and the command line have.
SORTS: list[t.Any] = [True, False, "true", 0, 3, -1, "3", 0.5, "text", "/a/b", "10%", [], ["a"], [3], {}, {"a": "b"}]
# Not wished: the playbook uninstall asks roles for it.
ASKED = ["remove"]


def test_what_checks_let_pass_is_what_roles_take() -> None:
    """A wish of a type or a choice that a role does not take would end a run in the middle, after the checks."""
    tried = 0
    for option, spec, wish in options_of_wishes():
        role = next(role for role in sorted(ROLES, key=len, reverse=True) if option.startswith(role + "_"))
        # those of a list are of its elements
        choices = [[each] if spec["type"] == "list" else each for each in spec.get("choices", [])]
        assert [choice for choice in choices if not passes(role, wish, choice)] == [
            choice for choice in choices if choice in ASKED
        ], option
        for value in [*SORTS, *choices]:
            if passes(role, wish, value):
                assert taken(spec, value), (option, wish, value)
                tried += 1
        nothing = ["zz"] if spec["type"] == "list" else "zz"
        assert not choices or not (taken(spec, nothing) or passes(role, wish, nothing)), option
    assert tried > 100


def test_modules_have_the_same_default_of_the_inventory() -> None:
    """They run without the table."""
    told = [
        re.findall(r'"inventory": \{[^}]*"default": "(\w+)"', path.read_text())
        for path in sorted((ROOT / "plugins" / "modules").glob("*.py"))
    ]
    assert {default for each in told for default in each} == {defaults_of("rdma_rollout", "inventory")}


def test_playbooks_have_the_same_defaults() -> None:
    read = 0
    for path in (ROOT / "playbooks").rglob("*.yml"):
        for variable, key, text in READ.findall(path.read_text()):
            text = text.removesuffix(", true")
            if (
                variable not in DEFAULTS
                or variable == LOOKED_UP
                or not re.fullmatch(r"'[^']*'|[\w.]+|\[.*\]|\{\}", text)
                or "omit" in text
                # all that the run has, not a literal
                or text.startswith("__")
            ):
                continue
            own = yaml.safe_load(text)
            if own in ("none", "see above", {}) or (path.name, variable + key) == (
                "rollout.yml",
                "rdma_rollout.method",
            ):
                # rollout.yml applies, which the documentation says
                continue
            default = (
                engine_defaults("daemonset")[key[1:]]
                if variable == "rdma_rollout"
                else defaults_of(variable, *key[1:].split(".")[: bool(key)])
            )
            assert same(own, default), (path.name, variable, key)
            read += 1
    assert read > 20


def test_roles_read_keys_that_there_are() -> None:
    """A key that a role reads from a wish, and that nobody checks, would be refused as misspelt."""
    read: set[str] = set()
    for path in (ROOT / "roles").glob("*/defaults/main.yml"):
        for value in (yaml.safe_load(path.read_text()) or {}).values():
            read |= set(re.findall(r"\b(rdma_[a-z_]+(?:\.[a-z_]+)?)", str(value)))
    assert len(read) > 40
    assert read <= set(TABLE)
