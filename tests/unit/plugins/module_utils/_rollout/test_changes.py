# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout decides about each object: whose it is, what becomes of it, what is said when the server refuses, and what somebody else did."""

from __future__ import annotations

import contextlib
import json
import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.changes import (
    Changes,
    Step,
    opened_by_systems,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError, Unreachable
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    INVENTORY_LABEL,
    MANAGED_BY,
    SYSTEM_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import FIELD_MANAGER
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.api_server import Server

Json = dict[str, t.Any]
A = "/api/v1/namespaces/rdma/configmaps/a"


def config(name: str, text: str = "new", inventory: str | None = "default", **metadata: t.Any) -> Json:
    labels = {"app.kubernetes.io/managed-by": MANAGED_BY, **({INVENTORY_LABEL: inventory} if inventory else {})}
    whole = {"name": name, "namespace": "rdma", "labels": labels, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": whole, "data": {"key": text}}


def namespace(name: str = "rdma") -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


class Simple(Changes):
    """Objects that are to be there, and those that are to go, as subclasses of Changes put them together."""

    def look(self, wanted: t.Sequence[Json], gone: t.Sequence[str] = ()) -> Simple:
        self._objects = list(wanted)
        self._before = [self.kube.find(self.kube.path(item), "look") for item in wanted]
        for path in gone:
            found = self.kube.find(path, "look")
            assert found is not None
            self._gone.append({**found, "apiVersion": "v1", "kind": "ConfigMap"})
        self._look_for_strangers()
        return self

    def rehearse(self) -> Simple:
        self._rehearse(self._removal_steps(self._gone, True))
        return self

    def perform(self, already: t.Sequence[str] = ()) -> None:
        self._perform([*self._apply_steps(), *self._removal_steps(self._gone, False)], lambda: None, already)

    def steps(self, *steps: Step, already: t.Sequence[str] = ()) -> None:
        self._perform(steps, lambda: None, already)


def cluster(*ours: Json, theirs: t.Sequence[Json] = ()) -> Server:
    server = Server(namespace(), *theirs)
    for item in ours:
        server.put(item, FIELD_MANAGER)
    return server


# --- what becomes of an object ---------------------------------------------------------------------------------------


def test_each_object_is_made_changed_left_or_removed() -> None:
    server = cluster(config("same"), config("other", "old"), config("gone"))
    wanted = [config("same"), config("other"), config("made"), namespace()]
    changes = Simple(server).look(wanted, ["/api/v1/namespaces/rdma/configmaps/gone"]).rehearse()
    assert changes.actions() == {
        "ConfigMap rdma/same": "unchanged",
        "ConfigMap rdma/other": "changed",
        "ConfigMap rdma/made": "created",
        # others have made it, and it gets our field manager
        "Namespace rdma": "changed",
        "ConfigMap rdma/gone": "removed",
    }
    shown = {each["before_header"]: (each["before"], each["after"]) for each in changes.diff()}
    assert set(shown) == {what for what, done in changes.actions().items() if done != "unchanged"}
    assert [shown["ConfigMap rdma/other"][side]["data"] for side in (0, 1)] == [{"key": "old"}, {"key": "new"}]
    assert shown["ConfigMap rdma/made"][0] == shown["ConfigMap rdma/gone"][1] == {}
    assert server.written == []
    changes.perform()
    assert server.written == [
        "apply ConfigMap rdma/other",
        "apply ConfigMap rdma/made",
        "apply Namespace rdma",
        "delete ConfigMap rdma/gone",
    ]
    again = Simple(server).look(wanted).rehearse()
    assert (again.changed, again.diff()) == (False, [])


NAMES = ("a", "b", "c", "d")
CONTENTS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["x", "y"]))


@given(before=CONTENTS, wanted=CONTENTS)
def test_afterwards_there_is_what_was_asked_for_and_a_second_run_changes_nothing(
    before: dict[str, str], wanted: dict[str, str]
) -> None:
    server = cluster(*(config(name, text) for name, text in before.items()))
    objects = [config(name, text) for name, text in wanted.items()]
    gone = [f"/api/v1/namespaces/rdma/configmaps/{name}" for name in before if name not in wanted]
    changes = Simple(server).look(objects, gone).rehearse()
    kept = {name for name in wanted if before.get(name) == wanted[name]}
    assert changes.changed == (before != wanted) == bool(changes.diff())
    changes.perform()
    assert len(server.written) == len({*before, *wanted} - kept)
    found = {item["metadata"]["name"]: item["data"]["key"] for item in server.items.values() if "data" in item}
    assert found == wanted
    assert not Simple(server).look(objects).rehearse().changed


