# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at a cluster in which not everything may be read: the rest is looked at, and what nobody could list is not missing."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError, Unreachable
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.look import look
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.bundle import bundle_files
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import material_of, read_directory
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import diagnose
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor import samples

Json = dict[str, t.Any]


class Server:
    """Objects by what their path ends with; what may not be read is refused."""

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
        return next((each for each in self._objects if each["kind"] == "ConfigMap"), None)


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
