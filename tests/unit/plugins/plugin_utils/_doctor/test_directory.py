# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a directory are recognised by what is in them, whatever they are called and whoever sent them."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import load_listing
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import dump_archive
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor import directory
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.bundle import bundle_files
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import (
    DoctorError,
    material_of,
    read_directory,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import diagnose, document_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.words import findings_text
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
    ("pods", "ids"),
    [
        # none was listed, or those of another namespace only
        ([], []),
        ([("default", "x")], []),
        # those of all namespaces, and those of the plugin's own
        ([("default", "x"), ("kube-system", "y")], ["plugin-not-on-node"]),
        ([("rdma", "x")], ["plugin-not-on-node"]),
    ],
)
def test_pods_that_nobody_listed_are_not_missing(tmp_path: Path, pods: list[tuple[str, str]], ids: list[str]) -> None:
    items = [samples.a_node(), samples.a_daemon_set(), samples.a_config_map()]
    for space, name in pods:
        pod = samples.a_pod(name, None, image="registry.example/x:1")
        items.append({**pod, "metadata": {**pod["metadata"], "namespace": space}})
    (tmp_path / "some.json").write_text(json.dumps({"kind": "List", "items": items}))
    assert [each["id"] for each in diagnose(read_directory(str(tmp_path)))] == ids


def test_a_policy_that_nobody_listed_is_not_missing(tmp_path: Path) -> None:
    """As `kubectl get nodes,daemonsets,pods` gives it, without the operator's own kinds."""
    init = {"initContainerStatuses": [{"name": "mofed-validation", "ready": False, "state": {"running": {}}}]}
    items = [samples.a_node(), samples.a_daemon_set(), samples.a_config_map(), samples.a_pod(status=init)]
    (tmp_path / "some.json").write_text(json.dumps({"kind": "List", "items": items}))
    (finding,) = diagnose(read_directory(str(tmp_path)))
    assert finding["id"] == "mofed-wait"
    assert "no policy" not in finding["cause"]
    assert "that were listed" in finding["evidence"][-1]


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
        # numbers to the base of 60, of which PyYAML makes one that no float holds; a character that no Unicode has
        "kind: Node\nmetadata: {name: x}\nstatus: {capacity: {rdma/r: 1" + ":59" * 300 + ".0}}\n",
        'kind: Node\nmetadata: {name: "\\UFFFFFFFF"}\n',
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


def test_yaml_of_many_brackets_is_no_object(tmp_path: Path) -> None:
    # each costs PyYAML as much as there are around it
    (tmp_path / "a.yaml").write_text(f"kind: Node\nmetadata: {{name: {HOST}}}\nspec: {'[' * 300}{']' * 300}\n")
    found = read_directory(str(tmp_path))
    assert not found["cluster"]
    assert len(found["unread"]) == 1
    assert "cannot be read as that" in found["unread"][0]


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
        for word in (
            "binary",
            "a link, which is not followed: link",
            "archive.tar.gz",
            f"host {HOST}",
            "the plan cannot be used",
        )
    )
    assert not found["logs"]


def test_what_other_programs_say_of_devices_is_no_facts(tmp_path: Path) -> None:
    """As JSON that somebody made of ibv_devinfo."""
    (tmp_path / "ibv_devinfo.json").write_text(json.dumps({"devices": [{"hca_id": "mlx5_0"}]}))
    (tmp_path / "hosts.json").write_text(json.dumps({HOST: {"devices": [{"hca_id": "mlx5_0"}]}}))
    (tmp_path / "mlxlink.json").write_text(json.dumps({"result": {"output": {"State": "Active"}}}))
    (tmp_path / "lspci.txt").write_text("3b:00.0 Ethernet controller: Mellanox Technologies MT2892\n")
    found = read_directory(str(tmp_path))
    assert found["facts"] == {}
    assert found["unread"] == [
        "a document of a form that is not known here is read like a log: hosts.json, ibv_devinfo.json, mlxlink.json",
        "no rule reads what lspci prints; a capture contains its output (ansible-playbook fabric.rdma.capture): lspci.txt",
    ]
    assert diagnose(found) == []


