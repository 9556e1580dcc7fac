# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab's directory: what is ours in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import state
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import Image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import plan_nodes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import LabDirectory
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import IMAGE, spec


def test_spec_key_changes_with_what_running_nodes_depend_on(tmp_path: Path) -> None:
    wish = spec(tmp_path)
    others = [
        spec(tmp_path, accel="tcg").key(IMAGE),
        spec(tmp_path, engine="container").key(IMAGE),
        spec(tmp_path, nodes=plan_nodes(3, 1024, 1)).key(IMAGE),
        spec(tmp_path, nodes=plan_nodes(2, 2048, 1)).key(IMAGE),
        wish.key(Image("fedcba9876543210", "/cache/image-fedcba9876543210")),
        wish.key(IMAGE, "another kubelet"),
    ]
    assert len({wish.key(IMAGE), *others}) == 7
    assert wish.key(IMAGE) == spec(tmp_path, boot_timeout=1).key(IMAGE)


def test_a_directory_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(LabError, match=r"is not empty and has no lab in it"):
        LabDirectory(str(tmp_path)).refuse_foreign()


def test_what_was_killed_with_its_first_file_in_the_making_does_not_keep_the_next_from_starting(tmp_path: Path) -> None:
    place = LabDirectory(str(tmp_path / "lab"))
    with pytest.raises(KeyboardInterrupt):
        killed_in_the_last_step(place)
    assert sorted(path.name for path in (tmp_path / "lab").iterdir()) == ["state.json.new"]
    place.refuse_foreign()
    place.save({"format": state.STATE_FORMAT, "nodes": []})
    place.remove_files()
    assert not list((tmp_path / "lab").iterdir())


def killed_in_the_last_step(place: LabDirectory) -> None:
    """Writes the state as far as a process comes that is killed before the file has its name."""
    Path(place.path).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.replace", interrupted)
        place.save({"format": state.STATE_FORMAT, "nodes": []})


def interrupted(*_all: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "state.json is damaged"),
        ('{"format": 99}', "another version of the lab (format 99"),
        ("[]", "another version of the lab"),
    ],
)
def test_strange_state_is_an_error_that_says_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(LabError, match=re.escape(message) + ".*by hand"):
        LabDirectory(str(tmp_path)).nodes()


def test_what_is_mounted_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "lab1" / "root"
    (root / "etc").mkdir(parents=True)
    monkeypatch.setattr(state, "read", lambda _path: f"overlay {root} overlay rw 0 0\n")
    with pytest.raises(LabError, match="is mounted: unmount it"):
        state._remove_tree(str(root))
    assert (root / "etc").is_dir()
