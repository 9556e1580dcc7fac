# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is removed has gone before whoever could let it go goes, and before it is forgotten. tests/cluster/test_systems.py asks a real API
server for all else."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.systems import SystemRollout
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience
from ansible_collections.fabric.rdma.plugins.modules import system_objects
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.api_server import Server

Json = dict[str, t.Any]
POOLS = "spiderpool.spidernet.io/v2beta1"
POOL = f"/apis/{POOLS}/spiderippools/rail1"
RECORD = "/api/v1/namespaces/kube-system/configmaps/fabric-rdma-network"
FINALIZER = "spiderpool.spidernet.io"


def pool(name: str = "rail1") -> Json:
    return {"apiVersion": POOLS, "kind": "SpiderIPPool", "metadata": {"name": name}}


def driver() -> Json:
    metadata = {"name": "controller", "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}


class Clock:
    """Time that passes while somebody sleeps, and what happens then."""

    def __init__(self, at: float = 0, then: t.Callable[[], t.Any] = lambda: None) -> None:
        self.now, self.at, self.then = 0.0, at, then

    def sleep(self, seconds: float) -> None:
        if self.now < self.at <= self.now + seconds:
            self.then()
        self.now += seconds

    def patience(self, timeout: float = 60) -> Patience:
        return Patience(timeout, 1, lambda: self.now, self.sleep)


def cluster(*objects: Json) -> Server:
    """With a system in it that has these objects."""
    server = Server({"kind": "Namespace", "metadata": {"name": "kube-system"}})
    server.served[f"/apis/{POOLS}"] = {"SpiderIPPool": "spiderippools"}  # type: ignore[index, assignment]
    rollout = looked(server, *objects)
    rollout.perform()
    server.asked.clear()
    return server


def looked(server: Server, *objects: Json) -> SystemRollout:
    rollout = SystemRollout(server, "network", "kube-system")
    rollout.look(list(objects))
    rollout.rehearse()
    return rollout


def held(server: Server, path: str = POOL) -> None:
    """What a controller does to its objects."""
    server.items[path]["metadata"]["finalizers"] = [FINALIZER]


def let_go(server: Server, path: str = POOL) -> t.Callable[[], t.Any]:
    return lambda: server.items.pop(path)


def test_what_goes_at_once_is_not_waited_for() -> None:
    server, clock = cluster(pool(), driver()), Clock()
    looked(server).perform(patience=clock.patience())
    assert (clock.now, server.written) == (
        0,
        [
            "delete SpiderIPPool rail1",
            "delete Deployment kube-system/controller",
            "delete ConfigMap kube-system/fabric-rdma-network",
        ],
    )


def test_whoever_lets_an_object_go_goes_after_it() -> None:
    server = cluster(pool(), driver())
    held(server)
    order: list[tuple[float, str]] = []
    clock = Clock(5, let_go(server))
    removal = looked(server)
    removal.perform(lambda: order.append((clock.now, (server.written or [""])[-1])), clock.patience())
    assert server.written[-2:] == [
        "delete Deployment kube-system/controller",
        "delete ConfigMap kube-system/fabric-rdma-network",
    ]
    # the Lease is renewed while it waits
    assert [moment for moment, last in order if last == "delete SpiderIPPool rail1"] == [0, 0, 1, 2, 3, 4, 5, 5]
    assert RECORD not in server.items


def test_what_stays_is_named_with_what_holds_it_and_is_not_forgotten() -> None:
    server, clock = cluster(pool(), pool("rail2"), driver()), Clock()
    held(server)
    with pytest.raises(KubeError) as caught:
        looked(server).perform(patience=clock.patience(30))
    said = str(caught.value)
    assert "SpiderIPPool rail1 (finalizers: spiderpool.spidernet.io)" in said
    assert "30 s" in said
    assert "rail2 (" not in said
    assert "Done before that: delete SpiderIPPool rail1, delete SpiderIPPool rail2." in said
    assert (
        "Not done: delete ConfigMap kube-system/fabric-rdma-network, delete Deployment kube-system/controller, wait"
        in said
    )
    assert RECORD in server.items
    # the next run goes on
    again = looked(server)
    assert again.actions() == {
        "SpiderIPPool rail1": "removed",
        "Deployment kube-system/controller": "removed",
        "ConfigMap kube-system/fabric-rdma-network": "removed",
    }
    clock = Clock(3, let_go(server))
    again.perform(patience=clock.patience())
    assert not {POOL, RECORD} & set(server.items)
    assert not looked(server).changed


def test_a_part_that_pods_still_use_keeps_nothing_back_while_its_controller_stays() -> None:
    """A network goes once nobody has an address of it; what else there is to roll out does not wait for that."""
    server, clock = cluster(pool(), driver()), Clock()
    held(server)
    removal = looked(server, driver())
    removal.perform(patience=clock.patience(30))
    assert clock.now == 0
    (warning,) = removal.warnings
    assert warning.startswith(
        "deleted, and still there until nobody uses them any more: SpiderIPPool rail1 (finalizers: "
    )
    assert looked(server, driver()).actions()["SpiderIPPool rail1"] == "removed"


def test_what_somebody_makes_in_its_place_is_another_object() -> None:
    server = cluster(pool())
    held(server)

    def replace() -> None:
        server.items.pop(POOL)
        server.put(pool(), "somebody")

    clock = Clock(2, replace)
    looked(server).perform(patience=clock.patience())
    assert POOL in server.items
    assert RECORD not in server.items


def test_an_api_server_that_is_away_does_not_say_that_something_has_gone() -> None:
    server = cluster(pool())
    held(server)
    removal = looked(server)
    clock = Clock(1, lambda: server.refusals.update({POOL: KubeError("cannot read it: no answer", 503)}))
    with pytest.raises(KubeError, match="cannot read it: no answer"):
        removal.perform(patience=clock.patience(30))
    assert RECORD in server.items


def test_the_module_tells_of_what_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is known only once it is deleted."""
    server, warnings = cluster(pool(), driver()), list[str]()
    held(server)
    monkeypatch.setattr(server, "warnings", [], raising=False)
    monkeypatch.setattr(system_objects, "Kube", lambda *_given: server)
    parameters = {
        **dict.fromkeys(("kubeconfig", "context", "only", "hosts", "known", "lease")),
        **{key: [] for key in ("charts", "keep", "opened", "tried")},
        "system": "network",
        "place": "kube-system",
        "inventory": "default",
        "labels": {},
        "timeout": 30,
        **dict.fromkeys(("force", "adopt", "pending", "remember"), False),
        "objects": [driver()],
    }
    module = types.SimpleNamespace(params=parameters, check_mode=False, warn=warnings.append)
    assert system_objects.run(t.cast("t.Any", module))["changed"]
    assert any("still there until nobody uses them any more: SpiderIPPool rail1" in text for text in warnings)
