# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few requests that a rollout sends to an API server, each refusal as a sentence with a remedy. Private.

Kubeconfigs, their certificates, tokens and login helpers are read by the Python package kubernetes, as modules of kubernetes.core
do, and requests go through its dynamic client, on which kubernetes.core stands: what is below it (ApiClient.call_api) has had
three signatures. The modules of kubernetes.core themselves cannot do it: they have no strict field validation for server-side
apply, no dry run of many objects before the first change, no resourceVersion for what they apply, and no way to a node's status.
"""

from __future__ import annotations

import builtins
import email.utils
import functools
import importlib
import json
import os
import re
import time
import typing as t
import urllib.parse

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import patiently
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import without_password
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import FIELD_MANAGER, describe, explain

__all__ = ["CONNECTION_OPTIONS", "Kube", "KubeError", "NotServed", "Unreachable", "base_path", "library", "redacted"]

Json = t.Dict[str, t.Any]

# Seconds until a request without an answer is given up.
TIMEOUT = 60
# Versions of the Python package kubernetes that are tested, both ends of the range in requirements.txt: from, and below.
_OLDEST, _BEYOND = (24, 2), (38,)
_PAGE = 500

# argument_spec of every module that speaks to an API server
CONNECTION_OPTIONS: Json = {"kubeconfig": {"type": "path"}, "context": {"type": "str"}}

_INSTALL = (
    "Install the operator that brings it (for mellanox.com: the NVIDIA Network Operator, rdma_rollout.helm: {install: true}), then "
    "run again"
)
_REMEDIES = {
    "NicNodePolicy": _INSTALL
    + "; one that is there may be older than 26.4, which brought this kind, or its definitions were not upgraded with it "
    "(upgradeCRDs of its chart): policy: cluster does without",
}


def _leaves(values: t.Any) -> t.Iterator[str]:
    if isinstance(values, t.Mapping):
        for each in values.values():
            yield from _leaves(each)
    elif isinstance(values, (list, tuple)):
        for each in values:
            yield from _leaves(each)
    elif values is not None and not isinstance(values, bool):
        # programs quote a line, or a text as JSON
        yield from str(values).splitlines()
        yield json.dumps(str(values))[1:-1]


def redacted(text: str, values: t.Any) -> str:
    """A text without what stands in values, in any depth (their keys are not secret), and without passwords of addresses."""
    # the longest first: one may be a part of another. What is as short as a number of replicas would leave nothing readable.
    for secret in sorted({each.strip() for each in _leaves(values)}, key=len, reverse=True):
        if len(secret) > 3:
            text = text.replace(secret, "***")
    return without_password(text)


def base_path(version: str) -> str:
    """Where an API version lies."""
    return ("/apis/" if "/" in version else "/api/") + version


# Statuses of a server that has no time, or is away for a moment. 500 is also what a kubelet costs that is too busy for a TLS handshake.
_PASSING = (429, 500, 502, 503, 504)


# Seconds after which nothing is asked again, however often the API server says when it has time (up to 32 s later): whoever holds a Lease
# has to go on in time.
_SOON = 20


def _later(method: str, code: int, after: t.Any) -> int:
    """KubeError.later of a refusal. after: the header Retry-After.

    With 429 and 503 nothing was done; what timed out (500, 504) may have been.
    """
    known = code in (429, 503) or (method == "GET" and code in _PASSING)
    return int(after) if known and re.fullmatch(r"[0-9]{1,4}", str(after)) else 0


class KubeError(FabricError):
    """A refusal.

    code: the HTTP status, 0 without one. reason: the API server's word for it, such as AlreadyExists. later: seconds after which
    the API server wanted to be asked again, and was, where nothing was done; else 0. passing: whether the same may go well in a moment.
    """

    def __init__(self, message: str, code: int = 0, remedy: str = "", reason: str = "", later: int = 0) -> None:
        super().__init__(message, remedy)
        self.code, self.reason, self.later = code, reason, later
        self.passing = code in _PASSING or isinstance(self, Unreachable)


class Unreachable(KubeError):
    """Nothing answered, or the answer broke off: what was asked may have been done or not."""


class NotServed(Unreachable):
    """A 404 for what the API server serves, which is not its own: of a load balancer, or a moment after a kind was defined."""


def library(name: str) -> t.Any:
    """The package kubernetes or one that comes with it, such as yaml; KubeError where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise KubeError(
            f"the Python package kubernetes is missing for {os.path.realpath('/proc/self/exe')}, which runs this "
            f"module: {exc}",
            remedy="Install it there (requirements.txt)",
        ) from exc


