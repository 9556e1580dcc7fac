# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container runtime of a node and the limits of its processes, from files. Private to the collection.

read_runtime() makes ``ansible_facts.rdma.runtime``, read_limits() ``ansible_facts.rdma.limits``. containerd is found through
the control groups of the units that run one, without a look at every process of the node, and its configuration as the
process was told. containerd's configuration holds the passwords of registries, units and command lines hold those of
proxies: of such files only an excerpt is looked at, and so only that can get into a capture.
"""

from __future__ import annotations

import json
import posixpath
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config import (
    NRI_PLUGIN,
    ConfigError,
    cni,
    default_handler,
    effective,
    global_flag,
    load,
    nri,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.daemon import (
    generation_of,
    in_user_namespace,
    printed_version,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci import SpecError, load_spec
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import TomlError, parse
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.units import (
    CONTAINERD_CONFIG,
    CONTAINERD_SOCKET,
    CONTAINERD_UNITS,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.services import (
    CGROUPS,
    UNIT_DIRECTORIES,
    units_of,
)

__all__ = ["COMMANDS", "read_limits", "read_runtime"]

Json = t.Dict[str, t.Any]

# Services whose loss makes a node worse: (unit, name of the main process as the kernel cuts it, always told).
_SERVICES = (
    ("kubelet", "kubelet", True),
    ("iscsid", "iscsid", True),
    ("multipathd", "multipathd", True),
    ("crio", "crio", False),
    ("k0scontroller", "k0s", False),
    ("k0sworker", "k0s", False),
    ("k3s", "k3s-server", False),
    ("k3s-agent", "k3s-agent", False),
    ("rke2-agent", "rke2", False),
    ("rke2-server", "rke2", False),
    ("snap.microk8s.daemon-kubelite", "kubelite", False),
)
COMMANDS = {"containerd", *(command for _unit, command, _always in _SERVICES)}

# The slices that distributions use for services (EKS: runtime, Kubespray and Talos: podruntime).
_SLICES = ("system.slice", "runtime.slice", "podruntime.slice")
_SLICE = re.compile(r"[A-Za-z0-9_.:\\]+(-[A-Za-z0-9_.:\\]+)*\.slice")

# containerd runs itself for events (`publish`, 1.x) and people run `containerd config dump` beside it.
_SUBCOMMANDS = ("config", "oci-hook", "publish", "-v", "--version", "-h", "--help")
_FLAGS = {"--address": ("-a", "--address"), "--config": ("-c", "--config")}

# include/uapi/linux/capability.h
_CAP_DAC_OVERRIDE, _CAP_SYS_PTRACE, _CAP_SYS_RESOURCE = 1, 19, 24

# Packages that bring /usr/bin/containerd: Docker's and the distributions'.
_PACKAGES = ("containerd.io", "containerd")

# Plugins that facts are made of, by version of the file: 1, 2, and 3 with newer.
_CRI_PLUGINS = re.compile(r"cri|io\.containerd\.grpc\.v1\.cri|io\.containerd\.cri\.v1\..+")

_LIMIT = re.compile(r"^Max (locked memory|open files)\s+(\S+)\s+(\S+)", re.MULTILINE)
_LIMIT_NAMES = {"locked memory": "memlock", "open files": "nofile"}

_CAPABILITIES = re.compile(r"^CapEff:\s*([0-9a-f]{1,16})$", re.MULTILINE)

_SETTINGS = ("KillMode", "LimitMEMLOCK", "Slice")


def _decoded(data: t.Optional[bytes]) -> str:
    return "" if data is None else data.decode("utf-8", "replace")


def _keep(pattern: t.Pattern[str]) -> t.Callable[[bytes], bytes]:
    """What leaves of a file the lines that a pattern matches."""
    return lambda data: "".join(line + "\n" for line in _decoded(data).splitlines() if pattern.match(line)).encode(
        "utf-8"
    )


# -- processes ---------------------------------------------------------------------------------------------------------


def _pids(tree: Tree, unit: str) -> list[str]:
    """Processes in the control group of a service, also in a slice of its own, such as one for kube-reserved."""
    for where in _slices(tree, unit):
        for base in CGROUPS:
            text = tree.text(f"{base}/{where}/{unit}/cgroup.procs")
            if text:
                return sorted(re.findall(r"^[0-9]{1,10}$", text, re.MULTILINE), key=int)
    return []


def _slices(tree: Tree, unit: str) -> t.Iterator[str]:
    """Where the control group of a service may be. Only a unit that is there is asked for its own."""
    yield from _SLICES
    if any(tree.exists(f"{directory}/{unit}") for directory in UNIT_DIRECTORIES):
        own = _unit_settings(tree, unit)["Slice"] or ""
        if _SLICE.fullmatch(own):
            yield _slice_path(own)


def _slice_path(name: str) -> str:
    """a-b.slice is below a.slice (systemd.slice(5))."""
    parts = name[: -len(".slice")].split("-")
    return "/".join("-".join(parts[:count]) + ".slice" for count in range(1, len(parts) + 1))


def _with_name(tree: Tree, unit: str, command: str) -> list[str]:
    return [pid for pid in _pids(tree, unit) if tree.text(f"/proc/{pid}/comm") == command]


def _arguments(tree: Tree, pid: str) -> list[str]:
    data = tree.excerpt(f"/proc/{pid}/cmdline", _only_flags)
    return (data or b"").decode("utf-8", "replace").rstrip("\0").split("\0")


def _only_flags(data: bytes) -> bytes:
    """The arguments that facts are made of."""
    arguments = data.decode("utf-8", "replace").rstrip("\0").split("\0")
    kept = arguments[:1] + [word for word in arguments[1:] if word in _SUBCOMMANDS]
    for flag, names in _FLAGS.items():
        value = global_flag(arguments, *names)
        kept += [flag, value] if value else []
    return ("\0".join(kept) + "\0").encode("utf-8")


def _daemon(tree: Tree) -> tuple[t.Optional[str], t.Optional[str]]:
    """(pid, unit) of the containerd that serves Kubernetes; that of the Docker engine, in another unit, does not."""
    for unit in CONTAINERD_UNITS:
        for pid in _with_name(tree, unit, "containerd"):
            if not set(_arguments(tree, pid)[1:]) & set(_SUBCOMMANDS):
                return pid, unit
    return None, None


def _limits_of(tree: Tree, pid: str) -> t.Optional[Json]:
    """Soft and hard limits as the kernel prints them (fs/proc/base.c, proc_pid_limits()): memlock in bytes, nofile a number."""
    found: Json = {}
    for name, *values in _LIMIT.findall(_decoded(tree.excerpt(f"/proc/{pid}/limits", _keep(_LIMIT)))):
        soft, hard = (int(value) if re.fullmatch(r"[0-9]{1,20}", value) else "unlimited" for value in values)
        found[_LIMIT_NAMES[name]] = {"soft": soft, "hard": hard}
    return dict(sorted(found.items())) if set(found) == set(_LIMIT_NAMES.values()) else None


def _sees_everything(tree: Tree) -> t.Optional[bool]:
    """Whether discovery may read what only root may: files of mode 0600, links of other people's processes, containerd's socket."""
    found = _CAPABILITIES.search(_decoded(tree.excerpt("/proc/self/status", _keep(_CAPABILITIES))))
    return (
        None if not found else all(int(found.group(1), 16) >> bit & 1 for bit in (_CAP_DAC_OVERRIDE, _CAP_SYS_PTRACE))
    )


def read_limits(tree: Tree) -> Json:
    """Limits of the system manager, and of the session that discovery runs in: those of a program started through SSH."""
    return {"init": _limits_of(tree, "1"), "session": _limits_of(tree, "self")}


# -- units -------------------------------------------------------------------------------------------------------------


def _unit_files(tree: Tree, unit: str) -> list[str]:
    """The file of a unit and its drop-ins in the order in which systemd reads them."""
    main = [path for path in (f"{directory}/{unit}" for directory in UNIT_DIRECTORIES) if tree.exists(path)]
    stem = unit.rpartition(".")[0]
    # a-b.service also has the drop-ins of service.d and a-.service.d
    names = ["service"] + [stem[: at + 1] + ".service" for at, sign in enumerate(stem) if sign == "-"] + [unit]
    drop_ins: dict[str, str] = {}
    # what is found later takes the place of what has its name: /etc over /usr, the unit's own over the general one
    for name in names:
        for directory in reversed(UNIT_DIRECTORIES):
            for file in tree.names(f"{directory}/{name}.d"):
                if file.endswith(".conf"):
                    drop_ins[file] = f"{directory}/{name}.d/{file}"
    return main[:1] + [drop_ins[file] for file in sorted(drop_ins)]


def _unit_lines(text: str) -> t.Iterator[tuple[str, str]]:
    """The settings of the section Service that facts are made of (systemd.syntax(7))."""
    section = ""
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        key, equals, value = line.partition("=")
        if equals and section == "[Service]" and key.strip() in _SETTINGS:
            yield key.strip(), value.strip()


def _unit_text(data: bytes) -> bytes:
    return "".join("[Service]\n{}={}\n".format(*setting) for setting in _unit_lines(_decoded(data))).encode("utf-8")


def _unit_settings(tree: Tree, unit: str) -> dict[str, t.Optional[str]]:
    settings: dict[str, t.Optional[str]] = dict.fromkeys(_SETTINGS)
    for path in _unit_files(tree, unit):
        for key, value in _unit_lines(_decoded(tree.excerpt(path, _unit_text))):
            # an empty value takes back what was said before
            settings[key] = value or None
    return settings


# -- containerd --------------------------------------------------------------------------------------------------------


def _installed_version(tree: Tree, binary: str) -> t.Optional[str]:
    """The version of the package that a binary belongs to; None for what was not installed by dpkg."""
    if binary != "/usr/bin/containerd":
        return None
    for stanza in _stanzas(tree.excerpt("/var/lib/dpkg/status", _packages) or b""):
        found = re.search(r"^Version: *(?:\d+:)?(\d+\.\d+[^\s~+-]*)", stanza, re.MULTILINE)
        if found and re.search(r"^Status: \S+ \S+ installed$", stanza, re.MULTILINE):
            return found.group(1)
    return None


def _stanzas(status: bytes) -> list[str]:
    """Stanzas of the packages that bring containerd; bytes.find, since the file is megabytes."""
    found = []
    status = b"\n" + status
    for name in _PACKAGES:
        start = status.find(b"\nPackage: %s\n" % name.encode())
        if start >= 0:
            end = status.find(b"\n\n", start)
            found.append(_decoded(status[start + 1 : end if end >= 0 else len(status)]))
    return found


def _packages(status: bytes) -> bytes:
    fields = ("Package: ", "Status: ", "Version: ")
    kept = [[line for line in stanza.splitlines() if line.startswith(fields)] for stanza in _stanzas(status)]
    return "\n".join("".join(line + "\n" for line in lines) for lines in kept).encode("utf-8")


def _version(tree: Tree, binary: t.Optional[str], running: t.Optional[Json]) -> t.Optional[str]:
    """The daemon's own word, else the package's, else what the program prints, which takes a run of it."""
    version = (running or {}).get("version")
    if version or binary is None:
        return version.lstrip("v") if isinstance(version, str) and version else None
    printed = _installed_version(tree, binary) or tree.answer("version", binary) or ""
    return printed_version(printed)


def _config(tree: Tree, path: str) -> t.Optional[str]:
    data = tree.excerpt(path, _config_text)
    return None if data is None else _decoded(data)


def _running(tree: Tree, socket: str) -> t.Optional[Json]:
    """What the running daemon answered over CRI, or None when it was not asked."""
    try:
        found = json.loads(tree.answer("cri", socket) or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    handlers = found.get("handlers")
    return {
        "version": found.get("version"),
        "ready": found.get("ready"),
        "error": found.get("error"),
        "default_handler": found.get("default_handler"),
        "handlers": {
            str(name): {key: one.get(key) for key in ("base_runtime_spec", "runtime_type")}
            for name, one in sorted(handlers.items())
            if isinstance(one, dict)
        }
        if isinstance(handlers, dict)
        else {},
    }


def _configured(tree: Tree, path: str, generation: t.Optional[tuple[int, int]], warnings: list[str]) -> Json:
    """What the files say that the next start of the daemon reads."""
    result: Json = {
        "config_version": None,
        "files": [],
        "handlers": {},
        "default_handler": None,
        "nri": {"enabled": None, "socket": None},
        "cni": {"config": None, "programs": None},
    }
    if generation is None:
        warnings.append("containerd's version is not known: its configuration is not read")
        return result
    try:
        files = load(path, lambda name: _config(tree, name), tree.glob, generation)
        result["files"] = [file.path for file in files]
        if files:
            result["config_version"] = files[0].version
        result["handlers"] = {
            name: {
                "base_runtime_spec": handler.base_runtime_spec or None,
                "runtime_type": handler.runtime_type or None,
                "file": handler.file,
            }
            for name, handler in sorted(effective(files, generation).items())
        }
        result["default_handler"] = default_handler(files, generation)
        result["nri"] = dict(zip(("enabled", "socket"), nri(files, generation)))
        result["cni"] = dict(zip(("config", "programs"), cni(files, generation)))
    except ConfigError as exc:
        warnings.append(f"containerd would not start with its configuration: {exc}")
    return result


def _spec(tree: Tree, path: str) -> Json:
    """The rlimits of a base runtime specification as they stand there, or why it is none."""
    data = tree.excerpt(path, _spec_text)
    if data is None:
        return {"rlimits": [], "error": f"{path} is not there, or cannot be read"}
    try:
        entries = load_spec(data, path)["process"].get("rlimits") or []
    except SpecError as exc:
        return {"rlimits": [], "error": str(exc)}
    return {"rlimits": [{key: entry[key] for key in ("type", "soft", "hard")} for entry in entries], "error": None}


def _stale(tree: Tree, pid: str, found: Json, running: t.Optional[Json], specs: t.Iterable[str]) -> t.Optional[bool]:
    """Whether the next start of the daemon would read something else than what it runs with; None when that is not known.

    A daemon that answers over CRI tells its configuration; of specifications, which it reads once, and of a configuration
    that it does not tell there are only the times.
    """
    files = list(specs)
    if running and running["handlers"]:
        then = {name: one["base_runtime_spec"] for name, one in running["handlers"].items()}
        if then != {name: one["base_runtime_spec"] for name, one in found["handlers"].items()}:
            return True
    else:
        files += found["files"]
    changed = [tree.answer("changed", pid + path) for path in files]
    if "1" in changed:
        return True
    return None if None in changed else False


def _containerd(tree: Tree, pid: t.Optional[str], unit: str, warnings: list[str]) -> tuple[Json, Json]:
    """(facts, specs) of a daemon, or with pid None of one that is only installed."""
    arguments = _arguments(tree, pid) if pid else []
    binary: t.Optional[str] = (tree.link_target(f"/proc/{pid}/exe") if pid else None) or (arguments or [""])[0]
    if binary and binary.startswith("/"):
        # after an upgrade without a restart the kernel appends that; k3s and RKE2 have one program with many names
        binary = posixpath.join(posixpath.dirname(binary.replace(" (deleted)", "")), "containerd")
    else:
        binary = next(
            (path for path in ("/usr/bin/containerd", "/usr/local/bin/containerd") if tree.exists(path)), None
        )
    # the working directory of a service is /
    config_path = posixpath.join("/", global_flag(arguments, *_FLAGS["--config"]) or CONTAINERD_CONFIG)
    socket = posixpath.join("/", global_flag(arguments, *_FLAGS["--address"]) or _address(tree, config_path))
    running = _running(tree, socket) if pid else None
    version = _version(tree, binary, running)
    generation = generation_of(version)
    found = _configured(tree, config_path, generation, warnings)
    paths = {one["base_runtime_spec"] for one in found["handlers"].values()}
    specs = {path: _spec(tree, path) for path in sorted(path for path in paths if path)}
    settings = _unit_settings(tree, unit)
    status = tree.excerpt(f"/proc/{pid}/status", _keep(_CAPABILITIES)) if pid else None
    capabilities = _CAPABILITIES.search(_decoded(status))
    facts: Json = {
        "version": version,
        "generation": None if generation is None else ".".join(map(str, generation)),
        "pid": int(pid) if pid else None,
        "unit": unit,
        "binary": binary,
        "socket": socket,
        "config_path": config_path,
        **found,
        "running": running and {key: value for key, value in running.items() if key != "version"},
        "stale": _stale(tree, pid, found, running, specs) if pid else None,
        "daemon_rlimits": _limits_of(tree, pid) if pid else None,
        # systemd.kill(5)
        "kill_mode": settings["KillMode"] or "control-group",
        "limit_memlock": settings["LimitMEMLOCK"],
        "user_namespace": in_user_namespace(tree.text(f"/proc/{pid}/uid_map") or "") if pid else None,
        "cap_sys_resource": bool(int(capabilities.group(1), 16) >> _CAP_SYS_RESOURCE & 1) if capabilities else None,
    }
    return facts, specs


def _address(tree: Tree, config_path: str) -> str:
    """The socket that the configuration names; flags go before it."""
    try:
        address = parse(_config(tree, config_path) or "").get("grpc", {}).get("address")
    except (TomlError, AttributeError):
        address = None
    return address if isinstance(address, str) and address else CONTAINERD_SOCKET


def _stopped(tree: Tree) -> t.Optional[str]:
    """The unit of a containerd that is installed and does not run: first one that starts at boot, since others may be left over.

    Its own file counts and no drop-in, since service.d has some for all services (Fedora brings 10-timeout-abort.conf).
    """
    found = units_of(tree, *CONTAINERD_UNITS)
    there = [unit for unit in found.units if unit not in found.masked]
    return next(iter([unit for unit in there if unit in found.enabled] or there), None)


def read_runtime(tree: Tree, warnings: list[str]) -> Json:
    """The value of ansible_facts.rdma.runtime (docs/facts.schema.json) of the node that a tree shows. Never raises."""
    pid, running_unit = _daemon(tree)
    unit = running_unit or _stopped(tree)
    containerd, specs = _containerd(tree, pid, unit, warnings) if unit else (None, {})
    distribution = CONTAINERD_UNITS[unit] if unit else "none"
    if distribution == "none" and (
        tree.exists("/etc/kubernetes/kubelet.conf") or tree.exists("/var/lib/kubelet/config.yaml")
    ):
        distribution = "kubeadm"
    services = {"containerd": pid is not None}
    for name, command, always in _SERVICES:
        runs = bool(_with_name(tree, name + ".service", command))
        if runs or always:
            services[name] = runs
    return {
        "as_root": _sees_everything(tree),
        "distribution": distribution,
        "containerd": containerd,
        "specs": specs,
        "services": dict(sorted(services.items())),
    }


# -- excerpts ----------------------------------------------------------------------------------------------------------


def _quoted(value: str) -> str:
    return json.dumps(value).replace("\x7f", "\\u007f")


def _values(table: t.Mapping[str, t.Any], *names: str) -> list[str]:
    return [f"{name} = {_quoted(table[name])}" for name in names if isinstance(table.get(name), str)]


def _config_text(data: bytes) -> bytes:
    """A configuration of containerd without anything that facts are not made of."""
    try:
        config = parse(_decoded(data))
    except TomlError as exc:
        # the place of the error stays, what stands there goes
        return b"\n" * min(exc.line - 1, 9999) + b"?\n"
    lines = []
    # what is of the wrong type stays so: containerd does not start with it
    version, imports = config.get("version"), config.get("imports")
    if version is not None:
        lines.append(f"version = {version}" if isinstance(version, int) else "version = ''")
    if imports is not None:
        good = isinstance(imports, list) and all(isinstance(path, str) for path in imports)
        lines.append(f"imports = [{', '.join(map(_quoted, imports))}]" if good else "imports = [0]")
    grpc = config.get("grpc")
    if isinstance(grpc, dict) and isinstance(grpc.get("address"), str):
        lines += ["[grpc]", *_values(grpc, "address")]
    disabled = config.get("disabled_plugins")
    if isinstance(disabled, list) and NRI_PLUGIN in disabled:
        lines.insert(0, f"disabled_plugins = [{_quoted(NRI_PLUGIN)}]")
    plugins = config.get("plugins")
    nri_table = plugins.get(NRI_PLUGIN) if isinstance(plugins, dict) else None
    if isinstance(nri_table, dict):
        flag = nri_table.get("disable")
        lines.append(f"[plugins.{_quoted(NRI_PLUGIN)}]")
        lines += [f"disable = {str(flag).lower()}"] if isinstance(flag, bool) else []
        lines += _values(nri_table, "socket_path")
    for name, plugin in plugins.items() if isinstance(plugins, dict) else ():
        if not isinstance(plugin, dict) or not _CRI_PLUGINS.fullmatch(name):
            continue
        # tables are kept when they are empty: with containerd 1.x a later file's table takes the place of all of an earlier one's
        head = "plugins." + _quoted(name)
        lines.append(f"[{head}]")
        places = plugin.get("cni")
        if isinstance(places, dict):
            lines += [f"[{head}.cni]", *_values(places, "bin_dir", "conf_dir")]
            several = places.get("bin_dirs")
            if isinstance(several, list) and all(isinstance(path, str) for path in several):
                lines.append(f"bin_dirs = [{', '.join(map(_quoted, several))}]")
        table = plugin.get("containerd")
        if isinstance(table, dict):
            lines += [f"[{head}.containerd]", *_values(table, "default_runtime_name")]
            runtimes = table.get("runtimes")
            for handler, runtime in runtimes.items() if isinstance(runtimes, dict) else ():
                if isinstance(runtime, dict):
                    lines.append(f"[{head}.containerd.runtimes.{_quoted(handler)}]")
                    lines += _values(runtime, "base_runtime_spec", "runtime_type")
    return "".join(line + "\n" for line in lines).encode("utf-8")


def _spec_text(data: bytes) -> bytes:
    """A specification without anything but its rlimits; anything else stays, to show what is wrong with it."""
    try:
        spec = load_spec(data, "")
    except SpecError:
        return data
    process = {"rlimits": spec["process"].get("rlimits") or []}
    return json.dumps({"ociVersion": spec["ociVersion"], "process": process}).encode("utf-8")