def test_objects_that_are_cut_off_are_named(tmp_path: Path) -> None:
    """A disk that was full, or kubectl that was ended: what the doctor does not find in there is not well for it."""
    objects = json.dumps({"kind": "List", "items": [samples.a_node(), samples.a_pod()]}, indent=4)
    (tmp_path / "a.json").write_text(objects[: len(objects) // 2])
    (tmp_path / "b.json").write_text(f"[{objects[: len(objects) // 2]}")
    (tmp_path / "c.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: x\n")
    found = read_directory(str(tmp_path))
    assert found["unread"] == [
        "it begins like JSON or YAML, cannot be read as that (cut off?), and is read like a log: a.json, b.json, c.yaml"
    ]
    assert found["cluster"] == {}


def test_logs_that_begin_like_json_are_logs(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text('{"level": "info"}\n{"level": "error", "msg": "x"}\n')
    (tmp_path / "b.log").write_text("[    5.1] mlx5_core 0000:3b:00.0: firmware version: 20.31\n")
    (tmp_path / "c.log").write_text("[1,0]<stdout>:# nThread 1 nGpus 1\n")
    found = read_directory(str(tmp_path))
    assert ([log["name"] for log in found["logs"]], found["unread"]) == (["a.log", "b.log", "c.log"], [])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_what_a_shell_of_windows_writes_is_read(tmp_path: Path, encoding: str) -> None:
    start = "\ufeff" if encoding == "utf-16-be" else ""
    (tmp_path / "node.json").write_bytes((start + json.dumps(samples.a_node())).replace("\n", "\r\n").encode(encoding))
    (tmp_path / "job.log").write_bytes(f"{start}one\r\nCouldn't allocate MR\r\n".encode(encoding))
    found = read_directory(str(tmp_path))
    assert list(found["cluster"]["nodes"]) == [HOST]
    assert [each["id"] for each in diagnose(found)] == ["mr-refused"]
    assert found["unread"] == []


@pytest.mark.parametrize("head", ["", "---\n", "# made by hand\n---\n", "---\n# a\n\n# b\n", "\n\n--- # c\n"])
def test_what_stands_before_an_object_does_not_matter(tmp_path: Path, head: str) -> None:
    (tmp_path / "node.yaml").write_text(f"{head}apiVersion: v1\nkind: Node\nmetadata: {{name: {HOST}}}\n")
    assert list(read_directory(str(tmp_path))["cluster"]["nodes"]) == [HOST]


def test_of_many_files_some_are_named(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.json").write_text('{"a": 1}')
    (line,) = read_directory(str(tmp_path))["unread"]
    assert line.endswith(": 0.json, 1.json, 2.json and 2 more")


def test_captures_of_one_name_in_several_directories_are_several_hosts(tmp_path: Path) -> None:
    for host, base in (
        ("gpu-1", "root.tar.gz"),
        ("gpu-2", "root.tar.gz"),
        ("gpu-3", "node.tar.gz"),
        ("gpu-4", "node.tar.gz"),
    ):
        (tmp_path / host).mkdir()
        listing = load_listing((CAPTURES / "ib-v100-1.capture").read_text(), "x")
        (tmp_path / host / base).write_bytes(dump_archive(listing))
    found = read_directory(str(tmp_path))
    assert sorted(found["facts"]) == ["gpu-1", "gpu-2", "gpu-4", "node"]
    assert found["unread"] == []


def test_of_two_files_with_facts_of_a_host_the_first_counts_and_the_other_is_named(tmp_path: Path) -> None:
    facts = samples.facts_of()
    (tmp_path / "facts.json").write_text(json.dumps({HOST: facts}))
    (tmp_path / "later.json").write_text(json.dumps({HOST: facts}))
    (tmp_path / f"{HOST}.json").write_text(json.dumps({**facts, "devices": []}))
    found = read_directory(str(tmp_path))
    assert found["facts"] == {HOST: facts}
    assert found["unread"] == [f"facts.json has other facts of the same hosts, and counts: {HOST}.json"]


def test_what_a_run_leaves_is_read_as_what_it_is(tmp_path: Path) -> None:
    """The report has groups, too, and comes after the plan; and what quotes findings is not a log in which they are found again."""
    plan = json.loads((CAPTURES / "demo-plan.json").read_text())
    report = json.loads((CAPTURES / "demo-report.json").read_text())
    document = document_of(samples.said("Couldn't allocate MR"))
    quoted = "Couldn't allocate MR\n"
    html = f"<!doctype html>\n<html><body>{quoted}</body></html>\n"
    texts = {
        "plan.json": json.dumps(plan),
        "report.json": json.dumps(report["document"]),
        "summary.txt": "\n".join([*report["summary"], quoted]),
        "report.md": "\n".join([*report["ticket"], quoted]),
        "report.html": html,
        "metrics.prom": f"# HELP fabric_rdma_info Version.\n# TYPE fabric_rdma_info gauge\n# {quoted}",
        "doctor.json": json.dumps(document),
        "doctor.txt": findings_text(document["findings"], [], document["looked_at"]),
        "labels.sh": f"#!/bin/sh\n# app.kubernetes.io/managed-by: fabric.rdma\n# {quoted}",
    }
    assert "allocate MR" in texts["doctor.txt"]
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found = read_directory(str(tmp_path))
    assert found["plan"]["groups"] == plan["groups"]
    assert (found["logs"], found["unread"], diagnose(found)) == ([], [], [])


def test_a_bundle_beside_other_things_says_whose_its_logs_are(tmp_path: Path) -> None:
    given = samples.running(
        samples.a_job(), logs=[samples.a_log("Couldn't allocate MR", pod="rdma/train")], unread=["a right"]
    )
    for part in ("one", "two"):
        for name, text in bundle_files(given).items():
            (tmp_path / part / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / part / name).write_text(text)
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": [samples.a_node("other")]}))
    found = read_directory(str(tmp_path))
    assert {(log["host"], log["pod"], log["source"]) for log in found["logs"]} == {(HOST, "rdma/train", "pod")}
    assert sorted(found["cluster"]["nodes"]) == [HOST, "other"]
    assert [pod["metadata"]["name"] for pod in found["cluster"]["pods"]] == ["ds-1", "train"]
    assert found["unread"] == ["a right", "a right"]


def test_of_two_plans_the_first_counts_and_the_other_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(samples.planned(HOST)))
    (tmp_path / "b.json").write_text(json.dumps(samples.planned(OTHER)))
    found = read_directory(str(tmp_path))
    assert found["plan"]["groups"]["ib-a100"]["hosts"] == [HOST]
    assert found["unread"] == ["another plan was read before this one, and counts: b.json"]


def test_a_capture_of_a_part_of_a_node_does_not_say_that_the_rest_is_missing(tmp_path: Path) -> None:
    listing = load_listing((CAPTURES / "ib-v100-1.capture").read_text(), "x")
    parts = ("/sys/bus/pci", "/sys/class/infiniband/", "/sys/class/net", "/sys/devices")
    listing = {path: entry for path, entry in listing.items() if path.startswith(parts)}
    (tmp_path / "part.tar.gz").write_bytes(dump_archive(listing))
    found = read_directory(str(tmp_path))
    assert found["facts"]["part"]["devices"]
    assert diagnose(found) == []
    assert found["unread"] == [
        "a capture of a part of /sys does not tell which character devices a node has: part.tar.gz"
    ]


def test_an_archive_of_logs_is_no_node(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "ticket.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("gpu-1/dmesg.txt")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    found = read_directory(str(tmp_path))
    assert found["facts"] == {}
    assert found["unread"] == ["ticket.tar.gz has no /sys, so it is not a capture of a node; unpack it if it has logs"]


def test_objects_that_no_rule_looks_at_are_named_and_are_no_logs(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"a": "Couldn't allocate MR"}}
    (tmp_path / "a.json").write_text(json.dumps(secret))
    (tmp_path / "b.json").write_text(
        json.dumps({"kind": "List", "items": [samples.a_node(), {**secret, "kind": "Job"}]})
    )
    (tmp_path / "c.yaml").write_text("apiVersion: v1\nkind: ResourceSliceList\nitems: [{metadata: {name: x}}]\n")
    found = read_directory(str(tmp_path))
    assert found["logs"] == []
    assert list(found["cluster"]["nodes"]) == [HOST]
    assert found["unread"] == [
        f"no rule looks at objects of these kinds ({kind}): {name}"
        for kind, name in (("Secret", "a.json"), ("Job", "b.json"), ("ResourceSlice", "c.yaml"))
    ]


def test_directories_that_are_not_entered_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "_DEEPEST", 1)
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "elsewhere").symlink_to("/etc")
    found = read_directory(str(tmp_path))
    assert found["unread"] == ["a link, which is not followed: elsewhere", "too many directories below: a/b/c"]


def test_of_many_links_a_few_are_named_and_of_far_too_many_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}").symlink_to("/etc")
    found = read_directory(str(tmp_path))
    assert found["unread"] == ["a link, which is not followed: 00, 01, 02 and 17 more"]
    monkeypatch.setattr(directory, "_MOST_ENTRIES", 10)
    with pytest.raises(DoctorError, match="more than 10 files, links and directories"):
        read_directory(str(tmp_path))


