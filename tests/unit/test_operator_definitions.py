# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which definitions tests/cluster/test_operator.py goes by: those that SOURCES.md names, and none is left out without a word."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.tests.cluster import definitions, test_operator

CLUSTER, NODE = "nicclusterpolicies", "nicnodepolicies"
# file -> (plural, ref in SOURCES.md)
NEWEST = {
    f"mellanox.com_{CLUSTER}.yaml": (CLUSTER, "v26.7.x"),
    f"mellanox.com_{NODE}.yaml": (NODE, "v26.7.x"),
}
OLDER = {f"mellanox.com_{CLUSTER}_v25.10.x.yaml": (CLUSTER, "v25.10.x")}
# of the operator, but no policy
OTHER = {"mellanox.com_ipoibnetworks.yaml": ("ipoibnetworks", "v26.7.x")}

Folder = t.Callable[[dict[str, tuple[str, str]]], Path]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Makes the folder with files, each of which has its ref for a description."""
    monkeypatch.setattr(definitions, "FOLDER", tmp_path)
    monkeypatch.setattr(test_operator, "SOURCE", None)

    def make(files: dict[str, tuple[str, str]]) -> Path:
        lines = ["# Sources"]
        for file, (plural, ref) in files.items():
            item = {
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.mellanox.com", "annotations": {"ref": ref}},
                "spec": {"group": "mellanox.com", "names": {"plural": plural}},
            }
            (tmp_path / file).write_text(yaml.safe_dump(item))
            if ref:
                lines += ["## github.com/x/y", f"Ref `{ref}`, commit `0`", "| file | kind |", f"| {file} | K |"]
        (tmp_path / "SOURCES.md").write_text("\n".join(lines) + "\n")
        return tmp_path

    return make


def test_each_release_goes_by_the_files_that_are_from_it(folder: Folder) -> None:
    """Whatever they have for a name."""
    folder({**OLDER, **NEWEST, **OTHER})
    found = test_operator.own_definitions()
    assert [(each.version, each.files) for each in found] == [
        ("25.10.0", tuple(OLDER)),
        ("26.7.0", (f"mellanox.com_{NODE}.yaml", f"mellanox.com_{CLUSTER}.yaml")),
    ]
    for release, ref in zip(found, ("v25.10.x", "v26.7.x"), strict=True):
        assert release.origin.startswith(f"{ref} in ")
        assert {item["metadata"]["annotations"]["ref"] for item in release.items} == {ref}


@pytest.mark.parametrize("plain", ["v25.10.x", "v26.7.x"])
def test_the_other_tests_go_by_the_newest_definitions(folder: Folder, plain: str) -> None:
    """And those that only want one of each kind, by the file that has nothing but its name."""
    both = {
        f"mellanox.com_{CLUSTER}.yaml": (CLUSTER, plain),
        f"mellanox.com_{CLUSTER}-other.yaml": (CLUSTER, "v26.7.x" if plain == "v25.10.x" else "v25.10.x"),
    }
    folder({**NEWEST, **OTHER, **both})
    found = test_operator.in_folder()
    assert {name: item["metadata"]["annotations"]["ref"] for name, item in found.items()} == {
        CLUSTER: "v26.7.x",
        NODE: "v26.7.x",
    }
    assert definitions.read()[f"{CLUSTER}.mellanox.com"]["metadata"]["annotations"]["ref"] == plain


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({f"mellanox.com_{CLUSTER}_old.yaml": (CLUSTER, "v23.10.x")}, "v23.10.x"),
        ({f"mellanox.com_{CLUSTER}_old.yaml": (CLUSTER, "")}, "SOURCES.md does not say of what"),
        ({f"mellanox.com_{NODE}_old.yaml": (NODE, "v25.10.x")}, f"v25.10.x, which has {CLUSTER}"),
        ({f"mellanox.com_{CLUSTER}_old.yaml": (CLUSTER, "v26.4.1")}, f"v26.4.1, which has {CLUSTER}, {NODE}"),
        ({f"mellanox.com_{CLUSTER}_old.yaml": (CLUSTER, "v26.7.x")}, f"v26.7.x, which has {CLUSTER}, {NODE}"),
    ],
    ids=["a release that is not supported", "no row", "a kind that it lacks", "half of a release", "twice the same"],
)
def test_a_file_that_no_release_takes_fails(folder: Folder, more: dict[str, tuple[str, str]], why: str) -> None:
    place = folder({**NEWEST, **OTHER, **more})
    with pytest.raises(AssertionError) as raised:
        test_operator.own_definitions()
    text = str(raised.value)
    assert text.startswith(f"no release takes these files of {place}: ")
    (file,) = more
    assert f"{file} ({why})" in text
    assert "ipoibnetworks" not in text


def test_without_definitions_there_is_no_release(folder: Folder) -> None:
    """Which test_operator.py skips or fails, as conftest.py has it."""
    folder({})
    assert (test_operator.own_definitions(), test_operator.in_folder()) == ([], {})
    folder(OTHER)
    assert (test_operator.own_definitions(), test_operator.in_folder()) == ([], {})
