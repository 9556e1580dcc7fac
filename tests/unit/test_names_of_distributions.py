# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node calls its distribution is looked up in a fixed table, and is never a part of a path on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_storage import rdma_storage
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.fabric import PACKAGES
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import read_storage
from ansible_collections.fabric.rdma.plugins.module_utils._plan.reasons import REASONS
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.package_names import (
    FAMILIES,
    names_of,
    names_of_family,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage import storage_checks
from ansible_collections.fabric.rdma.plugins.module_utils._rollout import daemonset as _manifests

ROLES = Path(__file__).resolve().parents[2] / "roles"
# Roles that read names of packages by distribution.
NAMES = sorted(path.parents[1] for path in ROLES.glob("*/tasks/names.yml"))
EVIL: list[Any] = [
    "../../tmp/evil",
    "/tmp/evil",
    "Debian/../../../tmp/evil",
    "Debian.yml",
    "debian",
    "Debian\n",
    "",
    None,
    7,
    "{{ '/tmp/evil' }}",
    "\0",
]


def tasks(role: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((role / "tasks" / "names.yml").read_text())
    return found


def rendered(template: str, family: Any) -> str:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
    return environment.from_string(template).render(ansible_facts={"os_family": family})


def facts(word: str | None) -> dict[str, Any]:
    """Of a node that has nothing, whose distribution is of a family."""
    module = {"loaded": True, "builtin": False, "available": True, "persisted": True}
    return {
        "kernel": {"release": "6.1.0", "modules": dict.fromkeys(("dm_crypt", "iscsi_tcp", "nfs"), module)},
        "storage": {**read_storage(MemoryTree({}), []), "family": word},
    }


def test_there_are_such_roles() -> None:
    assert {role.name for role in NAMES} >= {"ofed", "storage_prereqs"}


@pytest.mark.parametrize("role", NAMES, ids=lambda role: role.name)
@pytest.mark.parametrize("family", EVIL, ids=repr)
def test_no_path_is_made_of_it(role: Path, family: Any) -> None:
    """The role goes on with a family of the table only, and reads no file for it; the filters look it up, too."""
    [check] = [task["ansible.builtin.assert"]["that"] for task in tasks(role) if "ansible.builtin.assert" in task]
    assert rendered(f"{{{{ {check} }}}}", family) == "False"
    assert not [task for task in tasks(role) if "ansible.builtin.include_vars" in task]
    assert [path.name for path in (role / "vars").iterdir()] == ["main.yml"]
    with pytest.raises(WishError, match="package names are known for Debian, RedHat, Suse, and not for "):
        names_of_family(family)
    if family is not None:
        with pytest.raises(AnsibleFilterError, match="package names are known for"):
            rdma_storage(facts("debian"), os_family=family)


@pytest.mark.parametrize("role", NAMES, ids=lambda role: role.name)
@pytest.mark.parametrize("family", ["Debian", "RedHat", "Suse"])
def test_the_names_of_known_ones_are_there(role: Path, family: str) -> None:
    [check] = [task["ansible.builtin.assert"]["that"] for task in tasks(role) if "ansible.builtin.assert" in task]
    assert rendered(f"{{{{ {check} }}}}", family) == "True"
    assert family in FAMILIES


def test_the_roles_and_the_table_know_the_same_families() -> None:
    for role in NAMES:
        [check] = [task["ansible.builtin.assert"]["that"] for task in tasks(role) if "ansible.builtin.assert" in task]
        assert check == f"ansible_facts['os_family'] in {list(FAMILIES)}"


def test_a_role_keeps_no_names_of_its_own() -> None:
    """A name of the table stands in no role; what a role says in words has other names around it, and is not a list."""
    known = {name for row in FAMILIES.values() for name in (*row.iscsi, *row.nfs, *row.dm_crypt, *row.user_space)}

    def strings(value: Any) -> set[str]:
        if isinstance(value, dict):
            value = [*value, *value.values()]
        return (
            {value}
            if isinstance(value, str)
            else {s for each in value for s in strings(each)}
            if isinstance(value, list)
            else set()
        )

    for role in NAMES:
        for folder in ("tasks", "vars", "defaults", "handlers"):
            for path in (role / folder).glob("*.yml"):
                assert not strings(yaml.safe_load(path.read_text())) & known, path


@pytest.mark.parametrize(("family", "word"), [("Debian", "debian"), ("RedHat", "rhel"), ("Suse", "suse")])
def test_the_role_installs_what_the_check_misses(family: str, word: str) -> None:
    wish = {"dm_crypt": True}
    said = [row["message"] for row in storage_checks(facts(word), wish) if row["check"] == "packages"]
    missed = {text.removeprefix("Package ").removesuffix(" is not installed") for text in said}
    assert len(missed) == 3
    assert "cryptsetup" in missed
    result = rdma_storage(facts(word), wish, os_family=family)
    assert missed <= set(result["install"])
    assert result["install"] == rdma_storage(facts(word), wish)["install"]
    # what Ansible calls the family decides, when it is asked
    assert result["install"] == rdma_storage(facts(None), wish, os_family=family)["install"]


def test_every_program_that_a_check_misses_has_a_package() -> None:
    for row in (*FAMILIES.values(), names_of(None)):
        assert set(row.tools) == set(read_storage(MemoryTree({}), [])["tools_missing"])


def test_the_module_names_a_package_that_all_families_have() -> None:
    """It says one name to everybody: with the table, it would bring twice as much to each node."""
    for row in (*FAMILIES.values(), names_of(None)):
        assert PACKAGES["ibnetdiscover"] in row.user_space


def test_no_package_is_named_by_the_node() -> None:
    given = facts("debian")
    given["storage"]["tools_missing"] = ["curl", "evil-package"]
    result = rdma_storage(given, {"iscsi": False}, os_family="Debian")
    assert result["tools"] == ["curl", "evil-package"]
    assert result["install"] == ["nfs-common", "curl"]
    assert result["needed"]


def test_the_remedy_for_headers_names_what_the_role_installs() -> None:
    said = REASONS["kernel_headers"]
    assert all(f"{row.headers}RELEASE" in said for row in FAMILIES.values() if row.headers)


@pytest.mark.parametrize(
    "path", sorted(ROLES.glob("*/tasks/*.yml")), ids=lambda path: f"{path.parents[1].name}-{path.stem}"
)
def test_no_file_of_the_controller_is_named_by_a_fact(path: Path) -> None:
    """include_vars, include_tasks, template and copy: none takes a name from facts, but by a table in braces."""

    def every(value: Any) -> list[dict[str, Any]]:
        if isinstance(value, list):
            return [found for item in value for found in every(item)]
        if not isinstance(value, dict):
            return []
        return [value, *(found for key in ("block", "rescue", "always") for found in every(value.get(key)))]

    for task in every(yaml.safe_load(path.read_text())):
        for action in ("include_vars", "include_tasks", "import_tasks", "include_role", "template", "copy"):
            given = task.get(f"ansible.builtin.{action}")
            values = [given] if isinstance(given, str) else [(given or {}).get(key) for key in ("file", "name", "src")]
            for value in values:
                words = str(value).replace(" ", "")
                assert "ansible_facts" not in words or words.startswith("{{{'"), (task["name"], value)
                assert "ansible_distribution" not in words
                assert "ansible_os_family" not in words


@pytest.mark.parametrize("name", [*EVIL[:7], "k0s/../../x"], ids=repr)
def test_no_directory_of_the_kubelet_is_made_of_it(name: str) -> None:
    settings = {"kubelet_root": "auto", "distributions": {"a": name, "b": name}}
    assert _manifests._kubelet_root({"name": "c", "hosts": ["a", "b"]}, settings) == "/var/lib/kubelet"