def test_what_is_said_of_what_was_not_read_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a bundle says it."""
    monkeypatch.setattr(directory, "_MOST_UNREAD", 3)
    unread = [f"sentence {number}" for number in range(5)]
    (tmp_path / "context.json").write_text(json.dumps({"logs": [], "unread": unread}))
    assert read_directory(str(tmp_path))["unread"] == [*unread[:3], "2 more of such sentences are left out"]


def archived(size: int, count: int = 1, whole: bool = True) -> bytes:
    """An archive of files with nothing but zeros, which is as small as can be."""
    blob = io.BytesIO()
    with tarfile.open(fileobj=blob, mode="w:gz") as archive:
        for number in range(count):
            member = tarfile.TarInfo(f"sys/{number}")
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    return blob.getvalue() if whole else blob.getvalue()[:-9]


@pytest.mark.parametrize(
    ("bound", "most", "blob", "read"),
    [
        ("_MOST_UNPACKED", 3 << 20, archived(1 << 20), 3),
        # what is refused has been unpacked, too
        ("_MOST_UNPACKED", 3 << 20, archived(2 << 20, whole=False), 2),
        ("_MOST_UNPACKED_ENTRIES", 25, archived(1, 10), 3),
    ],
    ids=["size", "damaged", "entries"],
)
def test_archives_have_a_bound_for_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, blob: bytes, read: int
) -> None:
    monkeypatch.setattr(directory, bound, most)
    opened = []
    load = directory.load_archive

    def counted(blob: bytes, source: str, *more: t.Any) -> t.Any:
        opened.append(source)
        return load(blob, source, *more)

    monkeypatch.setattr(directory, "load_archive", counted)
    for number in range(8):
        (tmp_path / f"{number}.tar.gz").write_bytes(blob)
    (line,) = [text for text in read_directory(str(tmp_path))["unread"] if "before these" in text]
    assert len(opened) == read
    assert line.startswith("the captures and archives before these unpack to more than ")
    names = [f"{number}.tar.gz" for number in range(read, read + 3)]
    assert line.endswith(f": {', '.join(names)} and {8 - read - 3} more")


def test_listings_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "_MOST_UNPACKED_ENTRIES", 3)
    for number in range(4):
        (tmp_path / f"{number}.capture").write_text("# fabric.rdma capture 1\nd sys\nd sys/class\n")
    found = read_directory(str(tmp_path))
    assert [text for text in found["unread"] if text.endswith("a part of them): 2.capture, 3.capture")]


def test_recorded_outputs_are_used_or_named_and_nothing_false_is_found(shared_captures: Path) -> None:
    """One of them has a run that failed before the one that passed."""
    found = read_directory(str(shared_captures))
    findings = [(each["id"], each["evidence"][0].partition(":")[0]) for each in diagnose(found)]
    failed = "tools-perftest/crater-ib_write_bw-both.txt"
    assert findings == [("device-wrong-name", failed), ("port-down", failed)]
    assert len(found["facts"]) == len(list(shared_captures.glob("*/root.tar.gz")))
    said = "\n".join(found["unread"])
    programs = (
        "ibdev2netdev|ibstat|ibv_devinfo|lspci|mlxcables|mst status|nvbandwidth|nvidia-smi topo|ofed_info|rdma link"
    )
    assert [program for program in programs.split("|") if f"what {program} prints" not in said] == []
    assert "cannot be used" not in said


def test_no_member_of_an_archive_gets_out_of_it(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("../../outside")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    read_directory(str(tmp_path))
    assert [path.name for path in tmp_path.parent.glob("outside")] == []


def test_a_directory_that_is_missing_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DoctorError, match="is not a directory"):
        read_directory(str(tmp_path / "none"))
    with pytest.raises(DoctorError, match="has no files"):
        read_directory(str(tmp_path))
    monkeypatch.setattr(directory, "_MOST_FILES", 1)
    for name in "ab":
        (tmp_path / name).write_text("x")
    with pytest.raises(DoctorError, match="more than 1 files"):
        read_directory(str(tmp_path))


def test_whose_a_log_is_takes_no_longer_with_more_hosts_and_pods() -> None:
    class Hosts(set[str]):
        def __iter__(self) -> t.Iterator[str]:
            raise AssertionError("all of them are gone through")

    pod = {"metadata": {"name": "job-1", "namespace": "ai"}, "spec": {"nodeName": "gpu-7"}}
    pods = {"job": {"metadata": {"name": "job"}}, "job-1": pod}
    hosts = Hosts(["gpu-1", "gpu-11", "gpu"])
    for name, host, of_pod in (
        ("a/gpu-11.log", "gpu-11", None),
        ("gpu-1/gpu.log", "gpu-1", None),
        ("gpu-12.log", "gpu", None),
        ("ai/job-1.log", "gpu-7", "ai/job-1"),
        ("gpus.log", None, None),
    ):
        log = directory._log_of_file(name, "", hosts, pods)
        assert (log["host"], log["pod"]) == (host, of_pod), name


def test_logs_of_one_name_are_told_apart() -> None:
    logs = [samples.a_log(f"Couldn't allocate MR {number}", host=f"gpu-{number}") for number in (1, 2)]
    found = material_of(logs=[*logs, {"name": "x", "text": 5}, 7])
    assert [log["name"] for log in found["logs"]] == ["job", "job (2)"]
    (finding,) = diagnose(found)
    assert finding["hosts"] == ["gpu-1", "gpu-2"]