# --- whose an object is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "manager", "words"),
    [
        (config("a"), "kubectl", "ConfigMap rdma/a (made by kubectl)"),
        (config("a", inventory="west"), FIELD_MANAGER, "ConfigMap rdma/a (of inventory 'west')"),
        (
            config("a", labels={"app.kubernetes.io/managed-by": "Helm"}),
            FIELD_MANAGER,
            "ConfigMap rdma/a (without our label app.kubernetes.io/managed-by)",
        ),
    ],
    ids=["another manager", "another inventory", "without our label"],
)
def test_what_is_not_ours_is_left_alone_unless_somebody_says_so(item: Json, manager: str, words: str) -> None:
    server = Server(namespace())
    server.put(item, manager)
    with pytest.raises(KubeError) as caught:
        Simple(server).look([config("a")])
    assert str(caught.value).startswith(
        "Nothing was changed. 1 objects of our names are there already that are not of "
    )
    assert words in str(caught.value)
    assert server.written == []
    changes = Simple(server, adopt=True).look([config("a"), config("b")]).rehearse()
    assert changes.warnings == [f"inventory 'default' takes over {words}"]
    assert changes.actions() == {"ConfigMap rdma/a": "taken over", "ConfigMap rdma/b": "created"}


def test_a_namespace_is_everybodys() -> None:
    changes = Simple(Server(namespace())).look([namespace()])
    assert changes.warnings == []


# --- the rehearsal ---------------------------------------------------------------------------------------------------


def test_what_comes_into_a_namespace_that_is_not_there_yet_is_tried_elsewhere() -> None:
    server = Server(namespace("default"))
    changes = Simple(server).look([namespace(), config("a")]).rehearse()
    (_ours, (_what, made)) = ((each["before_header"], each["after"]) for each in changes.diff())
    assert made["metadata"]["namespace"] == "rdma"
    assert server.written == []
    assert set(server.items) == {"/api/v1/namespaces/default"}
    assert changes.make_namespace("other") == []
    assert changes.make_namespace("rdma") == ["apply Namespace rdma"]
    changes.perform()
    assert A in server.items


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        ({"a": "no a"}, "Nothing was changed. no a"),
        ({"a": "no a", "c": "no c"}, "Nothing was changed. no a | no c"),
        ({"a": "no", "b": "no", "c": "no"}, "Nothing was changed. no"),
        (
            {name: f"no {name}" for name in "abcde"},
            "Nothing was changed. no a | no b | no c (and 2 more refusals)",
        ),
    ],
)
def test_all_refusals_are_told_together_before_anything_is_changed(refused: dict[str, str], words: str) -> None:
    server = cluster()
    changes = Simple(server).look([config(name) for name in "abcde"])
    for name, said in refused.items():
        server.refusals[f"/api/v1/namespaces/rdma/configmaps/{name}"] = KubeError(said, 403)
    with pytest.raises(KubeError) as caught:
        changes.rehearse()
    assert str(caught.value) == words
    assert server.written == []


def test_a_server_that_is_gone_ends_the_rehearsal() -> None:
    server = cluster()
    changes = Simple(server).look([config("a"), config("b")])
    server.refusals[A] = Unreachable("no answer")
    with pytest.raises(Unreachable, match=r"^no answer$"):
        changes.rehearse()
    assert server.asked == []


# --- one precise change after the other ------------------------------------------------------------------------------


def changing(server: Server) -> Simple:
    return Simple(server).look([config("a")]).rehearse()


def test_a_status_that_a_controller_writes_meanwhile_is_no_change() -> None:
    server = cluster(config("a", "old"))
    changes = changing(server)
    server.before_change = lambda: server.report(A, seen=True)
    changes.perform()
    assert server.items[A]["data"] == {"key": "new"}


def test_what_somebody_changes_meanwhile_stays() -> None:
    server = cluster(config("a", "old"))
    changes = changing(server)
    server.before_change = lambda: server.put(config("a", "mine"), "kubectl")  # type: ignore[assignment, return-value]
    with pytest.raises(KubeError, match=r"ConfigMap rdma/a was changed by kubectl since it was looked at") as caught:
        changes.perform()
    assert str(caught.value).endswith("Nothing was changed.")
    assert server.items[A]["data"] == {"key": "mine"}


def test_what_somebody_deletes_meanwhile_does_not_come_again() -> None:
    server = cluster(config("a", "old"))
    changes = changing(server)
    server.before_change = lambda: server.items.pop(A)  # type: ignore[assignment, return-value]
    with pytest.raises(KubeError, match=r"ConfigMap rdma/a was deleted by somebody since it was looked at"):
        changes.perform()
    assert A not in server.items


