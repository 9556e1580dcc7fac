# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a directory are recognised by what is in them, whatever they are called and whoever sent them."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import load_listing
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import dump_archive
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor import directory
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import (
    DoctorError,
    material_of,
    read_directory,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import diagnose, document_of
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor import samples
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor.samples import HOST, OTHER


def test_each_sort_of_file_is_known(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    facts = samples.facts_of()
    (tmp_path / "a.txt").write_text(json.dumps({HOST: facts}))
    (tmp_path / "deep" / f"{OTHER}.json").write_text(json.dumps(facts))
    (tmp_path / "deep" / "p").write_text(json.dumps(samples.planned(HOST)))
    shutil.copy(CAPTURES / "ib-v100-1.capture", tmp_path / "deep" / "v100-1.capture")
    listing = load_listing((CAPTURES / "gb200-1.capture").read_text(), "x")
    (tmp_path / "gb200-1.tar.gz").write_bytes(dump_archive(listing))
    pods = {"kind": "List", "apiVersion": "v1", "items": [samples.a_job(), samples.a_node()]}
    (tmp_path / "pods.json").write_text(json.dumps(pods))
    (tmp_path / "ds.yaml").write_text(yaml.safe_dump({"apiVersion": "apps/v1", **samples.a_daemon_set()}))
    (tmp_path / "deep" / "er" / f"{HOST}-dmesg.txt").write_text("Couldn't allocate MR\n")
    (tmp_path / "train.log").write_text('{"line": 1}\n{"line": 2}\n')
    (tmp_path / "evidence.json").write_text('{"schema": 1, "evidence": {}}')
    found = read_directory(str(tmp_path))
    assert sorted(found["facts"]) == ["gb200-1", HOST, OTHER, "v100-1"]
    assert list(found["plan"]["groups"]) == ["ib-a100"]
    assert list(found["cluster"]["nodes"]) == [HOST]
    assert [len(found["cluster"][key]) for key in ("daemon_sets", "pods")] == [1, 1]
    assert [(log["name"], log["host"], log["pod"]) for log in found["logs"]] == [
        (f"deep/er/{HOST}-dmesg.txt", HOST, None),
        ("train.log", HOST, "rdma/train"),
    ]
    assert found["unread"] == []
    assert "mr-refused" in {each["id"] for each in diagnose(found)}


def test_what_kubectl_prints_is_diagnosed(tmp_path: Path) -> None:
    """As `kubectl get nodes,daemonsets,configmaps,pods -A -o json` gives it."""
    items = [samples.a_node(allocatable=0), samples.a_daemon_set(), samples.a_config_map(), samples.a_pod()]
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": items}))
    (finding,) = diagnose(read_directory(str(tmp_path)))
    assert (finding["id"], finding["hosts"]) == ("resource-zero", [HOST])


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"kind": "List", "items": [1, null, {"kind": "Pod"}, {"kind": "Pod", "metadata": 5}, {"kind": "Node", "metadata": {}}]}',
        '{"nodes": {"a": 1, "b": {"metadata": {"name": "b"}, "spec": 7, "status": []}}, "pods": [7, {"metadata": {"name": "x"}, "spec": 1}]}',
        '{"nodes": 5, "pods": "x", "events": [{"involvedObject": 7}], "policies": [{"kind": "Pod"}]}',
        '{"schema": 1, "groups": {"x": 7}}',
        '{"gpu-1": {"devices": "x"}}',
        '{"schema": 1, "devices": 7}',
        "kind: &a [*a]\n",
        "kind: !!python/object/apply:os.system [id]\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: {a: b}}\n",
        '{"kind": "PodList", "items": ["x"]}',
        '{"kind": ["Pod"], "apiVersion": "v1"}',
        '{"nodes": {}, "pods": 5, "config_maps": true}',
        '{"nodes": {}, "pods": [], "policies": 7}',
        *(f"kind: Pod\nx: !!{tag} ''\n" for tag in ("bool", "float", "int", "timestamp")),
        "kind: Node\nmetadata: {name: 2026-01-01, creationTimestamp: 2026-99-99}\n",
        "kind: Node\nmetadata: {name: x}\nspec: {taints: [{key: 2026-01-01}]}\n",
        "kind: Node\nmetadata: {name: x}\nstatus: {capacity: {rdma/r: 0x" + "f" * 9000 + "}}\n",
    ],
)
def test_what_is_malformed_costs_nothing_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    (tmp_path / "good.log").write_text("Couldn't allocate MR\n")
    # after the bad one
    (tmp_path / "node.json").write_text(json.dumps(samples.a_node("last")))
    document = document_of(read_directory(str(tmp_path)), [])
    assert "mr-refused" in {each["id"] for each in document["findings"]}
    assert document["looked_at"]["nodes"] >= 1
    json.dumps(document, ensure_ascii=False).encode()


def test_yaml_is_read_in_a_time_that_its_length_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "_MOST_YAML", 1 << 20)
    node = f"apiVersion: v1\nkind: Node\nmetadata: {{name: {HOST}}}\n"
    (tmp_path / "a.yaml").write_text(node)
    (tmp_path / "b.yaml").write_text(node + "# " + "x" * (1 << 20))
    found = read_directory(str(tmp_path))
    assert list(found["cluster"]["nodes"]) == [HOST]
    assert found["unread"] == ["b.yaml: more than 1 MiB of YAML; give it as JSON"]


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "archive.tar.gz").write_bytes(b"\x1f\x8b nothing")
    (tmp_path / "facts.json").write_text(json.dumps({HOST: {"schema": 1, "devices": "x"}}))
    (tmp_path / "plan.json").write_text('{"schema": 1, "groups": {"x": 7}}')
    found = read_directory(str(tmp_path))
    said = "\n".join(found["unread"])
    assert all(
        word in said
        for word in ("binary", "link is a link", "archive.tar.gz", f"host {HOST}", "the plan cannot be used")
    )
    assert not found["logs"]


def test_no_member_of_an_archive_gets_out_of_it(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("../../outside")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    read_directory(str(tmp_path))
    assert [path.name for path in tmp_path.parent.glob("outside")] == []


def test_a_directory_that_is_none_or_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DoctorError, match="is not a directory"):
        read_directory(str(tmp_path / "none"))
    monkeypatch.setattr(directory, "_MOST_FILES", 1)
    for name in "ab":
        (tmp_path / name).write_text("x")
    with pytest.raises(DoctorError, match="more than 1 files"):
        read_directory(str(tmp_path))


def test_logs_of_one_name_are_told_apart() -> None:
    logs = [samples.a_log(f"Couldn't allocate MR {number}", host=f"gpu-{number}") for number in (1, 2)]
    found = material_of(logs=[*logs, {"name": "x", "text": 5}, 7])
    assert [log["name"] for log in found["logs"]] == ["job", "job (2)"]
    (finding,) = diagnose(found)
    assert finding["hosts"] == ["gpu-1", "gpu-2"]
