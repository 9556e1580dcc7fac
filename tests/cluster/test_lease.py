# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rollout at a time, on a real API server."""

from __future__ import annotations

import json
import re
import time
import typing as t

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import Lease
from ansible_collections.fabric.rdma.tests.cluster.test_interrupted import module
from ansible_collections.fabric.rdma.tests.cluster.test_ownership import looked, request

if t.TYPE_CHECKING:
    from conftest import Kubelets, Site

pytestmark = pytest.mark.cluster


@pytest.fixture
def space(site: Site) -> Site:
    """A namespace, and no node."""
    site.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    return site


def test_who_holds_it_is_told_and_how_to_break_it(space: Site) -> None:
    one, two = (Lease(space.kube, "rdma", name) for name in ("root@one/1", "root@two/2"))
    assert one.take()
    with pytest.raises(KubeError) as refused:
        two.take()
    assert re.search(
        r"Nothing was changed\. Another rollout is under way: Lease rdma/fabric-rdma-rollout is held by root@one/1, taken \d+ s ago, "
        r"renewed \d+ s ago\. .* expires in \d+ s; kubectl -n rdma delete lease fabric-rdma-rollout breaks it at once",
        str(refused.value),
    )
    assert one.take(), "who holds it goes on with it"
    assert two.release() is None, "only who holds it gives it up"
    assert two.other()
    assert one.other() is None
    assert one.release() == "root@one/1"
    assert two.take()
    assert two.release(whoever=True) == "root@two/2"
    assert Lease(space.kube, "elsewhere", "x").take() is False


def test_it_expires_unless_it_is_renewed(space: Site) -> None:
    one, two = (Lease(space.kube, "rdma", name, duration=int(limit(6))) for name in ("one", "two"))
    one.take()
    end = time.monotonic() + limit(9)
    while time.monotonic() < end:
        one.renew()
        with pytest.raises(KubeError, match="held by one"):
            two.take()
        time.sleep(1)
    # killed
    end = time.monotonic() + limit(60)
    while two.other():
        assert time.monotonic() < end
        time.sleep(0.5)
    assert two.take()
    # not dead, only slow
    with pytest.raises(KubeError, match=r"is held by two now: this rollout was told to stop"):
        one.renew()
    assert one.release() is None
    assert two.release() == "two"


def test_a_rollout_whose_lease_was_broken_stops_before_its_next_change(space: Site) -> None:
    lease = Lease(space.kube, "rdma", "one", duration=3)
    lease.take()
    rollout = looked(space.kube, request("g"))
    done: list[str] = []

    def before_each() -> None:
        if len(done) == 2:
            lease.release(whoever=True)
            time.sleep(1.1)
        lease.renew()
        done.append("")

    with pytest.raises(KubeError) as stopped:
        rollout.perform(before_each)
    assert "Lease rdma/fabric-rdma-rollout is gone: this rollout was told to stop" in str(stopped.value)
    assert "Not done: apply DaemonSet rdma/rdma-shared-dp-g" in str(stopped.value)
    assert sorted(space.objects()) == ["ConfigMap rdma-shared-dp-g"]


def test_two_rollouts_at_the_same_time_end_with_one_of_them(site: Site) -> None:
    """From one plan to two others at once: what comes of it is one of them, all of it."""
    wanted = [request(name) for name in ("old", "left", "right")]
    with module(site.kubeconfig, wanted[0]) as process:
        process.communicate()
    for turn in range(2):
        runs = [module(site.kubeconfig, each) for each in wanted[1:]]
        results = [json.loads(process.communicate()[0]) for process in runs]
        refused = [each["msg"] for each in results if each.get("failed")]
        assert len(refused) < 2, refused
        assert all("Another rollout is under way: Lease rdma/" in text for text in refused)
        (name,) = {each.rpartition("-")[2] for each in site.objects()}
        assert name in ("left", "right")
        assert len(site.objects()) == 2, turn
        # and back
        with module(site.kubeconfig, wanted[0]) as process:
            assert not json.loads(process.communicate()[0]).get("failed")
    assert Lease(site.kube, "rdma", "").release(whoever=True) is None, "all have given it up"