def test_what_somebody_makes_at_the_same_time_is_told() -> None:
    server = cluster()
    changes = changing(server)
    server.before_change = lambda: server.put(config("a", "mine"), "helm")  # type: ignore[assignment, return-value]
    with pytest.raises(
        KubeError, match=r"ConfigMap rdma/a was made by helm at the same time, and has fields of both now"
    ):
        changes.perform()


def test_a_controller_that_never_stops_is_given_up() -> None:
    server = cluster(config("a", "old"))
    changes = changing(server)
    tries: list[int] = []

    def report() -> None:
        tries.append(1)
        server.report(A, count=len(tries))
        server.before_change = report

    server.before_change = report
    with pytest.raises(KubeError, match="it is another by now"):
        changes.perform()
    assert len(tries) == 6
    assert server.items[A]["data"] == {"key": "old"}


def test_what_is_to_go_and_is_gone_already_is_fine() -> None:
    server = cluster(config("a"))
    changes = Simple(server).look([], [A]).rehearse()
    server.before_change = lambda: server.items.pop(A)  # type: ignore[assignment, return-value]
    changes.perform()
    assert changes.actions() == {"ConfigMap rdma/a": "removed"}


def test_what_is_to_go_and_was_made_again_stays() -> None:
    server = cluster(config("a"))
    changes = Simple(server).look([], [A]).rehearse()

    def again() -> None:
        del server.items[A]
        server.put(config("a", "mine"))

    server.before_change = again
    with pytest.raises(KubeError, match=r"ConfigMap rdma/a was changed by kubectl since it was looked at"):
        changes.perform()
    assert server.items[A]["data"] == {"key": "mine"}


def test_what_is_to_go_and_is_being_deleted_is_fine() -> None:
    """Its finalizers hold it, and what they write is a change of it."""
    server = cluster(config("a"))
    changes = Simple(server).look([], [A]).rehearse()
    going = config("a", "held", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])
    server.before_change = lambda: server.put(going, "controller")  # type: ignore[assignment, return-value]
    changes.perform()


# --- what was done when a step fails ---------------------------------------------------------------------------------

GONE = Unreachable("cannot do it: no answer.")
REFUSED = KubeError("cannot do it: forbidden.", 403)
LATE = KubeError("cannot do it: timed out.", 504)
STUCK = KubeError("cannot do it: etcdserver: request timed out.", 500)
BUSY = KubeError("cannot do it: busy.", 503)
# it is asked before anything is written
UNASKED = KubeError("cannot do it: failed calling webhook.", 500)
AGAIN = "Run again: what is done is not done twice."


@pytest.mark.parametrize(
    ("error", "at", "already", "words"),
    [
        (REFUSED, 0, [], "cannot do it: forbidden. Nothing was changed."),
        (
            REFUSED,
            0,
            ["apply Namespace rdma"],
            f"cannot do it: forbidden. Done before that: apply Namespace rdma. Not done: step 0, step 1, step 2. {AGAIN}",
        ),
        (REFUSED, 1, [], f"cannot do it: forbidden. Done before that: step 0. Not done: step 1, step 2. {AGAIN}"),
        (REFUSED, 2, [], f"cannot do it: forbidden. Done before that: step 0, step 1. Not done: step 2. {AGAIN}"),
        # what was asked may have been done
        (
            GONE,
            0,
            [],
            f"cannot do it: no answer. Done before that: nothing. Not known: step 0. Not done: step 1, step 2. {AGAIN}",
        ),
        (GONE, 2, [], f"cannot do it: no answer. Done before that: step 0, step 1. Not known: step 2. {AGAIN}"),
        # by etcd, after the API server has given up
        (
            LATE,
            0,
            [],
            f"cannot do it: timed out. Done before that: nothing. Not known: step 0. Not done: step 1, step 2. {AGAIN}",
        ),
        (
            LATE,
            1,
            [],
            f"cannot do it: timed out. Done before that: step 0. Not known: step 1. Not done: step 2. {AGAIN}",
        ),
        (
            STUCK,
            1,
            [],
            f"cannot do it: etcdserver: request timed out. Done before that: step 0. Not known: step 1. Not done: step 2. {AGAIN}",
        ),
        (BUSY, 0, [], "cannot do it: busy. Nothing was changed."),
        (UNASKED, 0, [], "cannot do it: failed calling webhook. Nothing was changed."),
    ],
)
def test_an_error_says_what_was_done_and_what_was_not(
    error: KubeError, at: int, already: list[str], words: str
) -> None:
    done: list[int] = []

    def step(number: int) -> t.Callable[[], None]:
        def act() -> None:
            if number == at:
                raise error
            done.append(number)

        return act

    with pytest.raises(KubeError) as caught:
        Simple(Server()).steps(*((f"step {number}", step(number)) for number in range(3)), already=already)
    assert str(caught.value) == words
    assert caught.value.code == error.code
    assert done == list(range(at))


