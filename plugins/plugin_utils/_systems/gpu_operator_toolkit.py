# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA's container toolkit is told of containerd, by distribution and by what was discovered. Private. Pure.

Follows the GPU Operator's controllers/object_controls.go (getRuntimeConfigFiles(), transformRuntimeConfigAndSocketMounts()) and
nvidia-ctk-installer. From 25.10 on the toolkit writes a file of its own and lets the main one import its directory; before, it writes into the
main file. With the NRI plugin (26.3) it does neither.
"""

from __future__ import annotations

import posixpath
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config_edit import TOOLKIT_DROP_IN
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.units import CONTAINERD_CONFIG, CONTAINERD_SOCKET
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import parse_wish
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.gpu_operator_hosts import VARIABLE
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import named

__all__ = ["toolkit_env"]

_DROP_INS, _NRI = (25, 10), (26, 3)
# github.com/containerd/nri, pkg/api, DefaultSocketPath; /var/run is a link to /run.
_NRI_SOCKET = "/run/nri/nri.sock"
_SOURCE = "RUNTIME_CONFIG_SOURCE"
# What k0s and MicroK8s merge into what they write at each start.
_K0S_CRI, _K0S_DROP_IN = "/run/k0s/containerd-cri.toml", "/etc/k0s/containerd.d/nvidia.toml"
_MICROK8S = "/var/snap/microk8s/current/args/containerd-template.toml"


def _rancher(containerd: Json, drop_ins: bool) -> Json:
    """k3s and RKE2 import a directory by the version of the file that they write (pkg/agent/templates of k3s)."""
    config = containerd["config_path"]
    env = {"CONTAINERD_CONFIG": config, "CONTAINERD_SOCKET": containerd["socket"]}
    if drop_ins:
        directory = "config-v3.toml.d" if (containerd["config_version"] or 0) >= 3 else "config.toml.d"
        env["RUNTIME_DROP_IN_CONFIG"] = posixpath.join(posixpath.dirname(config), directory, TOOLKIT_DROP_IN)
    return env


def _env(distribution: str, containerd: Json, drop_ins: bool) -> Json:
    """What differs from the toolkit's own defaults on one host."""
    if distribution in ("k3s", "rke2"):
        return _rancher(containerd, drop_ins)
    if distribution == "k0s":
        own = {"CONTAINERD_CONFIG": _K0S_CRI, "RUNTIME_DROP_IN_CONFIG": _K0S_DROP_IN}
        return {
            **(own if drop_ins else {"CONTAINERD_CONFIG": _K0S_DROP_IN}),
            "CONTAINERD_SOCKET": containerd["socket"],
            "CONTAINERD_RUNTIME_CLASS": "nvidia",
        }
    if distribution == "microk8s":
        return {"CONTAINERD_CONFIG": _MICROK8S, "CONTAINERD_SOCKET": containerd["socket"]}
    found = {"CONTAINERD_CONFIG": containerd["config_path"], "CONTAINERD_SOCKET": containerd["socket"]}
    usual = {"CONTAINERD_CONFIG": CONTAINERD_CONFIG, "CONTAINERD_SOCKET": CONTAINERD_SOCKET}
    return {} if found == usual else found


def _by_env(site: Site, hosts: t.Iterable[str], drop_ins: bool) -> dict[tuple[tuple[str, str], ...], list[str]]:
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for host in sorted(hosts):
        runtime = site["facts"][host].get("runtime") or {}
        if runtime.get("containerd"):
            env = _env(str(runtime.get("distribution")), runtime["containerd"], drop_ins)
            found.setdefault(tuple(sorted(env.items())), []).append(host)
    return found