def _client(kubeconfig: t.Optional[str], context: t.Optional[str]) -> tuple[t.Any, str]:
    """(client, where its settings come from)."""
    config = library("kubernetes.config")
    path = kubeconfig or os.environ.get("K8S_AUTH_KUBECONFIG") or os.environ.get("KUBECONFIG") or ""
    chosen = context or os.environ.get("K8S_AUTH_CONTEXT") or None
    wanted = path or os.path.expanduser("~/.kube/config")
    how = "Set rdma_rollout.kubeconfig to a file that is there; or leave it out, and set KUBECONFIG where Ansible is started"
    existing = [part for part in wanted.split(os.pathsep) if os.path.exists(os.path.expanduser(part))]
    if not existing:
        if not path and os.environ.get("KUBERNETES_SERVICE_HOST"):
            try:
                config.load_incluster_config()
            except config.ConfigException as exc:
                raise KubeError(f"in a Pod without a usable ServiceAccount: {exc}", remedy=how) from exc
            return library("kubernetes.client").ApiClient(), "the ServiceAccount of this Pod"
        raise KubeError(f"no kubeconfig: {wanted} does not exist", remedy=how)
    try:
        return config.new_client_from_config(config_file=wanted, context=chosen), wanted
    except config.ConfigException as exc:
        raise KubeError(without_password(f"kubeconfig {wanted}: {exc}. {how}")) from exc
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise KubeError(f"kubeconfig {wanted} cannot be read: {exc}", remedy=how) from exc
    except Exception as exc:
        # the package passes on what its YAML reader raises
        if type(exc).__module__.partition(".")[0] != "yaml":
            raise
        # its own text may quote the file
        mark = getattr(exc, "problem_mark", None)
        problem = getattr(exc, "problem", None) or "it cannot be read"
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise KubeError(f"kubeconfig {wanted} is not YAML{where}: {problem}", remedy=how) from exc


