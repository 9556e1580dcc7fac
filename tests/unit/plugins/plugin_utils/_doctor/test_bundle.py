# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle has all of a diagnosis, and nothing of the site where that is asked for."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.bundle import bundle_files
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import read_directory
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import RULES, document_of
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


def test_a_name_is_the_same_in_all_files() -> None:
    files = bundle_files(samples.running(facts={HOST: samples.facts_of()}), anonymize=True)
    assert all("host-00001" in files[name] for name in ("facts.json", "cluster.json"))
    assert HOST not in "".join(files.values())