def _nri(site: Site, hosts: t.Iterable[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """(variables, problems, warnings): whether NRI is on in containerd, and where it listens."""
    off: list[str] = []
    unknown: list[str] = []
    sockets: dict[str, list[str]] = {}
    for host in sorted(hosts):
        containerd = (site["facts"][host].get("runtime") or {}).get("containerd")
        # facts of earlier versions have it not
        nri = (containerd or {}).get("nri") or {"enabled": None, "socket": None}
        if containerd and nri["enabled"] is None:
            unknown.append(host)
        elif containerd and not nri["enabled"]:
            off.append(host)
        elif containerd:
            sockets.setdefault((nri["socket"] or _NRI_SOCKET).replace("/var/run/", "/run/", 1), []).append(host)
    problems, warnings = [], []
    if off:
        problems.append(
            f"{VARIABLE}.nri is true, and NRI is off in containerd on {named('host', off, 20)}, so that Pods would get no GPU: set disable = false in "
            '[plugins."io.containerd.nri.v1.nri"] there (containerd 1.7 has it off by default, 1.6 has none), or set nri: false'
        )
    if len(sockets) > 1:
        problems.append(
            f"{VARIABLE}.nri: the toolkit knows one socket of NRI for all nodes, and it is not the same on "
            f"{' and '.join(named('host', names) for names in sockets.values())}: take socket_path out of containerd's configuration"
        )
    if unknown:
        warnings.append(
            f"it is not known whether containerd has NRI on, without which Pods get no GPU, on {named('host', unknown, 20)}: discover again"
        )
    path = next(iter(sockets), _NRI_SOCKET)
    return ({} if path == _NRI_SOCKET else {"NRI_SOCKET": path}), problems, warnings


def _memlock_findings(site: Site, groups: t.Iterable[str], env: t.Mapping[str, str]) -> t.Iterator[str]:
    """What would undo the limit of locked memory, which is in containerd's files, too."""
    for group in sorted(groups):
        given = site["wishes"].get(group, {}).get("rdma_memlock") or {}
        try:
            method, enabled = parse_wish(given).method, {**defaults_of("rdma_memlock"), **given}["enabled"]
        except FabricError:
            # wishes.yml says so
            continue
        if enabled and method == "spec" and "command" in env.get(_SOURCE, ""):
            yield (
                f"{VARIABLE}.toolkit.env.{_SOURCE} is {env[_SOURCE]}, and group {group} has its limit of locked memory in containerd's files "
                "(rdma_memlock): what `containerd config dump` prints has an empty base_runtime_spec for each runtime, which "
                f"takes the limit away; leave {_SOURCE} out, which is file then"
            )


def toolkit_env(
    release: Version, wish: Json, site: Site, hosts: t.Sequence[str], groups: t.Iterable[str]
) -> tuple[dict[str, str], list[str], list[str]]:
    """(variables of the toolkit's container, problems, warnings). hosts: those with GPUs; they have facts. One set of them is for all nodes."""
    own = {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (wish["toolkit"]["env"] or {}).items()
    }
    if wish["nri"]:
        found, problems, warnings = _nri(site, hosts)
        return {**found, **own}, problems, warnings
    drop_ins = release.line >= _DROP_INS
    sets = _by_env(site, hosts, drop_ins)
    problems, warnings = [], []
    if len(sets) > 1:
        words = "; ".join(
            f"{', '.join(f'{name}={value}' for name, value in env) or 'its defaults'} on {named('host', names)}"
            for env, names in sets.items()
        )
        nri = f", or set {VARIABLE}.nri: true, with which it edits no file" if release.line >= _NRI else ""
        problems.append(
            f"NVIDIA's container toolkit has one set of variables for all nodes, and hosts need several: {words}; keep "
            f"{VARIABLE}.groups to hosts of one distribution{nri}"
        )
    env = dict(next(iter(sets), ()))
    if drop_ins:
        # its own choice is a dump of the configuration, of which it makes a file that says that no runtime has a specification
        env[_SOURCE] = "file"
    elif any((site["facts"][host].get("runtime") or {}).get("distribution") in ("k3s", "rke2") for host in hosts):
        warnings.append(
            f"GPU Operator {release.text} writes into a file that k3s and RKE2 rewrite at each start; they find the toolkit's runtime by "
            "themselves then. From 25.10 on it writes a file beside it"
        )
    env.update(own)
    problems += _memlock_findings(site, groups, env)
    return env, problems, warnings
