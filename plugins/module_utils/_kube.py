# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few requests that a rollout sends to an API server, each refusal as a sentence with a remedy. Private.

Kubeconfigs, their certificates, tokens and login helpers are read by the Python package kubernetes, as modules of kubernetes.core
do. The requests are its plain ones: kubernetes.core has no strict field validation for server-side apply, and cannot reach the
status of a node.
"""

from __future__ import annotations

import importlib
import json
import os
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout import FIELD_MANAGER, describe, explain

__all__ = ["CONNECTION_OPTIONS", "Kube", "KubeError", "Unreachable"]

Json = t.Dict[str, t.Any]

# Seconds until a request without an answer is given up.
TIMEOUT = 60
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


def _base(version: str) -> str:
    return ("/apis/" if "/" in version else "/api/") + version


class KubeError(Exception):
    """A refusal, with its remedy; the text is for the user."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class Unreachable(KubeError):
    """Nothing answered, or the answer broke off: what was asked may have been done or not."""


def _library(name: str) -> t.Any:
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise KubeError(
            "the Python package kubernetes is missing for %s, which runs this module: %s. Install it there (requirements.txt)"
            % (os.path.realpath("/proc/self/exe"), exc)
        ) from exc


def _client(kubeconfig: t.Optional[str], context: t.Optional[str]) -> t.Tuple[t.Any, str]:
    """(client, where its settings come from)."""
    config = _library("kubernetes.config")
    path = kubeconfig or os.environ.get("K8S_AUTH_KUBECONFIG") or os.environ.get("KUBECONFIG") or ""
    chosen = context or os.environ.get("K8S_AUTH_CONTEXT") or None
    wanted = path or os.path.expanduser("~/.kube/config")
    how = "Set rdma_rollout.kubeconfig to a file that is there, or KUBECONFIG where Ansible is started"
    existing = [part for part in wanted.split(os.pathsep) if os.path.exists(os.path.expanduser(part))]
    if not existing:
        if not path and os.environ.get("KUBERNETES_SERVICE_HOST"):
            try:
                config.load_incluster_config()
            except config.ConfigException as exc:
                raise KubeError("in a Pod without a usable ServiceAccount: %s. %s" % (exc, how)) from exc
            return _library("kubernetes.client").ApiClient(), "the ServiceAccount of this Pod"
        raise KubeError("no kubeconfig: %s does not exist. %s" % (wanted, how))
    try:
        return config.new_client_from_config(config_file=wanted, context=chosen), wanted
    except config.ConfigException as exc:
        raise KubeError("kubeconfig %s: %s. %s" % (wanted, exc, how)) from exc
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise KubeError("kubeconfig %s cannot be read: %s. %s" % (wanted, exc, how)) from exc
    except Exception as exc:
        # the package passes on what its YAML reader raises
        if type(exc).__module__.partition(".")[0] != "yaml":
            raise
        raise KubeError("kubeconfig %s is no YAML: %s. %s" % (wanted, " ".join(str(exc).split()), how)) from exc


