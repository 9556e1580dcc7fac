# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `verify` and `doctor` find between and in Pods: all pairs, a link that is slow, a node whose Pods may lock only 64 KiB."""

from __future__ import annotations

import itertools
import typing as t
from pathlib import Path

import pytest
from pods import CABLED, NAMES, POD_IMAGE, PODS, RESOURCE, Site

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import TRAFFIC_LABEL
from ansible_collections.fabric.rdma.tests.unit.contracts import load

USER = 1000
SICK = NAMES[-1]
DELAY = "150ms"
SPEC = "$(find /etc/containerd -name 'fabric-rdma-base.json')"
SMALL = 65536
LOSS = "5%"
# an emulated node is 22 ms away from another one, and differs from itself by a third
PATIENT = {"software_outlier_share": 0.5}


def measured(site: Site, fails: bool = False, **wishes: t.Any) -> tuple[dict[str, t.Any], str]:
    """The evidence of a run between Pods, and what the run printed. No Pod is left."""
    given = {"verify_level": "pods", "verify_pod_image": POD_IMAGE, "verify_topology": "full", **wishes}
    output = site.run("verify", fails=fails, **given)
    assert site.kube.list(PODS, "list", labelSelector=TRAFFIC_LABEL) == []
    return dict(load(site.output / "evidence" / "a100.json")), output


def test_every_two_nodes_measure_once_in_rounds(site: Site) -> None:
    evidence, output = measured(site, verify_tests=["ib_write_bw", "ib_read_lat"])
    pairs = {
        test: [
            frozenset(entry[side]["host"] for side in ("client", "server"))
            for entry in evidence["tests"]
            if entry["test"] == test
        ]
        for test in ("ib_write_bw", "ib_read_lat")
    }
    for test, found in pairs.items():
        print(f"{test}: {[entry['message'] for entry in evidence['tests'] if entry['test'] == test]}")
        assert sorted(map(sorted, found)) == sorted(map(list, itertools.combinations(NAMES, 2)))
    assert {entry["verdict"] for entry in evidence["tests"]} == {"pass"}
    # the progress that is shown meanwhile: a round is a perfect matching, or has one node that pauses
    rounds = len(NAMES) - 1 + len(NAMES) % 2
    for number in range(1, rounds + 1):
        assert f"round {number} of {rounds}, " in output


def below(site: Site) -> str:
    """The netdev below the card of the last node."""
    return site.on(SICK, f"cat /sys/class/infiniband/{CABLED[SICK]}/ports/1/gid_attrs/ndevs/1").strip()


@pytest.fixture
def slow_link(site: Site) -> t.Iterator[str]:
    """What the last node sends is kept for a while."""
    netdev = below(site)
    site.on(SICK, f"tc qdisc add dev {netdev} root netem delay {DELAY} limit 10000")
    yield netdev
    site.on(SICK, f"tc qdisc del dev {netdev} root")


@pytest.fixture
def lossy_link(site: Site) -> t.Iterator[str]:
    """Some of what the last node sends never arrives."""
    netdev = below(site)
    site.on(SICK, f"tc qdisc add dev {netdev} root netem loss {LOSS} limit 10000")
    yield netdev
    site.on(SICK, f"tc qdisc del dev {netdev} root")


def grown(evidence: dict[str, t.Any]) -> dict[str, set[str]]:
    """Counters for which links fail, by host."""
    found: dict[str, set[str]] = {}
    for link in evidence["links"]:
        if link["verdict"] == "fail":
            found.setdefault(link["host"], set()).update(
                row["counter"] for row in link["grown"] if row["verdict"] == "fail"
            )
    return found


def far_of(evidence: dict[str, t.Any], level: str) -> dict[str, t.Any]:
    """The one outlier of a level, which is the port of the last node."""
    (far,) = [each for each in evidence["outliers"] if each["level"] == level]
    print(far["message"])
    assert (far["kind"], far["unit"]) == ("port", "us")
    assert far["ends"] == [{"host": SICK, "device": CABLED[SICK], "port": 1}]
    assert far["figure"] > 2 * far["median"]
    return dict(far)


def test_a_slow_link_is_named_among_pairs_that_pass(site: Site, slow_link: str) -> None:
    """Its port is bad with all that it met, though every pair is within its bound, which says nothing in software.

    It is later than the queue pairs wait for an answer: those who met it have sent again, and say so.
    """
    evidence, output = measured(site, fails=True, verify_tests=["ib_write_lat"], verify_settings=PATIENT)
    print(f"{slow_link} of {SICK}: {[(entry['latency_us'] or {}).get('typical') for entry in evidence['tests']]}")
    assert {entry["verdict"] for entry in evidence["tests"]} == {"pass"}
    far_of(evidence, "pods")
    assert "FAR FROM THE OTHERS" in output
    assert set().union(*grown(evidence).values()) == {"completer_retry_err"}


