# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster has of a kind, where the API server or something before it does not tell."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base import patience
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError, Unreachable
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.readings import objects_of

Json = dict[str, t.Any]
GROUP = "/apis/longhorn.io/v1beta2"
VOLUMES = f"{GROUP}/volumes"
OURS = f"{GROUP}/namespaces/longhorn-system/volumes"
APIS: Json = {"groups": [{"name": "longhorn.io", "versions": [{"version": "v1beta2"}]}]}
KINDS: Json = {
    "resources": [
        {"name": "volumes", "kind": "Volume", "namespaced": True},
        {"name": "volumes/status", "kind": "Volume", "namespaced": True},
    ]
}
VOLUME: Json = {"metadata": {"name": "pvc-1"}}
# that of a load balancer; the API server's own has a reason
NOT_FOUND = KubeError("not found", 404)
ITS_OWN = KubeError("not found", 404, reason="NotFound")


class Scripted(Kube):
    """Answers and refusals by path, one after the other; the last one stays."""

    def __init__(self, **answers: list[Json | KubeError]) -> None:
        self.server = "https://api.example"
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}
        named = {
            "apis": "/apis",
            "core": "/api",
            "group": GROUP,
            "volumes": VOLUMES,
            "ours": OURS,
            "one": f"{OURS}/pvc-1",
        }
        default: dict[str, list[Json | KubeError]] = {"core": [{"versions": ["v1"]}], "apis": [APIS], "group": [KINDS]}
        self.answers = {named[name]: answer for name, answer in {**default, **answers}.items()}
        self.queries: list[Json] = []

    def _asked(self, _method: str, path: str, _doing: str, query: t.Any, *_more: t.Any) -> bytes:
        self.queries.append(dict(query))
        answers = self.answers[path]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, KubeError):
            raise answer
        return json.dumps(answer).encode()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr(patience.time, "sleep", waited.append)
    return waited


def read(kube: Kube, **how: t.Any) -> list[Json] | None:
    return objects_of(kube, "longhorn.io/v1beta2", "Volume", **how)


def test_objects_say_what_they_are_as_in_a_list_they_do_not() -> None:
    kube = Scripted(volumes=[{"items": [VOLUME]}])
    assert read(kube, labels="a=b", fields="c=d") == [{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", **VOLUME}]
    assert (kube.queries[-1]["labelSelector"], kube.queries[-1]["fieldSelector"]) == ("a=b", "c=d")


@pytest.mark.parametrize("busy", [KubeError("busy", 503), KubeError("busy", 429, later=1), Unreachable("gone")])
@pytest.mark.parametrize("where", ["group", "ours"])
def test_a_busy_server_is_asked_three_times(where: str, busy: KubeError, pauses: list[float]) -> None:
    answers: dict[str, list[Json | KubeError]] = {"group": [KINDS], "ours": [{"items": [VOLUME]}]}
    answers[where] = [busy, busy, *answers[where]]
    found = read(Scripted(**answers), namespace="longhorn-system")
    assert [item["metadata"] for item in found or ()] == [VOLUME["metadata"]]
    assert len(pauses) == 2
    answers[where] = [busy]
    with pytest.raises(KubeError, match=str(busy)):
        read(Scripted(**answers), namespace="longhorn-system")


def test_a_list_that_got_too_old_is_begun_again() -> None:
    first = {"items": [VOLUME], "metadata": {"continue": "more"}}
    kube = Scripted(volumes=[first, KubeError("too old", 410), first, {"items": [VOLUME]}])
    assert len(read(kube) or ()) == 2


def test_a_kind_is_missing_where_two_answers_agree() -> None:
    assert read(Scripted(apis=[{"groups": []}], group=[NOT_FOUND])) is None
    assert read(Scripted(group=[{"resources": [{"name": "nodes", "kind": "Node", "namespaced": True}]}])) is None
    with pytest.raises(Unreachable, match="answered 404 for what the API server serves"):
        read(Scripted(group=[NOT_FOUND]))
    with pytest.raises(KubeError, match="busy"):
        read(Scripted(group=[NOT_FOUND], apis=[KubeError("busy", 503)]))
    # one that told them the next time
    assert read(Scripted(group=[NOT_FOUND, KINDS], volumes=[{"items": []}])) == []


@pytest.mark.parametrize("refusal", [NOT_FOUND, ITS_OWN, KubeError("what?", 400), KubeError("no right", 403)])
def test_a_list_that_is_refused_is_not_an_empty_one(refusal: KubeError) -> None:
    with pytest.raises(KubeError) as refused:
        read(Scripted(volumes=[refusal]))
    assert refusal in (refused.value, refused.value.__cause__)


@pytest.mark.parametrize("answer", [{"status": "UP"}, {}])
def test_what_is_no_list_is_not_an_empty_one(answer: Json) -> None:
    """Such as the page of a load balancer that says it is well."""
    with pytest.raises(Unreachable, match="something other than a list"):
        read(Scripted(volumes=[answer]))


@pytest.mark.parametrize("how", [{"name": ""}, {"name": ".."}, {"name": "pvc-1", "namespace": "."}])
def test_a_name_that_is_none_is_refused(how: Json) -> None:
    """In a path, it would be the list or what is above it."""
    kube = Scripted()
    with pytest.raises(KubeError, match="expected the name"):
        read(kube, **how)
    assert kube.queries == []


def test_an_object_is_missing_where_the_api_server_says_so_itself() -> None:
    how = {"name": "pvc-1", "namespace": "longhorn-system"}
    assert read(Scripted(one=[VOLUME]), **how) == [{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", **VOLUME}]
    assert read(Scripted(one=[ITS_OWN]), **how) == []
    with pytest.raises(Unreachable, match="answered 404 for what the API server serves"):
        read(Scripted(one=[NOT_FOUND]), **how)
