# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who goes on with a Lease that somebody has broken meanwhile. tests/cluster/test_lease.py asks a real API server for all else."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import DURATION, FIRST_PLACE, Lease
from ansible_collections.fabric.rdma.plugins.modules.rollout_lease import hold

Json = dict[str, t.Any]
NOW = 1_700_000_000.0


class Places:
    """An API server with namespaces, one Lease in each at most."""

    def __init__(self, *namespaces: str) -> None:
        self.leases: dict[str, Json | None] = dict.fromkeys(namespaces)

    def now(self) -> float:
        return NOW

    def find(self, path: str, _doing: str) -> Json | None:
        return self.leases.get(path.split("/")[5])

    def request(self, _method: str, path: str, doing: str, body: Json) -> None:
        place = path.split("/")[5]
        if place not in self.leases:
            raise KubeError(f"cannot {doing}: not found", 404)
        self.leases[place] = {**body, "metadata": {"name": "fabric-rdma-rollout", "namespace": place}}

    def delete(self, item: Json, dry_run: bool) -> None:
        assert not dry_run
        self.leases[item["metadata"]["namespace"]] = None

    def held(self, namespace: str, holder: str = "", check: bool = False, **options: t.Any) -> Json:
        lease = Lease(t.cast("t.Any", self), namespace, holder or "new", DURATION)
        parameters = {"holder": holder or None, "held_in": None, **options}
        return hold(lease, t.cast("t.Any", types.SimpleNamespace(params=parameters, check_mode=check, warn=print)))

    def holders(self) -> dict[str, str]:
        return {place: each["spec"]["holderIdentity"] for place, each in self.leases.items() if each}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("next_one", ["", "other"])
def test_who_was_told_to_stop_does_not_take_it_again(check: bool, next_one: str) -> None:
    server = Places("n", FIRST_PLACE)
    held = server.held("n")["lease"]
    assert server.held("n", held["holder"], check)["changed"] is False
    server.leases["n"] = None
    if next_one:
        Lease(t.cast("t.Any", server), "n", next_one).take()
    with pytest.raises(KubeError, match=r"Lease n/fabric-rdma-rollout is .*: this rollout was told to stop"):
        server.held("n", held["holder"], check)
    assert server.holders() == ({"n": next_one} if next_one else {})


def test_who_began_before_there_was_a_place_takes_it_there_too() -> None:
    server = Places(FIRST_PLACE)
    first = server.held("n")["lease"]
    assert first["namespace"] == FIRST_PLACE
    server.leases["n"] = None
    second = server.held("n", first["holder"], held_in=FIRST_PLACE)
    assert (second["changed"], second["lease"]["namespace"]) == (True, "n")
    assert server.holders() == {FIRST_PLACE: first["holder"], "n": first["holder"]}
    assert server.held("n", first["holder"], held_in=FIRST_PLACE)["changed"] is False


@pytest.mark.parametrize("check", [True, False])
def test_who_was_told_to_stop_before_there_was_a_place_does_not_take_it_there(check: bool) -> None:
    server = Places(FIRST_PLACE)
    first = server.held("n")["lease"]
    server.leases.update({FIRST_PLACE: None, "n": None})
    with pytest.raises(KubeError, match=f"Lease {FIRST_PLACE}/fabric-rdma-rollout is gone"):
        server.held("n", first["holder"], check, held_in=FIRST_PLACE)
    assert server.holders() == {}