def test_packets_that_are_lost_are_seen_in_the_counters_of_the_links(site: Site, lossy_link: str) -> None:
    """By writes in turns: each that is lost is sent again. Of a stream, Soft-RoCE counts one for all that was under way."""
    evidence, output = measured(site, fails=True, verify_tests=["ib_write_lat"], verify_settings=PATIENT)
    counters = grown(evidence)
    print(f"{lossy_link} of {SICK} loses {LOSS}: {counters}")
    assert SICK in counters
    assert set().union(*counters.values()) <= {
        "completer_retry_err",
        "out_of_seq_request",
        "rcvd_seq_err",
        "retry_exceeded_err",
    }
    counter = min(counters[SICK])
    assert f"{SICK} {CABLED[SICK]} port 1: " in output
    assert f"{counter} grew by " in output
    assert " per second): " in output


@pytest.fixture
def small_limit(site: Site) -> t.Iterator[None]:
    """Containers of the last node start with 64 KiB, as they do where nobody has lifted the limit and the daemon's is low."""
    change = (
        "import json, sys; path, limit = sys.argv[1], int(sys.argv[2]); spec = json.load(open(path)); "
        "rows = [row for row in spec['process']['rlimits'] if row['type'] == 'RLIMIT_MEMLOCK']; "
        "[row.update(soft=limit, hard=limit) for row in rows]; open(path, 'w').write(json.dumps(spec)); print(len(rows))"
    )
    before = site.on(SICK, f"cp {SPEC} /run/base.json && echo kept")
    assert before.strip() == "kept"
    assert site.on(SICK, f'python3 -c "{change}" {SPEC} {SMALL} && systemctl restart containerd').strip() == "1"
    yield
    site.on(SICK, f"cp /run/base.json {SPEC} && systemctl restart containerd && rm /run/base.json")