class Kube:
    """An API server. Every method raises KubeError."""

    def __init__(self, kubeconfig: t.Optional[str] = None, context: t.Optional[str] = None) -> None:
        self._client, self.source = _client(kubeconfig, context)
        # urllib3 would ask three times more, silently, and hide a server that is going down
        self._client.rest_client.pool_manager.connection_pool_kw["retries"] = False
        self.server = str(self._client.configuration.host)
        self._kinds: t.Dict[str, t.Dict[str, t.Tuple[str, bool]]] = {}

    def request(
        self,
        method: str,
        path: str,
        doing: str,
        query: t.Sequence[t.Tuple[str, str]] = (),
        body: t.Any = None,
        content: str = "application/json",
        accept: str = "application/json",
    ) -> Json:
        exceptions = _library("urllib3.exceptions")
        try:
            answer = self._client.call_api(
                path,
                method,
                query_params=list(query),
                header_params={"Accept": accept, "Content-Type": content},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=TIMEOUT,
            )
            return t.cast(Json, json.loads(answer.data))
        except exceptions.HTTPError as exc:
            reason = str(getattr(exc, "reason", None) or exc)
            raise Unreachable(
                "cannot %s: no answer from the API server %s (%s). Look whether it runs and can be reached from here, and whether "
                "%s is of this cluster; then run again" % (doing, self.server, reason.split(": ", 1)[-1], self.source)
            ) from exc
        except _library("kubernetes.client.exceptions").ApiException as exc:
            text = (
                exc.body.decode("utf-8", "replace")
                if isinstance(exc.body, bytes)
                else str(exc.body or exc.reason or "")
            )
            try:
                status: t.Any = json.loads(text)
            except ValueError:
                status = text
            raise KubeError(explain(int(exc.status or 0), status, doing), int(exc.status or 0)) from exc
        except ValueError as exc:
            raise Unreachable("cannot %s: %s answered with something else than JSON" % (doing, self.server)) from exc

    # what there is

    def find(self, path: str, doing: str) -> t.Optional[Json]:
        """The object at a path, None when there is none."""
        try:
            return self.request("GET", path, doing)
        except KubeError as exc:
            if exc.code == 404:
                return None
            raise

    def list(self, path: str, doing: str, metadata_only: bool = False, **query: str) -> t.List[Json]:
        """All items of a list, page by page. metadata_only spares the rest, which for nodes is nearly all."""
        accept = (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1" if metadata_only else "application/json"
        )
        items: t.List[Json] = []
        token = ""
        while True:
            more = [("limit", str(_PAGE)), *sorted(query.items()), *([("continue", token)] if token else [])]
            page = self.request("GET", path, doing, more, accept=accept)
            items.extend(page.get("items") or [])
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return items

    def kinds(self, version: str) -> t.Dict[str, t.Tuple[str, bool]]:
        """{kind: (what it is called in paths, whether it has a namespace)} of an API version, empty when the cluster has none of it."""
        if version not in self._kinds:
            found = self.find(_base(version), "look up " + version) or {}
            self._kinds[version] = {
                each["kind"]: (each["name"], bool(each["namespaced"]))
                for each in found.get("resources") or []
                if "/" not in each["name"]
            }
        return self._kinds[version]

    def path(self, item: t.Mapping[str, t.Any]) -> str:
        """Where an object lies. The API server says how its kind is called there, and whether it has a namespace."""
        version, kind = str(item["apiVersion"]), str(item["kind"])
        known = self.kinds(version)
        if kind not in known:
            raise KubeError(
                "the cluster does not know %s of %s: its CustomResourceDefinition is missing, or has another version. %s"
                % (kind, version, _REMEDIES.get(kind) or _INSTALL)
            )
        plural, namespaced = known[kind]
        metadata = item["metadata"]
        place = "/namespaces/%s" % metadata["namespace"] if namespaced else ""
        return "%s%s/%s/%s" % (_base(version), place, plural, metadata["name"])

    # what changes

    def apply(
        self, item: t.Mapping[str, t.Any], dry_run: bool, force: bool = False, stand_in: t.Optional[str] = None
    ) -> Json:
        """Server-side apply. An unknown field is an error. stand_in: the namespace to try it in while its own is not there."""
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
        # JSON is YAML. The charset keeps newer versions of the package from serialising it a second time.
        return self.request(
            "PATCH",
            self.path(item),
            "apply " + shown,
            query,
            json.dumps(item),
            "application/apply-patch+yaml; charset=utf-8",
        )

    def merge(self, path: str, doing: str, body: Json, dry_run: bool) -> Json:
        """Merge patch: for what is not ours as a whole, and must not be made when it is not there (nodes)."""
        query = [
            ("fieldManager", FIELD_MANAGER),
            ("fieldValidation", "Strict"),
            *([("dryRun", "All")] if dry_run else []),
        ]
        return self.request("PATCH", path, doing, query, body, "application/merge-patch+json")

    def delete(self, item: t.Mapping[str, t.Any], dry_run: bool) -> None:
        """Delete exactly the object that was looked at: not one that was made in its place since."""
        body: Json = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {"uid": item["metadata"]["uid"]},
        }
        if dry_run:
            body["dryRun"] = ["All"]
        self.request("DELETE", self.path(item), "delete " + describe(item), body=body)
