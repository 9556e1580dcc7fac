# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle has all of a diagnosis, and nothing of the site where that is asked for."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.bundle import bundle_files
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import read_directory
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import RULES, document_of
from ansible_collections.fabric.rdma.tests.unit.contracts import load
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor import samples
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor.samples import HOST, material


def written(directory: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(directory)


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_a_bundle_gives_the_same_findings(rule: str, tmp_path: Path) -> None:
    for number, given in enumerate(samples.samples()[rule]):
        directory = written(tmp_path / str(number), bundle_files(given))
        assert document_of(read_directory(directory)) == document_of(given)


def heads(document: t.Any) -> list[t.Any]:
    return [(each["id"], each["severity"], each["group"], len(each["hosts"])) for each in document["findings"]]


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_an_anonymous_bundle_gives_the_same_findings_of_other_hosts(rule: str, tmp_path: Path) -> None:
    for number, given in enumerate(samples.samples()[rule]):
        directory = written(tmp_path / str(number), bundle_files(given, anonymize=True))
        assert heads(document_of(read_directory(directory))) == heads(document_of(given))


def test_an_anonymous_bundle_names_nobody() -> None:
    hosts = ["node7.hpc.site.example", "node8.hpc.site.example"]
    text = "\n".join(
        [
            "node7 kernel: 10.20.30.40 and 2001:db8:5::77, fe80::1ff:fe00:1 at 02:42:ac:11:00:02",
            "login7.hpc.site.example said: mail jane.doe@site.example, /home/jane/train.py",
            "GUID 0xb8599f0300d46dfe mlx5_0:b859:9f03:00d4:6dfe iqn.2016-04.com.open-iscsi:4f1c5a7d90e2",
            "Couldn't allocate MR on mlx5_0, PCI 0000:3b:00.0, version 5.6-1.0.3.3 at 12:34:56",
        ]
    )
    facts = dict.fromkeys(hosts, samples.facts_of())
    given = material(
        facts=facts,
        plan=samples.planned(*hosts),
        logs=[{"name": "node7_dmesg", "source": "file", "host": hosts[0], "pod": None, "text": text}],
    )
    files = bundle_files(given, anonymize=True)
    everything = "\n".join([*files, *files.values()])
    secret = [
        "node7",
        "node8",
        "login7",
        "site",
        "10.20.30.40",
        "2001:db8:5",
        "1ff:fe00",
        "02:42:ac",
        "jane",
        "4f1c5a",
        "b859:9f03",
    ]
    guids = {device["node_guid"] for device in samples.facts_of()["devices"]}
    ipv4 = {
        row["ipv4"]
        for each in samples.facts_of()["devices"]
        for port in each["ports"]
        for row in port["gids"]
        if row["ipv4"]
    }
    found = [word for word in [*secret, *guids, *ipv4] if word and word in everything and not word.startswith("0200:")]
    assert found == []
    # what a diagnosis is about is still there
    assert all(
        word in everything for word in ("mlx5_0", "0000:3b:00.0", "5.6-1.0.3.3", "12:34:56", "host-00001.example.com")
    )
    assert len(set(re.findall(r"host-\d+", everything))) == 2


def test_an_anonymous_bundle_names_no_server_and_no_cable() -> None:
    facts = samples.facts_of()
    mount = {"target": "/data", "source": "nas7.storage.example:/export", "via": "nfs-rdma"}
    facts["management"] = {**(facts.get("management") or {}), "mounts_over_rdma": [mount]}
    cable = {"vendor": "Mellanox", "part": "MCP1600", "serial": 'MT"2012VS', "length_m": 2.0}
    facts["health"] = {"netdevs": [{"name": "ib0", "cable": cable}]}
    log = samples.a_log("nfs: server nas7 not responding")
    files = bundle_files(material(facts={HOST: facts}, logs=[log]), anonymize=True)
    everything = "".join(files.values())
    assert [word for word in ("nas7", "storage.example", "2012VS") if word in everything] == []
    assert all(word in everything for word in ("MCP1600", '"serial": "serial1"', ":/export"))


@pytest.mark.parametrize("server", ["storage", "nfs", "devices"])
def test_a_server_that_is_called_like_a_part_of_the_facts_does_not_rename_that(server: str, tmp_path: Path) -> None:
    facts = samples.facts_of()
    sources = (f"{server}:/export", f"{server}.site.example:/export")
    mounts = [{"target": f"/{source}", "source": source, "via": "nfs-rdma"} for source in sources]
    facts["management"] = {**facts["management"], "mounts_over_rdma": mounts}
    files = bundle_files(material(facts={HOST: facts}, logs=[samples.a_log(f"mount {server}:/export {server}")]), True)
    assert "site" not in "".join(files.values())
    (kept,) = load(Path(written(tmp_path, files)) / "facts.json").values()
    alias, own = (mount["source"].partition(":")[0] for mount in kept["management"]["mounts_over_rdma"])
    assert re.fullmatch(r"host-\d+", alias)
    assert own == f"{alias}.example.com"
    assert files["logs/0001-job.log"] == f"mount {alias}:/export {server}\n"


def keys_of(document: t.Any) -> list[str]:
    """Of all that is in it, in the order of what it says."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    below = [key for _name, value in items for key in keys_of(value)]
    return [*(document if isinstance(document, dict) else ()), *below]


@pytest.mark.parametrize("host", ["master", "controller", "node", "gpus", "master.site.example"])
def test_a_host_that_is_called_like_a_part_of_the_facts_does_not_rename_that(host: str, tmp_path: Path) -> None:
    """As the only one of a small control plane is called. It has its stand-in where it is the host."""
    facts = samples.facts_of()
    owner = {"kind": "DaemonSet", "name": "d", "controller": True}
    node = {"metadata": {"name": host, "ownerReferences": [owner]}, "status": {"master": 1}}
    files = bundle_files(material(facts={host: facts}, cluster={**material()["cluster"], "nodes": {host: node}}), True)
    alias = "host-00001" + (".example.com" if "." in host else "")
    told = load(Path(written(tmp_path, files)) / "facts.json")
    assert list(told) == list(json.loads(files["cluster.json"])["nodes"]) == [alias]
    assert sorted(keys_of(told[alias])) == sorted(keys_of(facts))
    kept = json.loads(files["cluster.json"])["nodes"][alias]
    assert (kept["metadata"]["name"], sorted(keys_of(kept))) == (alias, sorted(keys_of(node)))


def test_an_anonymous_bundle_does_not_name_hosts_as_they_call_themselves() -> None:
    """Their inventory has other names, or the same without a domain."""
    texts = {
        "gpu-1": "2026-11-30T19:10:45+0000 gpu-1.hpc.site.example kernel: gpu-2.hpc.site.example:2049, nas7.hpc.site.example\n",
        "gpu-2": "2026-11-30T19:10:45.123+00:00 dgx17 containerd[12]: listens\nNov 30 19:10:45 dgx17 kernel: dgx17 is up\n",
        "gpu-3": "2026-11-30T19:10:45+0000 titan kubelet[7]: gpu-3.rack.site.example, gpu-3.log, version 5.6.1\n",
        "gpu-4": "2026-11-30T19:10:45+0000 localhost systemd[1]: 10.\n2026-11-30T19:10:46+0000 10.20.30.40 systemd[1]: b\n",
    }
    logs = [
        {"name": f"{host} journal", "source": "journal", "host": host, "pod": None, "text": text}
        for host, text in texts.items()
    ]
    # what looks alike is not a name in what a Pod has written
    pod = {"name": "default/train-0 main", "source": "pod", "host": "gpu-1", "pod": "default/train-0"}
    logs.append({**pod, "text": "2026-11-30T19:10:45Z INFO mlx5_0: bad\n2026-11-30T19:10:45Z mlx5_1 mpi[3]: Init\n"})
    nodes = {"gpu-4": {"metadata": {"name": "gpu-4", "labels": {"kubernetes.io/hostname": "ip-10-9-8-7"}}}}
    facts = dict.fromkeys([*texts, "odd.1"], samples.facts_of())
    files = bundle_files(material(facts=facts, logs=logs, cluster={**material()["cluster"], "nodes": nodes}), True)
    everything = "\n".join([*files, *files.values()])
    assert [
        word for word in (*texts, "site", "dgx17", "titan", "nas7", "20.30", "10-9-8-7") if word in everything
    ] == []
    own = {name: text for name, text in files.items() if name.startswith("logs/")}
    first, second, third, fourth, fifth = (own[name] for name in sorted(own))
    assert first.startswith(
        "2026-11-30T19:10:45+0000 host-00001.example.com kernel: host-00002.example.com:2049, name-"
    )
    assert second.count("host-00002 ") == 3
    assert third.endswith(" kubelet[7]: host-00003.example.com, host-00003.log, version 5.6.1\n")
    assert " localhost systemd[1]: 10.\n" in fourth
    assert "INFO mlx5_0: bad" in fifth
    assert "host-00004" in files["cluster.json"]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        # perftest, of RoCE and of InfiniBand
        (" GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:20:30:40", "10:20:30:40"),
        (" GID: 254:128:00:00:00:00:00:00:184:89:159:03:00:212:109:254", "184:89:159"),
        ("route to 2001:db8:5:6:7:8:9:77 dev eth0", "5:6:7:8:9:77"),
        ("GID FE80:0000:0000:0000:B859:9F03:00D4:6DFE", "B859:9F03"),
        ("node GUID 0xB8599F0300D46DFE", "D46DFE"),
        ("node GUID b8:59:9f:03:00:d4:6d:fe", "9f:03:00"),
        ("range 10.20.30.40-10.20.30.90", "20.30"),
        ("2: enxb8599fd46dfe.7@enxb8599fd46dfe: <UP>", "d46dfe"),
        ("rdma link: rocexb8599f0300d46dfe/1 state ACTIVE", "d46dfe"),
        ("lower_enxb8599fd46dfe", "d46dfe"),
        ("IP 10.20.30.40:4791, (10.20.30.41) <10.20.30.42>", "20.30"),
    ],
)
def test_addresses_are_replaced_in_each_form_that_programs_print(text: str, secret: str) -> None:
    log = {"name": "job", "source": "file", "host": None, "pod": None, "text": text}
    files = bundle_files(material(logs=[log]), anonymize=True)
    (found,) = [each for name, each in files.items() if name.startswith("logs/")]
    assert secret not in found
    assert found != text


def test_an_address_is_the_same_in_each_form() -> None:
    """So that a rule still sees that two are alike."""
    log = samples.a_log("10.20.30.40 and 00:00:00:00:00:00:00:00:00:00:255:255:10:20:30:40", "10.20.30.40-10.20.30.41")
    files = bundle_files(material(logs=[log]), anonymize=True)
    (found,) = [each for name, each in files.items() if name.startswith("logs/")]
    (first, decimal, *_more) = re.findall(r"\d+(?:\.\d+){3}|\d+(?::\d+){15}", found)
    assert [int(part) for part in decimal.split(":")[-4:]] == [int(part) for part in first.split(".")]
    assert f"{first}-198.18." in found


def test_a_name_that_udev_made_has_the_stand_in_of_its_address() -> None:
    log = samples.a_log("enxb8599fd46dfe b8:59:9f:d4:6d:fe rocexb8599f0300d46dfe b859:9f03:00d4:6dfe enxlarge")
    files = bundle_files(material(logs=[log]), anonymize=True)
    (found,) = [each for name, each in files.items() if name.startswith("logs/")]
    netdev, mac, device, guid, other = found.split()
    assert (netdev, device) == ("enx" + mac.replace(":", ""), "rocex" + guid.replace(":", ""))
    assert other == "enxlarge"


def test_a_name_is_the_same_in_all_files() -> None:
    files = bundle_files(samples.running(facts={HOST: samples.facts_of()}), anonymize=True)
    assert all("host-00001" in files[name] for name in ("facts.json", "cluster.json"))
    assert HOST not in "".join(files.values())