def test_a_node_whose_pods_may_lock_64_kib_is_diagnosed(site: Site, small_limit: None) -> None:
    """With the remedy, for both users; the others are well, and what it cannot measure is an error with the cause."""
    evidence, output = measured(site, fails=True, verify_tests=["ib_write_bw"])
    looks = {(look["host"], look["user"]): look for look in evidence["inspections"]}
    for (host, user), look in looks.items():
        print(f"{host} as {user}: {look['message']}")
        if host != SICK:
            assert look["verdict"] == "pass"
            continue
        assert look["verdict"] == "fail"
        assert look["memlock"] == {"soft": str(SMALL // 1024), "hard": str(SMALL // 1024)}
        assert look["message"] == f"a Pod on {SICK} may lock only so much memory: soft 64 KiB and hard 64 KiB"
        assert "containerd_memlock" in look["remedy"]
    assert {user for host, user in looks if host == SICK} == {USER, 0}
    for entry in evidence["tests"]:
        hosts = {entry[side]["host"] for side in ("client", "server")}
        assert (entry["verdict"] == "pass") is (SICK not in hosts)
        if SICK in hosts:
            assert "may lock only so much memory" in entry["message"]
            assert "containerd_memlock" in entry["remedy"]
    assert "containerd_memlock" in output


# Both ends in one Pod: the server asks for memory when its client is there.
ALONE = (
    "ib_write_bw {0} & for n in 1 2 3 4 5 6; do sleep 5; said=$(ib_write_bw {0} 127.0.0.1 2>&1); "
    'case "$said" in *"Couldn\'t connect to"*) ;; *) break ;; esac; done; echo "$said"; kill $! 2> /dev/null; echo ended'
)


def test_the_doctor_says_why_jobs_fail(site: Site, small_limit: None) -> None:
    """By facts, objects and the logs of Pods that did fail: for locked memory, no device, a device of another name."""
    jobs = {
        "locks": (SICK, ALONE.format(f"-F -x 1 -s 1048576 -n 20 -d {CABLED[SICK]}"), RESOURCE),
        "asks-for-none": (NAMES[0], f"ib_write_bw -F -d {CABLED[NAMES[0]]}; echo ended", None),
        "wrong-name": (NAMES[1], "ib_write_bw -F -d mlx5_9; echo ended", RESOURCE),
    }
    for name, (node, script, resource) in jobs.items():
        print(f"{name} on {node}: {site.pod(name, node, script, USER, resource).result()}")
    site.run("doctor", doctor_pods=[f"default/{name}" for name in jobs])
    document = load(site.output / "doctor.json")
    print(
        "\n".join(f"{each['severity']} {each['id']} {each['hosts']}: {each['cause']}" for each in document["findings"])
    )
    found = {each["id"]: each for each in document["findings"]}
    hosts = {
        "memlock-64-kib": [SICK],
        "mr-ordinary-user": [SICK],
        "pod-without-ipc-lock": [SICK],
        "device-not-asked-for": [NAMES[0]],
        "device-wrong-name": [NAMES[1]],
    }
    assert {rule: found[rule]["hosts"] for rule in hosts} == hosts
    assert found["memlock-64-kib"]["severity"] == "error"
    assert any("allocate MR" in line for line in found["memlock-64-kib"]["evidence"])
    assert "rdma_memlock" in found["memlock-64-kib"]["remedy"]
    assert CABLED[NAMES[1]] in found["device-wrong-name"]["remedy"]


def diagnosed(site: Site) -> dict[str, dict[str, t.Any]]:
    """What the doctor finds on the nodes and in the cluster as they are, by its rule."""
    site.run("doctor")
    found = load(site.output / "doctor.json")["findings"]
    print("\n".join(f"{each['severity']} {each['id']} {each['hosts']}: {each['cause']}" for each in found))
    return {each["id"]: dict(each) for each in found}


@pytest.fixture
def without_umad(site: Site) -> t.Iterator[None]:
    """The last node without the module that makes the umad devices, and with them again as they were."""
    before, offered = site.files_of(SICK, CABLED[SICK]), site.allocatable(SICK)
    assert any(file.startswith("umad") for file in before)
    site.on(SICK, "modprobe -r ib_umad")
    yield
    site.on(SICK, "modprobe ib_umad")
    assert site.files_of(SICK, CABLED[SICK]) == before
    # it looks at them every minute, and may have found that they are gone
    site.take_plugin(SICK)
    site.wait("it is offered again", lambda: site.allocatable(SICK) == offered, seconds=300)


def test_the_doctor_names_a_module_that_is_not_loaded(site: Site, without_umad: None) -> None:
    """By the facts of the node as it is now, whatever its plugin has found before."""
    found = diagnosed(site)["character-device-missing"]
    assert SICK in found["hosts"]
    assert any(f"{CABLED[SICK]}: umad device missing: load ib_umad" in line for line in found["evidence"])
    assert "modprobe" in found["remedy"]


@pytest.fixture
def deaf_plugin(site: Site) -> t.Iterator[None]:
    """The device plugin of the last node does not hear that its kubelet starts again, and then does."""
    offered = site.allocatable(SICK)
    site.on(SICK, "pkill -STOP -f '[k]8s-rdma-shared-dp'")
    try:
        site.on(SICK, "systemctl restart kubelet")
        site.wait("nothing is offered", lambda: site.allocatable(SICK) == 0)
        yield
    finally:
        site.on(SICK, "pkill -CONT -f '[k]8s-rdma-shared-dp'")
    site.wait("it is offered again", lambda: site.allocatable(SICK) == offered, seconds=300)


def test_the_doctor_knows_a_kubelet_that_was_restarted(site: Site, deaf_plugin: None) -> None:
    """By the event that the kubelet has written itself: its plugin runs since before."""
    found = diagnosed(site)["kubelet-restarted"]
    assert found["hosts"] == [SICK]
    assert any(f"the kubelet of {SICK} started at " in line for line in found["evidence"])
    assert any(f"node {SICK}: {RESOURCE} is 0 in allocatable" in line for line in found["evidence"])
    assert "rollout restart daemonset rdma-shared-dp-" in found["remedy"]


def test_the_doctor_explains_what_a_node_printed_without_any_cluster(site: Site, tmp_path: Path) -> None:
    """A directory with the output of perftest on a port without a cable."""
    (out,) = {"mlx5_0", "mlx5_1"} - {CABLED[NAMES[0]]}
    said = site.on(NAMES[0], f"ib_write_bw -F -d {out} 2>&1 || true")
    print(said)
    (tmp_path / "said.log").write_text(said)
    site.run("doctor", doctor_directory=str(tmp_path))
    (finding,) = load(site.output / "doctor.json")["findings"]
    assert finding["id"] == "port-down"
    assert "state is Down" in finding["evidence"][0]


def test_one_report_shows_all_that_is_wrong(site: Site, slow_link: str, small_limit: None) -> None:
    """A slow link, a node whose Pods may lock 64 KiB, and a cable that is out on each node: what there is to do comes first."""
    evidence, _output = measured(
        site, fails=True, verify_level="both", verify_tests=["ib_write_lat"], verify_settings=PATIENT
    )
    far_of(evidence, "hosts")
    site.run("report")
    report = load(site.output / "report.json")
    found = {each["id"]: each for each in report["findings"]}
    print("\n".join(f"{each['severity']} {each['id']}: {each['cause']}" for each in report["findings"]))
    assert found["verify-inspections"]["hosts"] == [SICK]
    assert "containerd_memlock" in found["verify-inspections"]["remedy"]
    assert found["outlier-port"]["hosts"] == [SICK]
    # several, where different counters have grown
    assert SICK in {host for each in report["findings"] if each["id"] == "verify-links" for host in each["hosts"]}
    nodes = report["groups"]["a100"]["nodes"]
    for node in NAMES:
        out = [port["device"] for port in nodes[node]["ports"] if port["state"] == "Down"]
        assert out == [name for name in ("mlx5_0", "mlx5_1") if name != CABLED[node]]
    page = (site.output / "report.html").read_text()
    for text in (found["verify-inspections"]["cause"], found["outlier-port"]["cause"], "Down"):
        assert text in page
