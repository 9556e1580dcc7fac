# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at a cluster in which not everything may be read: the rest is looked at, and what nobody could list is not missing."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError, Unreachable
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.look import look, read_logs
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.bundle import bundle_files
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import material_of, read_directory
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import diagnose
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor import samples

Json = dict[str, t.Any]


class Server:
    """Objects by what their path ends with; what may not be read is refused. closed: a namespace of which nothing may be read."""

    closed = "kube-system"

    def __init__(self, forbidden: str, *objects: Json) -> None:
        self._forbidden = forbidden
        self._objects = objects

    def list(self, path: str, doing: str, metadata_only: bool = False, **query: str) -> list[Json]:
        plural = path.rpartition("/")[2]
        if plural == self._forbidden:
            raise KubeError(f"may not {doing}", 403)
        if plural.startswith("nic"):
            raise KubeError(f"cannot {doing}", 404)
        return [each for each in self._objects if f"{each['kind'].lower()}s" == plural]

    def find(self, path: str, doing: str) -> Json | None:
        *_ahead, space, plural, name = path.split("/")
        if space == self.closed:
            raise KubeError(f"may not {doing}", 403)
        return next(
            (
                each
                for each in self._objects
                if (each["metadata"].get("namespace"), f"{each['kind'].lower()}s", each["metadata"]["name"])
                == (space, plural, name)
            ),
            None,
        )


def ids(material: t.Any) -> list[str]:
    return [each["id"] for each in diagnose(material)]


@pytest.mark.parametrize(
    ("forbidden", "found"),
    [("", ["plugin-not-on-node"]), ("pods", []), ("events", ["plugin-not-on-node"])],
    ids=["nothing", "pods", "events"],
)
def test_what_may_not_be_listed_is_not_missing(forbidden: str, found: list[str], tmp_path: Path) -> None:
    """Nor is it in a bundle of the same."""
    objects = (samples.a_node(), samples.a_daemon_set(), samples.a_config_map())
    cluster, unread = look(t.cast("t.Any", Server(forbidden, *objects)), [], [])
    assert bool(unread) is bool(forbidden)
    material = material_of(cluster=cluster, unread=unread)
    assert ids(material) == found
    for name, text in bundle_files(material).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert ids(read_directory(str(tmp_path))) == found


def test_who_may_not_list_all_pods_asks_about_their_own(tmp_path: Path) -> None:
    """By name, in namespaces whose Pods they may read. Of one that they may not read, nobody says that there is none.

    Nor that the device plugin is not on a node, since one of its Pods was asked about, or Pods of two namespaces were.
    """
    failed = samples.a_job(status=samples.unschedulable("0/1 nodes are available: 1 Insufficient rdma/r."))
    other = {**samples.a_job("other"), "metadata": {"name": "other", "namespace": "default"}}
    objects = (samples.a_node(), samples.a_daemon_set(), samples.a_config_map(), failed, other)
    asked = ["rdma/train", "default/other", "rdma/none", "kube-system/other"]
    cluster, unread = look(t.cast("t.Any", Server("pods", *objects)), [], asked)
    assert sorted(pod["metadata"]["name"] for pod in cluster["pods"]) == ["other", "train"]
    assert unread == ["may not list Pods", "may not read Pod kube-system/other", "there is no Pod rdma/none"]
    material = material_of(cluster=cluster, unread=unread)
    assert "plugin-not-on-node" not in ids(material)
    for name, text in bundle_files(material).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert ids(read_directory(str(tmp_path))) == ids(material)


def test_of_policies_that_may_not_be_listed_nobody_says_that_there_are_none() -> None:
    init = {"initContainerStatuses": [{"name": "mofed-validation", "ready": False, "state": {"running": {}}}]}
    objects = (samples.a_node(), samples.a_daemon_set(), samples.a_config_map(), samples.a_pod(status=init))
    for forbidden, said in (("", True), ("nicclusterpolicies", False)):
        cluster, _unread = look(t.cast("t.Any", Server(forbidden, *objects)), [], [])
        (finding,) = diagnose(material_of(cluster=cluster))
        assert finding["id"] == "mofed-wait"
        assert ("no policy of the operator has a driver" in finding["cause"]) is said


def test_a_server_that_is_gone_is_an_error_of_its_own() -> None:
    class Gone(Server):
        def list(self, path: str, doing: str, metadata_only: bool = False, **query: str) -> list[Json]:
            raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        look(t.cast("t.Any", Gone("")), [], [])


def test_a_log_that_nobody_gives_is_told_and_not_waited_for_long() -> None:
    """A doctor that looks at a rack without power must not take an hour."""

    class Silent(Server):
        waits: t.ClassVar[list[float]] = []

        def text(self, path: str, doing: str, within: float | None = None, node: str = "", /, **query: str) -> str:
            assert (query["container"], node) == ("c", samples.HOST)
            self.waits.append(within or 60)
            if "/ds-1/" in path:
                raise Unreachable(f"cannot {doing}: no answer")
            return "well"

    server: t.Any = Silent("", samples.a_node(), samples.a_daemon_set(), samples.a_pod("ds-1"), samples.a_pod("ds-2"))
    cluster, _unread = look(server, [], [])
    logs, unread = read_logs(server, cluster, ["rdma/ds-1", "rdma/ds-2"], 0, 10, 1000)
    assert [log["text"] for log in logs] == ["well"]
    assert len(unread) == 1
    assert server.waits == [10, 10]
