# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rollout at a time: a Lease (coordination.k8s.io/v1) that whoever rolls out holds and renews. Private.

One that is no longer renewed, because its holder was killed, expires. All times are those of the API server's clock.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import pwd
import socket
import typing as t
import uuid

from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import patiently
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import MANAGED_BY
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import NAME_LIMIT, ManifestError, is_namespace

__all__ = ["DURATION", "FIRST_PLACE", "LEASE_OPTIONS", "Lease", "expires_in", "moment_of", "new_holder", "under_way"]

Json = t.Dict[str, t.Any]

_LEASE_NAME = "fabric-rdma-rollout"
# Where it is taken when its own namespace is not there yet.
FIRST_PLACE = "default"
# Seconds after which a Lease that nobody renews is free. It is renewed after a third of them, and a request takes less than the rest of the
# time (TIMEOUT and _SOON of client.py).
DURATION = 120
# argument_spec of modules that go on with a Lease that another one has taken
LEASE_OPTIONS: Json = {
    "type": "dict",
    "options": {
        "namespace": {"type": "str", "required": True},
        "holder": {"type": "str", "required": True},
        "duration": {"type": "int", "default": DURATION},
    },
}
# How often it is tried again when somebody writes the Lease at the same time.
_TRIES = 5


def new_holder() -> str:
    """A name for this run that says where it is, and that no other has."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}/{uuid.uuid4().hex[:8]}"


def _stamp(seconds: float) -> str:
    """metav1.MicroTime."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment_of(text: t.Any) -> t.Optional[float]:
    """Seconds of a metav1.Time or MicroTime; None for anything else."""
    try:
        moment = datetime.datetime.strptime(str(text)[:19] + "+0000", "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return None
    return moment.timestamp()


def expires_in(lease: t.Mapping[str, t.Any], now: float) -> float:
    """Seconds until a Lease expires, 0 or less when it is free (client-go: one without holder or renewal is)."""
    spec = lease.get("spec") or {}
    renewed = moment_of(spec.get("renewTime"))
    if not spec.get("holderIdentity") or renewed is None:
        return 0
    return renewed + int(spec.get("leaseDurationSeconds") or 0) - now


def _ago(moment: t.Optional[float], now: float) -> str:
    if moment is None:
        return "at an unknown time"
    seconds = max(0, int(now - moment))
    return f"{seconds} s ago" if seconds < 120 else f"{seconds // 60} min ago"


def under_way(lease: t.Mapping[str, t.Any], now: float) -> str:
    """Who rolls out, since when, and what to do when that is no longer so."""
    spec, metadata = lease.get("spec") or {}, lease["metadata"]
    return (
        f"Another rollout is under way: Lease {metadata['namespace']}/{metadata['name']} is held by "
        f"{' '.join(str(spec.get('holderIdentity')).split())[:200]}, taken "
        f"{_ago(moment_of(spec.get('acquireTime')), now)}, renewed {_ago(moment_of(spec.get('renewTime')), now)}. Wait "
        "until it has ended, then run again. If it no longer runs, its Lease expires in "
        f"{max(1, int(expires_in(lease, now)))} s; kubectl -n {metadata['namespace']} delete lease {metadata['name']} "
        "breaks it at once"
    )


def _holder_of(lease: t.Optional[t.Mapping[str, t.Any]]) -> t.Optional[str]:
    holder = ((lease or {}).get("spec") or {}).get("holderIdentity")
    return None if holder is None else str(holder)


class Lease:
    """The Lease of the rollouts of a namespace, for one holder. Every method raises KubeError.

    ManifestError where no namespace can be called so.
    """

    def __init__(self, kube: Kube, namespace: str, holder: str, duration: int = DURATION) -> None:
        if not is_namespace(namespace):
            raise ManifestError(
                f"No namespace can be called '{namespace}', so no Lease can be in it; expected at most {NAME_LIMIT} small "
                "letters, digits and hyphens"
            )
        self.kube, self.namespace, self.holder, self.duration = kube, namespace, holder, duration
        self._space = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._space}/{_LEASE_NAME}"
        self._shown = f"Lease {namespace}/{_LEASE_NAME}"
        self._renewed = float("-inf")
        # whose it was when it was last read, also where it had expired; not ours where we have asked for it since
        self.seen: t.Optional[str] = None
        self._asked = False

    def _find(self) -> t.Optional[Json]:
        found = self.kube.find(self._path, "read " + self._shown)
        holder = _holder_of(found)
        if holder != self.holder or not self._asked:
            self.seen = holder
        return found

    def other(self) -> t.Optional[str]:
        """Words on somebody else who rolls out; None when nobody does."""
        found = self._find()
        now = self.kube.now()
        if found is None or expires_in(found, now) <= 0 or found["spec"]["holderIdentity"] == self.holder:
            return None
        return under_way(found, now)

    def other_for_a_check(self) -> t.Optional[str]:
        """The same for somebody who only looks, and need not be allowed to see Leases."""
        try:
            return self.other()
        except KubeError as exc:
            if exc.code != 403:
                raise
            return None

    def _write(self, verb: str, found: t.Optional[Json]) -> None:
        now = self.kube.now()
        body, doing = self._body(found, now), f"{verb} {self._shown}"
        self._asked = True
        if found is None:
            self.kube.request("POST", self._space, doing, body=body)
        else:
            # with its resourceVersion: of two that find it free, one gets it
            self.kube.request("PUT", self._path, doing, body=body)
        # others count from what is written on it, however late the answer comes
        self._renewed = now

    def _body(self, found: t.Optional[Json], now: float) -> Json:
        before = (found or {}).get("spec") or {}
        mine = before.get("holderIdentity") == self.holder
        labels = {"app.kubernetes.io/managed-by": MANAGED_BY}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": found["metadata"] if found else {"name": _LEASE_NAME, "labels": labels},
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": self.duration,
                "acquireTime": before.get("acquireTime") if mine else _stamp(now),
                "renewTime": _stamp(now),
                "leaseTransitions": int(before.get("leaseTransitions") or 0) + (found is not None and not mine),
            },
        }

    def take(self) -> bool:
        """Take it, or go on with it. False where its namespace is not there. KubeError while somebody else holds it.

        Who has begun before there was a namespace, and has made it meanwhile, holds the one in FIRST_PLACE.
        """
        other = None
        try:
            # it is read each time: an attempt that nobody answered may have taken it
            taken = patiently(self._take)
            if self.namespace != FIRST_PLACE:
                other = patiently(Lease(self.kube, FIRST_PLACE, self.holder).other_for_a_check)
        except KubeError:
            if self._asked and self.seen != self.holder:
                # nobody would know that it is held, and by whom
                with contextlib.suppress(KubeError):
                    self.release()
            raise
        if taken and other:
            self.release()
            raise KubeError("Nothing was changed. " + other, 409)
        return taken

    def take_there(self) -> None:
        """The same where the namespace was there a moment ago, or is always there. KubeError where it is not."""
        if not self.take():
            raise KubeError(f"{self._shown} cannot be held: its namespace is not there", 404, "Run again.")

    def _take(self) -> bool:
        for left in range(_TRIES, -1, -1):
            found = self._find()
            now = self.kube.now()
            if found is not None and found["spec"].get("holderIdentity") != self.holder and expires_in(found, now) > 0:
                raise KubeError("Nothing was changed. " + under_way(found, now), 409)
            try:
                self._write("take", found)
            except KubeError as exc:
                if exc.code == 404 and found is None:
                    return False
                if exc.code not in (404, 409) or not left:
                    raise
            else:
                return True
        return False

    def renew(self) -> None:
        """Renew it where a third of its time has gone. KubeError when it is no longer ours: somebody has broken it."""
        if self.kube.now() - self._renewed >= self.duration / 3:
            # it is read each time: an attempt that nobody answered may have renewed it
            patiently(self._renew)

    def insist(self) -> None:
        """KubeError when it is no longer ours, as renew(); nothing is written."""
        patiently(self._found_ours)

    def _found_ours(self) -> Json:
        found = self._find()
        if found is None or found["spec"].get("holderIdentity") != self.holder:
            whose = "is gone" if found is None else f"is held by {found['spec'].get('holderIdentity')} now"
            raise KubeError(f"{self._shown} {whose}: this rollout was told to stop", 409, "Run again.")
        return found

    def _renew(self) -> None:
        for left in range(_TRIES, -1, -1):
            found = self._found_ours()
            try:
                self._write("renew", found)
            except KubeError as exc:
                if exc.code not in (404, 409) or not left:
                    raise
            else:
                return

    def release(self, whoever: bool = False, dry_run: bool = False) -> t.Optional[str]:
        """Give it up, if it is still ours, or whoever holds it. Who held it, "" where it named nobody; None when nothing is deleted."""
        wanted, held = None if whoever else self.holder, None

        def give_up() -> t.Optional[str]:
            nonlocal wanted, held
            for left in range(_TRIES, -1, -1):
                before = wanted, held
                found = self._find()
                holder = _holder_of(found) or ""
                if found is None or wanted not in (None, holder):
                    # an attempt that nobody answered may have deleted it, and the next one may hold it by now
                    return held
                wanted = held = holder
                if dry_run or self._removes(found, not left):
                    return held
                wanted, held = before
            return held

        return patiently(give_up)

    def _removes(self, found: Json, last: bool) -> bool:
        """Whether it is gone; not where somebody renewed or took it since it was found, which is an error at the last try."""
        try:
            self.kube.delete({**found, "apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}, dry_run=False)
        except KubeError as exc:
            if exc.code == 404:
                return True
            if exc.code != 409 or last:
                raise
            return False
        return True