def lease_module(site: Site, **arguments: t.Any) -> dict[str, t.Any]:
    """What rollout_lease says."""
    with module(site.kubeconfig, {"namespace": "rdma", **arguments}, name="rollout_lease") as process:
        return t.cast("dict[str, t.Any]", json.loads(process.communicate()[0]))


def test_what_comes_before_a_rollout_holds_it_too(space: Site) -> None:
    held = lease_module(space, state="held", duration=600)["lease"]
    assert (held["namespace"], held["duration"]) == ("rdma", 600)
    words = f"held by {held['holder']}, taken"
    assert words in lease_module(space, state="held")["msg"]
    with module(space.kubeconfig, request("g")) as process:
        assert words in json.loads(process.communicate()[0])["msg"]
    mine = {**request("g"), "place": "rdma", "lease": held, "hold": True}
    with module(space.kubeconfig, mine) as process:
        done = json.loads(process.communicate()[0])
    assert done["lease"] == {**held, "duration": 120}
    assert "DaemonSet rdma-shared-dp-g" in space.objects()
    assert lease_module(space, state="broken")["holder"] == held["holder"]
    with module(space.kubeconfig, mine) as process:
        told = json.loads(process.communicate()[0])
    assert "Lease rdma/fabric-rdma-rollout is gone: this rollout was told to stop" in told["msg"]


def test_it_is_held_before_there_is_a_place(site: Site) -> None:
    held = lease_module(site, state="held")["lease"]
    assert held["namespace"] == "default"
    # once there is one, it is taken there as well, under the same name
    with module(site.kubeconfig, {**request("g"), "place": "rdma", "lease": held, "hold": True}) as process:
        done = json.loads(process.communicate()[0])
    assert done["lease"] == {**held, "namespace": "rdma"}
    for place in ("rdma", "default"):
        assert lease_module(site, namespace=place, holder=held["holder"])["changed"] is True
        assert lease_module(site, namespace=place, holder=held["holder"])["changed"] is False


def test_who_began_before_there_was_a_place_still_rolls_out(site: Site) -> None:
    """And makes the namespace: whoever comes then would find no Lease there."""
    held = lease_module(site, state="held")["lease"]
    assert held["namespace"] == "default"
    site.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    words = f"Lease default/fabric-rdma-rollout is held by {held['holder']}, taken"
    assert words in lease_module(site, state="held")["msg"]
    with module(site.kubeconfig, request("g")) as process:
        assert words in json.loads(process.communicate()[0])["msg"]
    # nothing of those who were refused is left
    assert Lease(site.kube, "rdma", "").release(whoever=True) is None
    assert lease_module(site, namespace="default", holder=held["holder"])["changed"] is True
    with module(site.kubeconfig, request("g")) as process:
        assert not json.loads(process.communicate()[0]).get("failed")


def test_it_is_held_while_nodes_are_waited_for_and_released_after_a_failure(small: Site, kubelets: Kubelets) -> None:
    small.rollout["timeout"] = int(limit(40))
    kubelets.breaks("v100-2")
    lease = "/apis/coordination.k8s.io/v1/namespaces/rdma/leases/fabric-rdma-rollout"
    with small.start("rollout") as run:
        while len(small.classes()) < 2:
            assert run.poll() is None
            time.sleep(0.2)
        held = small.kube.find(lease, "read")
        assert held is not None
        # the nodes that have a class by then are not business of it
        another = {**request("g"), "remove": list(small.classes())}
        with module(small.kubeconfig, another, check=True) as other:
            told = json.loads(other.communicate()[0])
        words = f"held by {held['spec']['holderIdentity']}, taken"
        assert words in str(told.get("warnings")), told
        with module(small.kubeconfig, another) as other:
            told = json.loads(other.communicate()[0])
        assert words in told["msg"]
        assert run.poll() is None
        assert "does not serve after" in " ".join(run.communicate()[0].split())
    assert small.kube.find(lease, "read") is None