def test_what_is_not_asked_for_since_the_lease_is_not_there_is_not_done() -> None:
    def lost() -> None:
        raise GONE

    with pytest.raises(KubeError, match=r"^cannot do it: no answer\. Nothing was changed\.$"):
        Changes(Server())._perform([("step", lambda: None)], lost, ())


# --- small ones ------------------------------------------------------------------------------------------------------


class Nodes(Server):
    """Merge patches of nodes, which fail for one that is not there: with 404, or with 409 where another of its name is."""

    def merge(self, path: str, doing: str, body: Json, dry_run: bool, seen: t.Any = None) -> Json:
        now = (self.items.get(path) or {}).get("metadata")
        if now is None:
            raise KubeError(f"cannot {doing}: not found", 404)
        if now["uid"] != seen["metadata"]["uid"]:
            raise KubeError(f"cannot {doing}: it is another by now", 409)
        now["labels"].update(body["metadata"]["labels"])
        return self.items[path]


@pytest.mark.parametrize(
    ("value", "again", "error"),
    [(None, False, None), ("b", False, "not found"), (None, True, "was changed by kubectl")],
    ids=["loses", "gets", "is made again"],
)
def test_a_node_that_has_left_the_cluster_has_no_label_to_lose(
    value: str | None, again: bool, error: str | None
) -> None:
    """An autoscaler takes it while a rollout goes from node to node."""
    node = [{"kind": "Node", "metadata": {"name": name, "labels": {"l": "a"}}} for name in ("n1", "n2")]
    server = Nodes()
    changes = Changes(server)
    changes._nodes = {each["metadata"]["name"]: server.put(each) for each in node}
    steps = changes._label_steps([("n1", {"l": value}), ("n2", {"l": value})], dry_run=False)
    del server.items["/api/v1/nodes/n1"]
    if again:
        server.put(node[0])
    with pytest.raises(KubeError, match=error) if error else contextlib.nullcontext():
        changes._perform(steps, lambda: None, ())
    assert server.items["/api/v1/nodes/n2"]["metadata"]["labels"]["l"] == ("a" if error else None)


def record(name: str, namespaces: t.Any, **labels: str) -> Json:
    data = {"namespaces": namespaces if isinstance(namespaces, str) else json.dumps(namespaces)}
    ours = {"app.kubernetes.io/managed-by": MANAGED_BY, SYSTEM_LABEL: "dra"}
    metadata = {"name": name, "namespace": "kube-system", "labels": {**ours, **labels}}
    return {"kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([], set()),
        ([record("fabric-rdma-dra", ["dranet"])], {"dranet"}),
        (
            [record("fabric-rdma-dra", ["dranet"]), record("fabric-rdma-west-vgpu", ["dranet", "vgpu"])],
            {"dranet", "vgpu"},
        ),
        # the one that asks
        ([record("fabric-rdma-mine", ["mine"]), record("fabric-rdma-dra", ["dranet"])], {"dranet"}),
        # no record of ours
        ([record("mine", ["mine"])], set()),
        ([record("fabric-rdma-dra", ["dranet"], **{"app.kubernetes.io/managed-by": "Helm"})], set()),
        # spoilt ones
        ([record("fabric-rdma-dra", "{"), record("fabric-rdma-vgpu", ["vgpu"])], {"vgpu"}),
        ([record("fabric-rdma-dra", "3")], set()),
        ([record("fabric-rdma-dra", "[" * 100000)], set()),
        ([{**record("fabric-rdma-dra", []), "data": None}], set()),
    ],
)
def test_namespaces_that_systems_need_are_those_of_their_records(records: list[Json], found: set[str]) -> None:
    assert opened_by_systems(Server(*records), but="fabric-rdma-mine") == found


def test_who_may_not_see_records_shares_no_namespace_with_them() -> None:
    server = Server(record("fabric-rdma-dra", ["dranet"]))
    place = "/api/v1/namespaces/kube-system/configmaps"
    server.refusals[place] = KubeError("configmaps is forbidden", 403)
    assert opened_by_systems(server) == set()
    server.refusals[place] = KubeError("the server is ill", 500)
    with pytest.raises(KubeError, match="ill"):
        opened_by_systems(server)