def _version_warning(text: str) -> t.Optional[str]:
    """What to say about a version of the Python package kubernetes that is not tested."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", text)[:2])
    if _OLDEST <= numbers < _BEYOND:
        return None
    oldest, beyond = (".".join(map(str, version)) for version in (_OLDEST, _BEYOND))
    return (
        f"the Python package kubernetes is {text or 'of an unknown version'}; tested are versions from {oldest} to before {beyond} "
        "(requirements.txt)"
    )


def _transport_warning(server: str, verified: bool, source: str) -> t.Optional[str]:
    """What to say about a connection on which others can listen or answer."""
    address = urllib.parse.urlsplit(server)
    if address.scheme == "http" and address.hostname not in ("localhost", "127.0.0.1", "::1"):
        return f"{source} reaches the API server over plain HTTP ({without_password(server)}): credentials and all that is applied can be read and changed"
    if address.scheme != "http" and not verified:
        return (
            f"{source} skips the verification of the API server's certificate (insecure-skip-tls-verify): anybody on "
            f"the way can answer for {without_password(server)}, and read its credentials. Put the certificate of its "
            "authority there instead (certificate-authority-data)"
        )
    return None


class Kube:
    """An API server. Every method raises KubeError. No text that it makes has a password in it."""

    def __init__(self, kubeconfig: t.Optional[str] = None, context: t.Optional[str] = None) -> None:
        client, self.source = _client(kubeconfig, context)
        configuration = client.configuration
        # the package, and urllib3, would ask more often, also a server that is going down
        configuration.retries = False
        configuration.client_go_retries = False
        client.rest_client.pool_manager.connection_pool_kw["retries"] = False
        # what it would look up first, to find its way by names, is looked up here when it is needed
        self._client = library("kubernetes.dynamic").DynamicClient(client, discoverer=lambda *_arguments: None)
        self.server = without_password(str(configuration.host))
        said = (
            _version_warning(str(getattr(library("kubernetes"), "__version__", ""))),
            _transport_warning(str(configuration.host), bool(configuration.verify_ssl), self.source),
        )
        self.warnings = [text for text in said if text]
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}
        self._ahead = 0.0

    def now(self) -> float:
        """The time by the clock of the API server, as of its last answer: those of controllers differ."""
        return time.time() + self._ahead

    def request(
        self,
        method: str,
        path: str,
        doing: str,
        query: t.Sequence[tuple[str, str]] = (),
        body: t.Any = None,
        content: str = "application/json",
        accept: str = "application/json",
    ) -> Json:
        data = self._answer(method, path, doing, query, body, content, accept)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as exc:
            raise Unreachable(f"cannot {doing}: {self.server} answered with something other than JSON") from exc
        if answer is None:
            raise Unreachable(f"cannot {doing}: {self.server} answered with nothing")
        return t.cast(Json, answer)

    def text(self, path: str, doing: str, within: t.Optional[float] = None, node: str = "", /, **query: str) -> str:
        """What is not JSON: the log of a container. Bytes that are not UTF-8 are replaced.

        within: seconds until a request without an answer is given up, TIMEOUT by default. node: whose kubelet gives it, if that is known.
        """
        try:
            # the API server has no such answer for a client that takes JSON alone
            data = self._answer("GET", path, doing, sorted(query.items()), accept="*/*", within=within)
        except Unreachable as exc:
            if within is None or not isinstance(exc.__cause__, library("urllib3.exceptions").ReadTimeoutError):
                raise
            # the API server itself waits longer for a kubelet before it says so
            whose = node or "its node"
            raise Unreachable(
                f"cannot {doing}: no log within {within:g} s, most likely because the kubelet of {whose} does not answer the API server",
                remedy=f"Look at {whose}",
            ) from exc
        return data.decode("utf-8", "replace")

    def _answer(
        self,
        method: str,
        path: str,
        doing: str,
        query: t.Sequence[tuple[str, str]] = (),
        body: t.Any = None,
        content: str = "application/json",
        accept: str = "application/json",
        within: t.Optional[float] = None,
    ) -> bytes:
        """What it answers. Where it says that it has no time now, and will have soon, it is asked again: three times in all.

        within: seconds until a request without an answer is given up.
        """
        begun = time.monotonic()
        asked = functools.partial(self._asked, method, path, doing, query, body, content, accept, within or TIMEOUT)
        soon = min(_SOON, within or _SOON)

        def now(exc: KubeError) -> bool:
            if not 0 < exc.later < soon - (time.monotonic() - begun):
                # who is patient for longer may ask again
                exc.later = 0
            return exc.later > 0

        try:
            return patiently(asked, now)
        except KubeError as exc:
            if exc.code == 404 and exc.reason != "NotFound" and self._serves(path):
                raise NotServed(
                    f"cannot {doing}: {self.server} answered 404 for what the API server serves. Something before it may have answered, "
                    "such as a load balancer: look whether it runs and can be reached; then run again"
                ) from exc
            raise

    def _serves(self, path: str) -> bool:
        """Whether the API server has such a path, by its own lists.

        It says NotFound of an object that it does not have, but answers with a page where it has no such path (k8s.io/apiserver,
        pkg/server/mux), as anything before it does.
        """
        root, _slash, rest = path.strip("/").partition("/")
        parts = rest.split("/") if rest else []
        version = "/".join(parts[: 1 if root == "api" else 2])
        below = parts[1 if root == "api" else 2 :]
        if not version:
            # each has /api and /apis
            return True
        if not below:
            group, _slash, number = version.rpartition("/")
            return number in self.served().get(group, [])
        plural = below[2] if below[0] == "namespaces" and len(below) > 2 else below[0]
        return any(plural == name for name, _namespaced in self._ask_kinds(version).values())

    def _asked(
        self,
        method: str,
        path: str,
        doing: str,
        query: t.Sequence[tuple[str, str]],
        body: t.Any,
        content: str,
        accept: str,
        within: float,
    ) -> bytes:
        exceptions = library("urllib3.exceptions")
        try:
            answer = self._client.request(
                method,
                path,
                body=body,
                query_params=list(query),
                header_params={"Accept": accept},
                content_type=content,
                serialize=False,
                _request_timeout=within,
            )
            said = email.utils.parsedate_tz(answer.headers.get("Date") or "")
            if said:
                self._ahead = email.utils.mktime_tz(said) - time.time()
            return t.cast(bytes, answer.data)
        except exceptions.HTTPError as exc:
            raise self._no_answer(doing, str(getattr(exc, "reason", None) or exc)) from exc
        except library("kubernetes.client.exceptions").ApiException as exc:
            if not exc.status:
                raise self._no_answer(doing, str(exc.reason)) from exc
            text = (
                exc.body.decode("utf-8", "replace")
                if isinstance(exc.body, bytes)
                else str(exc.body or exc.reason or "")
            )
            try:
                status: t.Any = json.loads(text)
            except (ValueError, RecursionError):
                status = text
            words = without_password(explain(int(exc.status), status, doing))
            reason = str(status.get("reason") or "") if isinstance(status, dict) else ""
            later = _later(method, int(exc.status), (exc.headers or {}).get("Retry-After"))
            raise KubeError(words, int(exc.status), reason=reason, later=later) from exc

    def _no_answer(self, doing: str, reason: str) -> Unreachable:
        return Unreachable(
            "cannot {}: no answer from the API server {} ({}). Look whether it runs and can be reached from here, and whether "
            "{} is of this cluster; then run again".format(
                doing, self.server, without_password(" ".join(reason.split()).split(": ", 1)[-1]), self.source
            )
        )

    # what there is

    def find(self, path: str, doing: str) -> t.Optional[Json]:
        """The object at a path, None where the API server says that there is none, or has no such path."""
        found = self._found(path, doing)
        if found is not None:
            self._insist_on("metadata", found, doing, "an object")
        return found

    def _found(self, path: str, doing: str) -> t.Optional[Json]:
        try:
            return self.request("GET", path, doing)
        except KubeError as exc:
            if exc.code == 404:
                return None
            raise

    def list(self, path: str, doing: str, metadata_only: bool = False, **query: str) -> builtins.list[Json]:
        """All items of a list, page by page. metadata_only spares the rest, which for nodes is nearly all."""
        accept = (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1" if metadata_only else "application/json"
        )
        items: list[Json] = []
        token, limit = "", [("limit", str(_PAGE))]
        while True:
            more = [*limit, *sorted(query.items()), *([("continue", token)] if token else [])]
            try:
                page = self.request("GET", path, doing, more, accept=accept)
            except KubeError as exc:
                if exc.code != 410 or not token:
                    raise
                # it took longer than the API server remembers (five minutes): all at once then, as client-go does (tools/pager)
                items, token, limit = [], "", []
                continue
            self._insist_on("items", page, doing)
            items.extend(page.get("items") or [])
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return items

    def _insist_on(self, part: str, answer: t.Any, doing: str, what: str = "a list") -> None:
        # a load balancer may say with a page that it is well
        if not isinstance(answer, dict) or part not in answer:
            raise Unreachable(f"cannot {doing}: {self.server} answered with something other than {what}")

    def _told(self, path: str, part: str, doing: str) -> builtins.list[t.Any]:
        answer = self.request("GET", path, doing)
        self._insist_on(part, answer, doing)
        return answer[part] or []

    def served(self) -> dict[str, builtins.list[str]]:
        """{API group: its versions, the preferred one first}; the core group is ""."""
        found = {"": [str(version) for version in self._told("/api", "versions", "look up versions")]}
        for group in self._told("/apis", "groups", "look up API groups"):
            preferred = (group.get("preferredVersion") or {}).get("version")
            versions = [str(each["version"]) for each in group.get("versions") or []]
            found[str(group["name"])] = sorted(versions, key=lambda version: version != preferred)
        return found

    def kinds(self, version: str) -> dict[str, tuple[str, bool]]:
        """{kind: (what it is called in paths, whether it has a namespace)} of an API version, empty when the cluster has none of it."""
        if version not in self._kinds:
            self._kinds[version] = self._ask_kinds(version)
        return self._kinds[version]

    def _ask_kinds(self, version: str) -> dict[str, tuple[str, bool]]:
        doing = "look up " + version
        found = self._found(base_path(version), doing)
        if found is not None:
            self._insist_on("resources", found, doing)
        return {
            each["kind"]: (each["name"], bool(each["namespaced"]))
            for each in (found or {}).get("resources") or []
            if "/" not in each["name"]
        }

    def forget_kinds(self) -> None:
        """Kinds are looked up again: definitions have come or gone."""
        self._kinds = {}

    def path(self, item: t.Mapping[str, t.Any]) -> str:
        """Where an object lies. The API server says what its kind is called there, and whether it has a namespace."""
        version, kind = str(item["apiVersion"]), str(item["kind"])
        known = self.kinds(version)
        if kind not in known:
            raise KubeError(
                f"the cluster does not know {kind} of {version}: its CustomResourceDefinition is missing, or has "
                "another version",
                remedy=_REMEDIES.get(kind) or _INSTALL,
            )
        plural, namespaced = known[kind]
        metadata = item["metadata"]
        place = f"/namespaces/{metadata['namespace']}" if namespaced else ""
        return f"{base_path(version)}{place}/{plural}/{metadata['name']}"

    # what changes

    def apply(
        self,
        item: t.Mapping[str, t.Any],
        dry_run: bool,
        force: bool = False,
        stand_in: t.Optional[str] = None,
        seen: t.Optional[t.Mapping[str, t.Any]] = None,
    ) -> Json:
        """Server-side apply. An unknown field is an error.

        stand_in: the namespace to try it in while its own is not there. seen: the object as it was looked at; if it is another by now,
        the API server refuses (409).
        """
        query = [
            ("fieldManager", FIELD_MANAGER),
            ("fieldValidation", "Strict"),
            ("force", "true" if force else "false"),
        ]
        if dry_run:
            query.append(("dryRun", "All"))
        shown = describe(item)
        if stand_in is not None:
            item = {**item, "metadata": {**item["metadata"], "namespace": stand_in}}
        if seen is not None:
            precise = {key: seen["metadata"][key] for key in ("uid", "resourceVersion")}
            item = {**item, "metadata": {**item["metadata"], **precise}}
        # JSON is YAML. The charset keeps newer versions of the package from serialising it a second time.
        return self.request(
            "PATCH",
            self.path(item),
            "apply " + shown,
            query,
            json.dumps(item),
            "application/apply-patch+yaml; charset=utf-8",
        )

    def merge(
        self, path: str, doing: str, body: Json, dry_run: bool, seen: t.Optional[t.Mapping[str, t.Any]] = None
    ) -> Json:
        """Merge patch: for what is not ours as a whole, and must not be made when it is not there (nodes). seen: as in apply()."""
        if seen is not None:
            precise = {key: seen["metadata"][key] for key in ("uid", "resourceVersion")}
            body = {**body, "metadata": {**(body.get("metadata") or {}), **precise}}
        query = [
            ("fieldManager", FIELD_MANAGER),
            ("fieldValidation", "Strict"),
            *([("dryRun", "All")] if dry_run else []),
        ]
        return self.request("PATCH", path, doing, query, body, "application/merge-patch+json")

    def delete(self, item: t.Mapping[str, t.Any], dry_run: bool) -> None:
        """Delete exactly the object that was looked at: not one that was made in its place, or changed since (409)."""
        body: Json = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {key: item["metadata"][key] for key in ("uid", "resourceVersion")},
        }
        if dry_run:
            body["dryRun"] = ["All"]
        self.request("DELETE", self.path(item), "delete " + describe(item), body=body)
