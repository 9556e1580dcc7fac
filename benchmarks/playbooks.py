# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure whole runs of playbooks: time, memory, started modules and events, as ratios of runs that belong together.

python benchmarks/playbooks.py                     all parts; exits 1 beyond a bound
python benchmarks/playbooks.py --generous          a few hosts and wider bounds, as a part of make test
python benchmarks/playbooks.py --only small,site   only these parts, of small, facts, cached and site
python benchmarks/playbooks.py --hosts 10 --cached 100 --site 50 --forks 5 --json FILE

Hosts are this machine over local connections, in mount namespaces with the /sys of a node with eight HCAs where they have to be
converged; replayed from a capture; or have their facts from a cache. So no network and no SSH is in any of the figures: real nodes answer
later than these, with the product and without it.

What was measured is kept after each row. A run that fails is named at the end, and the others go on.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.fabric.rdma.benchmarks import kept
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import load_listing, open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather

CAPTURES = ROOT / "tests" / "captures"
# A node with eight rails (ib-v100-1 is one of the smaller ones).
CAPTURE = "roce-rails-1"
# What ibstat reads of a port, and ib_facts does not, so that the capture lacks it.
FOR_IBSTAT = {"lid_mask_count": "0", "sm_sl": "0", "cap_mask": "0x04010000", "pkeys/0": "0xffff"}
WISHES: dict[str, t.Any] = {
    "rdma_groups": ["gpu"],
    "rdma_resource": {"name": "rdma_gpu"},
    "rdma_want": {"link_layer": "Ethernet"},
}
# A run of prepare that has nothing to do, as a multiple of a ping of the same hosts, of so many hosts on; for fewer, its start counts, and it
# may take so many times as much. A mistake that costs each host a process more, or loads everything again for each, goes beyond the
# generous one.
BOUND, BOUND_HOSTS = 2.0, 50
GENEROUS, GENEROUS_HOSTS = 6.0, 20
OF_FEWER = 1.25
# Up to so many hosts, what is compared with a ping is run so often, and the ping, too.
REPEATED_HOSTS, REPEATED = 50, 3
# How many hosts the usual playbook gets there.
FEW = 2
# How often the memory of a run is looked at, in seconds.
LOOK = 0.25
# Signals that end a measurement.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# In the place of a host's Python: each module that runs there starts it once.
INTERPRETER = """\
#!/bin/sh
echo >> "{place}/started"
exec "{python}" "$@"
"""
# The same on a host that has what the capture has below /sys.
NODE = """\
#!/bin/sh
echo >> "{place}/started"
exec unshare {rights} --mount sh -c '
  mount --bind "{place}/tree/sys" /sys && exec "{python}" "$@"' node "$@"
"""
# Such a host needs nothing with these: packages and services are those of this machine.
CONVERGED: dict[str, t.Any] = {
    "rdma_ofed": {"method": "none"},
    "rdma_storage": {"iscsi": False, "nfs": False, "path": ""},
    "rdma_memlock": {"enabled": False},
    "rdma_gpudirect": "none",
}
# A host on which everything is still to be done, since no machine can lose its drivers for a measurement: each module is started, in the
# place of which this says what it would say. Facts are those of the capture, without what the modules that were started so far bring:
# {module: [what each of its calls brings, as (keys, value)]}.
FIRST = """\
#!{python}
import json, pathlib, re, sys

here = pathlib.Path(sys.argv[0]).parent
[name] = re.findall(r"AnsiballZ_(\\w+)[.]py", " ".join(sys.argv))[:1] or [""]
for path in (pathlib.Path("{place}/started"), here / "calls"):
    with open(path, "a") as file:
        file.write("\\n" if path.name == "started" else name + "\\n")
calls = (here / "calls").read_text().split()
answer = {{"changed": name not in ("ib_facts", "node_change", "setup")}}
if name == "ib_facts":
    facts, brings = json.loads(pathlib.Path("{place}/first.json").read_text())
    for module, steps in brings.items():
        for changes in steps[: calls.count(module)]:
            for keys, value in changes:
                place = facts
                for key in keys[:-1]:
                    place = place[key]
                place[keys[-1]] = value
    iscsi = facts["storage"]["iscsi"]
    # no two nodes may have the same
    iscsi["initiator_name"] = iscsi["initiator_name"] and iscsi["initiator_name"] + here.name
    answer["ansible_facts"] = {{"rdma": facts}}
elif name == "setup":
    answer["ansible_facts"] = {{"ansible_os_family": "Debian", "ansible_distribution": "Debian", "ansible_pkg_mgr": "apt"}}
elif name == "containerd_memlock":
    answer["stale_containers"] = []
elif name == "node_change":
    answer.update(before={{}}, interrupted=None)
elif name == "stat":
    answer["stat"] = {{"exists": False}}
elif name == "command":
    answer.update(rc=0, stdout="", stderr="", cmd=[])
print(json.dumps(answer))
"""
# How files are called in which Ansible keeps facts is its own matter.
FILL = """\
import json, sys
from ansible.plugins.loader import cache_loader, init_plugin_loader
init_plugin_loader([])
cache = cache_loader.get("ansible.builtin.jsonfile")
known = json.load(open(sys.argv[1]))
for number in range(1, int(sys.argv[2]) + 1):
    cache.set(f"node-{number:05d}", {"rdma": known})
"""
IBDEV2NETDEV = """\
#!/bin/sh
for device in /sys/class/infiniband/*; do
  [ -d "$device" ] || continue
  for netdev in "$device"/device/net/*; do echo "$(basename "$device") port 1 ==> $(basename "$netdev")"; done
done
"""


class RunError(Exception):
    """A run that has failed, with the end of what it said."""


class Run(t.NamedTuple):
    """seconds: of the clock; mb: most memory of all its processes at a time, what they share once.

    counts: results of tasks, and skipped tasks, by executions.py; modules, which is how often Python was started on hosts.
    """

    seconds: float
    mb: float
    counts: dict[str, int]


def unpack(place: Path) -> None:
    """What the namespaces of hosts have in the place of this machine's own."""
    listing = CAPTURES / f"{CAPTURE}.capture"
    for name, entry in load_listing(listing.read_text(encoding="utf-8"), listing.name).items():
        path = place / "tree" / name.lstrip("/")
        if not name.startswith("/sys"):
            continue
        (path if entry.kind == "d" else path.parent).mkdir(parents=True, exist_ok=True)
        if entry.kind == "l":
            path.symlink_to(entry.target)
        elif entry.kind == "f":
            path.write_bytes(entry.data)
    for port in (place / "tree" / "sys" / "class" / "infiniband").glob("*/ports/*"):
        for name, value in FOR_IBSTAT.items():
            path = port / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{value}\n")


def inventory(place: Path, hosts: int, variables: dict[str, t.Any], python: str = "python") -> Path:
    """A group of so many hosts with the Python of this name."""
    path = place / f"hosts-{hosts}-{len(variables)}-{python}.json"
    names: dict[str, dict[str, str]] = {f"node-{number:05d}": {} for number in range(1, hosts + 1)}
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": str(place / python),
        # whoever measures has the rights, or a namespace where he has
        "ansible_become": False,
        # a plan refuses to lose the hosts of another one
        "rdma_output_dir": str(place / f"output-{path.stem}"),
    }
    group = {"hosts": names, "vars": {**WISHES, **variables}}
    path.write_text(json.dumps({"all": {"vars": common, "children": {"rdma": {"children": {"gpu": group}}}}}))
    return path


def lacking() -> tuple[dict[str, t.Any], dict[str, list[t.Any]]]:
    """Facts of a node that lacks user space and a kernel module of RDMA, what volumes need, and a limit; and what each module brings."""
    known = gather(open_tree(str(CAPTURES / f"{CAPTURE}.capture")))
    tools, modules = known["ofed"]["tools"], known["kernel"]["modules"]
    tools.update(dict.fromkeys(tools, False))
    modules["ib_umad"].update(loaded=False, persisted=False)
    there = {**modules["ib_umad"], "loaded": True, "persisted": True}
    iscsi = {"installed": True, "service": "stopped", "units": ["iscsid.service"], "initiator_file": "present"}
    loaded = [[(("kernel", "modules", name), there)] for name in ("ib_umad", "iscsi_tcp", "nfs")]
    volumes = [
        *((("storage", "programs", name), True) for name in ("iscsiadm", "iscsid", "mount.nfs4")),
        *((("storage", "iscsi", key), value) for key, value in iscsi.items()),
        (("storage", "iscsi", "initiator_name"), "iqn.2016-04.com.example:"),
        (("storage", "nfs", "installed"), True),
    ]
    started = [(("storage", "iscsi", "service"), "running"), (("storage", "iscsi", "enabled"), ["iscsid.service"])]
    packages = [[(("ofed", "tools"), dict.fromkeys(tools, True))], volumes]
    limits = [[(("runtime",), unlimited(known["runtime"]))]]
    return known, {
        "apt": packages,
        "kernel_module": loaded,
        "systemd_service": [started],
        "containerd_memlock": limits,
    }


def unlimited(runtime: dict[str, t.Any]) -> dict[str, t.Any]:
    """The runtime of a node whose containers, and containerd itself, may lock memory."""
    spec, endless = "/etc/containerd/base.json", {"soft": "unlimited", "hard": "unlimited"}
    containerd = runtime["containerd"]

    def with_spec(handlers: dict[str, t.Any]) -> dict[str, t.Any]:
        return {name: {**handler, "base_runtime_spec": spec} for name, handler in handlers.items()}

    return {
        **runtime,
        "containerd": {
            **containerd,
            "handlers": with_spec(containerd["handlers"]),
            "running": {**containerd["running"], "handlers": with_spec(containerd["running"]["handlers"])},
            "daemon_rlimits": {**containerd["daemon_rlimits"], "memlock": endless},
            "limit_memlock": "infinity",
        },
        "specs": {spec: {"rlimits": [{"type": "RLIMIT_MEMLOCK", "soft": 2**64 - 1, "hard": 2**64 - 1}], "error": None}},
    }


def lacking_hosts(place: Path, hosts: int) -> Path:
    """An inventory of hosts that lack all of it, each of which remembers what was started there."""
    (place / "first.json").write_text(json.dumps(lacking()))
    path = inventory(
        place, hosts, {**FIRST_RUN, "ansible_python_interpreter": f"{place}/first/{{{{ inventory_hostname }}}}/python"}
    )
    for number in range(1, hosts + 1):
        own = place / "first" / f"node-{number:05d}"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        (own / "python").write_text(FIRST.format(place=place, python=sys.executable))
        (own / "python").chmod(0o755)
    return path


def memory(first: int) -> float:
    """Megabytes of a process and all that it has started: what several have in common is divided among them (PSS)."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            # it has ended meanwhile
            continue
    own, more = {first}, {first}
    while more:
        more = {process for process, parent in parents.items() if parent in more} - own
        own |= more
    total = 0
    for process in own:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


@contextlib.contextmanager
def held() -> t.Iterator[None]:
    """Signals that end this program come when the block is through: what it starts is then known, and ends with it."""
    came: list[int] = []
    handlers = {number: signal.signal(number, lambda sent, _frame: came.append(sent)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for number in came:
        signal.raise_signal(number)


def run(command: t.Sequence[str], place: Path, env: t.Mapping[str, str], codes: t.Container[int] = (0,)) -> Run:
    """Runs a command in a process group of its own; RunError with its output when it fails."""
    counts, modules = place / "executions.json", place / "started"
    counts.unlink(missing_ok=True)
    modules.write_text("")
    own = {
        # Python would read a module byte by byte, and compile again what it could keep: who measures may like that for his own output
        **{
            key: value
            for key, value in os.environ.items()
            if key not in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
        },
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callback_plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": "executions",
        "FABRIC_RDMA_EXECUTIONS": str(counts),
        **env,
    }
    most = 0.0
    ended = threading.Event()

    def look(first: int) -> None:
        nonlocal most
        while not ended.wait(LOOK):
            most = max(most, memory(first))

    with open(place / "output.txt", "w+", encoding="utf-8") as output:
        started = time.monotonic()
        process = None
        try:
            with held():
                process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=own,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            watcher = threading.Thread(target=look, args=(process.pid,), daemon=True)
            watcher.start()
            code = process.wait()
        except BaseException:
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                process.wait()
            raise
        seconds = time.monotonic() - started
        ended.set()
        watcher.join()
        output.seek(0)
        said = output.read()
    if code not in codes:
        raise RunError(f"{' '.join(command)} ended with {code}:\n{said[-4000:]}")
    told = json.loads(counts.read_text()) if counts.exists() else {}
    return Run(seconds, most, {**told, "modules": len(modules.read_text())})


def middle(started: t.Callable[[], Run], times: int) -> t.Callable[[], Run]:
    """A run like it, which takes as long as that in the middle of so many: on few hosts, a slow moment is a tenth of the figure."""

    def runs() -> Run:
        return sorted((started() for _each in range(times)), key=lambda run: run.seconds)[times // 2]

    return runs


def playbook(name: str, hosts: Path, forks: int, *arguments: str) -> list[str]:
    return ["ansible-playbook", name, "-i", str(hosts), f"--forks={forks}", *arguments]


COLUMNS = (
    "seconds",
    "ratio",
    "compared_with",
    "modules_per_host",
    "results_per_host",
    "skipped_per_host",
    "peak_mb",
    "event_bytes_per_host",
    "largest_event_bytes",
)


class Table:
    """Rows as they come, and all of them as data, kept in a file after each."""

    def __init__(self, file: Path) -> None:
        self.rows: list[dict[str, t.Any]] = []
        self.failures: list[dict[str, t.Any]] = []
        self.left_out: list[str] = []
        self._file = file
        print(
            f"{'what':34} {'hosts':>6} {'forks':>5} {'seconds':>8} {'ratio':>6} {'to':10} {'modules':>8} {'results':>8} {'skipped':>8} {'peak MB':>8} "
            f"{'events':>9} {'largest':>9}"
        )

    def keep(self) -> None:
        """Writes what there is."""
        kept.keep(self._file, "playbooks", rows=self.rows, failures=self.failures, left_out=self.left_out)

    def leave_out(self, what: str, hosts: int, megabytes: float) -> bool:
        """Whether the machine has too little memory for a row, which is said then."""
        free = free_mb()
        if free >= megabytes:
            return False
        self.say_left_out(f"{what}, {hosts} hosts: takes {megabytes:.0f} MB, of which the machine has {free:.0f}")
        return True

    def say_left_out(self, what: str) -> None:
        """What this machine cannot measure."""
        self.left_out.append(what)
        print(f"left out: {what}", flush=True)
        self.keep()

    def measure(
        self,
        what: str,
        hosts: int,
        forks: int,
        started: t.Callable[[], Run],
        to: tuple[str, Run | None] | None = None,
        events: t.Callable[[], t.Sequence[int]] | None = None,
    ) -> Run | None:
        """A row of what is run here. None when it fails, which is noted, and no reason for others not to run."""
        try:
            done = started()
        except RunError as exc:
            self.failures.append({"what": what, "hosts": hosts, "said": str(exc)})
            print(f"{what:34} {hosts:6} {forks:5} failed", flush=True)
            self.keep()
            return None
        self.add(what, hosts, forks, done, to, events() if events else None)
        return done

    def add(
        self,
        what: str,
        hosts: int,
        forks: int,
        done: Run,
        to: tuple[str, Run | None] | None = None,
        events: t.Sequence[int] | None = None,
    ) -> None:
        """A row of what was run. events: the bytes of each."""
        per_host = {
            key: round(done.counts[key] / hosts, 2) for key in ("modules", "results", "skipped") if key in done.counts
        }
        name, other = to or (None, None)
        row: dict[str, t.Any] = {
            "what": what,
            "hosts": hosts,
            "forks": forks,
            "seconds": round(done.seconds, 2),
            "compared_with": name if other else None,
            "ratio": round(done.seconds / other.seconds, 2) if other else None,
            "modules_per_host": per_host.get("modules"),
            "results_per_host": per_host.get("results"),
            "skipped_per_host": per_host.get("skipped"),
            "peak_mb": round(done.mb),
            "event_bytes_per_host": round(sum(events) / hosts) if events else None,
            "largest_event_bytes": max(events) if events else None,
        }
        self.rows.append(row)
        seconds, ratio, compared, modules, results, skipped, megabytes, sizes, largest = (
            "" if row[key] is None else row[key] for key in COLUMNS
        )
        print(
            f"{what:34} {hosts:6} {forks:5} {seconds:8.1f} {ratio:>6} {compared:10} {modules:>8} {results:>8} {skipped:>8} {megabytes:8} "
            f"{sizes:>9} {largest:>9}",
            flush=True,
        )
        self.keep()

    def wrong(self, bound: float, hosts: int) -> list[str]:
        """What is not as it should be: runs that failed, those of prepare that have nothing to do and do much, time that grows faster
        than the number of hosts, and events and memory of a host beyond a bound."""
        wrong = [f"{each['what']}, {each['hosts']} hosts: {each['said']}" for each in self.failures]
        for name, large in LARGE.items():
            rows = sorted((row["hosts"], row["seconds"]) for row in self.rows if row["what"] == name)
            for (few, less), (many, more) in itertools.pairwise(rows):
                # what a run takes anyway is a part of the smaller
                if few >= large and more / less > GROWTH * many / few:
                    wrong.append(
                        f"{name}: {few} hosts take {less:g} s and {many} take {more:g} s, more than {GROWTH:g} times as much for each"
                    )
        for row in self.rows:
            told = f"{row['what']}, {row['hosts']} hosts"
            if row["what"] in HOST_MB:
                most = MORE * (OWN_MB + FORK_MB * max(0, row["forks"] - FORKS) + HOST_MB[row["what"]] * row["hosts"])
                if row["peak_mb"] > most:
                    wrong.append(f"{told}: {row['peak_mb']} MB; the bound is {most:.0f}")
            sizes = row["event_bytes_per_host"]
            if sizes is not None and row["hosts"] >= LARGE[SITE_ROW] and sizes > EVENT_BYTES:
                wrong.append(f"{told}: events of {sizes} bytes a host; the bound is {EVENT_BYTES}")
        for row in self.rows:
            if row["what"] not in (CONVERGED_ROW, SECOND_ROW):
                continue
            most = bound if row["hosts"] >= hosts else bound * OF_FEWER
            if row["ratio"] is not None and row["ratio"] > most:
                wrong.append(
                    f"prepare of {row['hosts']} hosts takes {row['ratio']} times as long as a ping of them; the bound is {most:g}"
                )
            if row["modules_per_host"] > 1:
                wrong.append(
                    f"prepare starts {row['modules_per_host']} modules on a host that needs nothing; one tells it all"
                )
            if (row["results_per_host"] - 1) * row["hosts"] > ONCE:
                wrong.append(
                    f"prepare has {row['results_per_host']} tasks for each of {row['hosts']} hosts that need nothing; one, and those that "
                    "run once, are all"
                )
            if ((row["skipped_per_host"] or 0) - 1) * row["hosts"] > ONCE:
                wrong.append(
                    f"each of {row['hosts']} hosts that need nothing skips {row['skipped_per_host']} tasks of prepare; whether it is the "
                    "controller is all that each is asked"
                )
        return wrong


# Tasks of prepare that run once, and a few more.
ONCE = 30
CONVERGED_ROW = "prepare, nothing to do"
# What takes each of many hosts as long as each of fewer. From so many on, more than so many times as long is a mistake.
PLAN_ROW, REPORT_ROW, SITE_ROW = "plan, cached facts", "report, cached facts", "site.yml under ansible-runner"
LARGE, GROWTH = {PLAN_ROW: 1000, REPORT_ROW: 1000, SITE_ROW: 200}, 2.0
# Events of each of as many hosts; 28 KB were measured.
EVENT_BYTES = 40_000
FIRST_ROW = "prepare, first run of all roles"
USUAL_ROW = "the usual playbook, first run"
USUAL_AGAIN_ROW = "the usual playbook, second run"
SECOND_ROW = "prepare, second run of all roles"
# Hosts that need something: this machine has no RDMA driver, as it is. Its kernel may have no modules that volumes need.
UNPREPARED: dict[str, t.Any] = {
    "rdma_allow_unusable": True,
    "rdma_storage": {"iscsi": False, "nfs": False, "path": ""},
    "rdma_serial": ["100%"],
    "rdma_max_unavailable": "100%",
}
FIRST_RUN: dict[str, t.Any] = {"rdma_serial": ["100%"], "rdma_max_unavailable": "100%"}
# What a run of Ansible takes with facts in a cache or of replayed hosts, in megabytes: of itself with so many forks, for each further one,
# and for each host. More than so many times as much is a mistake.
OWN_MB, FORKS, FORK_MB = 200.0, 10, 30.0
HOST_MB = {PLAN_ROW: 0.3, REPORT_ROW: 0.2, SITE_ROW: 1.2}
MORE = 2.0


def variables_of_usual(table: Table, place: Path) -> dict[str, t.Any]:
    """What the usual playbook can do here: a container has neither modules of its own nor a systemd."""
    plain = {
        "benchmark_ibdev2netdev": str(place / "ibdev2netdev"),
        "benchmark_modules": Path("/proc/modules").exists(),
        "benchmark_systemd": Path("/run/systemd/system").is_dir(),
    }
    for task, there in (("modules", plain["benchmark_modules"]), ("services", plain["benchmark_systemd"])):
        if not there:
            table.say_left_out(f"the usual playbook does without its tasks for {task}, of which this machine has none")
    return plain


def ping_of(hosts: Path, forks: int) -> list[str]:
    return ["ansible", "all", "-m", "ansible.builtin.ping", "-i", str(hosts), f"--forks={forks}"]


def small(table: Table, place: Path, sizes: t.Sequence[int], forks: int, first: bool = True) -> None:
    """(a), (b), (c): the product on hosts that need nothing, a ping of the same, its first run, and the usual playbook.

    Without the first runs, the usual playbook runs on few hosts.
    """
    plain = variables_of_usual(table, place)
    for size in sizes:
        times = REPEATED if first and size <= REPEATED_HOSTS else 1
        nodes = inventory(place, size, CONVERGED, "node")
        ping = table.measure(
            "ping", size, forks, middle(functools.partial(run, ping_of(nodes, forks), place, {}), times)
        )

        def compared(
            what: str,
            name: str,
            hosts: Path,
            *arguments: str,
            times: int = 1,
            size: int = size,
            ping: Run | None = ping,
        ) -> None:
            started = functools.partial(run, playbook(name, hosts, forks, *arguments), place, {})
            table.measure(what, size, forks, middle(started, times), ("ping", ping))

        compared("discover, nothing to do", "playbooks/discover.yml", nodes, times=times)
        compared(CONVERGED_ROW, "playbooks/prepare.yml", nodes, times=times)
        if first:
            fresh = inventory(place, size, UNPREPARED)
            compared("discover, first run", "playbooks/discover.yml", fresh)
            compared("prepare, first run --check", "playbooks/prepare.yml", fresh, "--check")
            all_roles(table, place, size, forks, plain, times)
        looked, options = "the usual playbook, --check", ("--check", "-e", json.dumps(plain))
        if first:
            compared(looked, "benchmarks/plain.yml", inventory(place, size, {}), *options)
        else:
            # it has no bound, and takes several times as long as all others together
            command = playbook("benchmarks/plain.yml", inventory(place, FEW, {}), forks, *options)
            table.measure(looked, FEW, forks, functools.partial(run, command, place, {}))


def all_roles(table: Table, place: Path, size: int, forks: int, plain: t.Mapping[str, t.Any], times: int) -> None:
    """(b), with all wishes: what it starts is counted; what the modules take is not in its time."""
    bare = lacking_hosts(place, size)
    copied = {"ANSIBLE_PIPELINING": "False"}
    started = functools.partial(run, playbook("playbooks/prepare.yml", bare, forks), place, copied)
    ours = table.measure(FIRST_ROW, size, forks, started)
    # all of its tasks, on the same hosts, where its modules do as little
    everything = json.dumps({**plain, "benchmark_modules": True, "benchmark_systemd": True})
    usual = functools.partial(run, playbook("benchmarks/plain.yml", bare, forks, "-e", everything), place, copied)
    table.measure(USUAL_ROW, size, forks, usual, ("ours", ours))
    # hosts of other rows do without the wishes: they are this machine
    again = middle(functools.partial(run, ping_of(bare, forks), place, copied), times)
    same = table.measure("ping of the same hosts", size, forks, again)
    table.measure(SECOND_ROW, size, forks, middle(started, times), ("ping", same))
    # it starts the same modules each time
    table.measure(USUAL_AGAIN_ROW, size, forks, middle(usual, times), ("ping", same))


def facts(table: Table, place: Path, hosts: int, forks: int) -> None:
    """(d): ib_facts on hosts with eight HCAs against the programs that people run."""
    here = inventory(place, hosts, CONVERGED, "node")
    module = ["ansible", "all", "-i", str(here), f"--forks={forks}", "-m"]
    wanted = ("ibstat", "lspci")
    programs = [each for each in wanted if shutil.which(each)] + [str(place / "ibdev2netdev")]
    if missing := [each for each in wanted if not shutil.which(each)]:
        table.say_left_out(f"{' and '.join(missing)} beside ib_facts: not installed here")

    # all in one task, so that both sides pay once for Ansible
    usual = functools.partial(run, [*module, "ansible.builtin.shell", "-a", " && ".join(programs)], place, {})
    together = table.measure(" + ".join(Path(each).name for each in programs), hosts, forks, usual)
    started = functools.partial(run, [*module, "fabric.rdma.ib_facts"], place, {})
    table.measure("ib_facts", hosts, forks, started, ("commands", together))


def cached(table: Table, place: Path, sizes: t.Sequence[int], forks: int) -> None:
    """(e): plan, its tables, and the report, of facts that a cache has."""
    known = place / "facts.json"
    known.write_text(json.dumps(gather(open_tree(str(CAPTURES / f"{CAPTURE}.capture")))))
    for size in sizes:
        if table.leave_out("plan and report, cached facts", size, OWN_MB + HOST_MB[PLAN_ROW] * size):
            continue
        cache = place / f"cache-{size}"
        env = {
            "ANSIBLE_CACHE_PLUGIN": "ansible.builtin.jsonfile",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(cache),
            "ANSIBLE_CACHE_PLUGIN_TIMEOUT": "0",
        }
        fill = [sys.executable, "-c", FILL, str(known), str(size)]
        subprocess.run(fill, env={**os.environ, **env}, check=True)
        hosts = inventory(place, size, {})
        nothing = functools.partial(run, playbook("benchmarks/nothing.yml", hosts, forks), place, env)
        least = table.measure("a play that does nothing", size, forks, nothing)
        for row, name in ((PLAN_ROW, "plan"), (REPORT_ROW, "report")):
            started = functools.partial(run, playbook(f"playbooks/{name}.yml", hosts, forks), place, env)
            table.measure(row, size, forks, started, ("nothing", least))
        shutil.rmtree(cache)


def site(table: Table, place: Path, sizes: t.Sequence[int], forks: int) -> None:
    """(f): the whole job on replayed hosts, as ansible-runner starts it, with the size of its events."""
    for size in sizes:
        if table.leave_out(SITE_ROW, size, OWN_MB + HOST_MB[SITE_ROW] * size):
            continue
        private = place / f"runner-{size}"
        (private / "env").mkdir(parents=True)
        hosts = inventory(place, size, {"rdma_capture": str(CAPTURES / f"{CAPTURE}.capture")})
        command = ["ansible-runner", "run", str(private), "--playbook", str(ROOT / "playbooks" / "site.yml")]
        command = [*command, "--inventory", str(hosts), "--forks", str(forks), "--quiet"]
        started = functools.partial(run, command, place, {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections")})
        table.measure(
            SITE_ROW,
            size,
            forks,
            started,
            events=lambda told=private: [each.stat().st_size for each in told.glob("artifacts/*/job_events/*.json")],
        )
        shutil.rmtree(private)


def free_mb() -> float:
    """Megabytes that the machine has for more processes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable"))


def furnish(place: Path) -> None:
    """The programs that hosts have, and what those that have to be converged find below /sys."""
    unpack(place)
    names = {"place": place, "python": sys.executable, "rights": "" if os.geteuid() == 0 else "--map-root-user"}
    programs = {"ibdev2netdev": IBDEV2NETDEV, "python": INTERPRETER.format(**names), "node": NODE.format(**names)}
    for name, text in programs.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


PARTS = ("small", "facts", "cached", "site")


def parts(text: str) -> list[str]:
    """ArgumentTypeError for one that there is not: nothing would be measured, and nothing wrong with it."""
    asked = text.split(",")
    if unknown := sorted(set(asked) - set(PARTS)):
        raise argparse.ArgumentTypeError(f"{', '.join(map(repr, unknown))} is not one of {', '.join(PARTS)}")
    return asked


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=numbers, default=[10, 50, 200], help="sizes of (a) to (c); (d) has the first")
    parser.add_argument("--cached", type=numbers, default=[100, 1000, 10_000], help="sizes of (e)")
    parser.add_argument("--site", type=numbers, default=[200, 1000], help="sizes of (f)")
    parser.add_argument("--forks", type=int, default=FORKS)
    parser.add_argument("--only", type=parts, default=list(PARTS), help=f"parts, of: {', '.join(PARTS)}")
    parser.add_argument("--generous", action="store_true")
    parser.add_argument("--json", type=Path, help="where the rows are kept; .cache/benchmark.json by default")
    return parser.parse_args(words)


def main() -> int:
    chosen = arguments()
    bound, bound_hosts = (GENEROUS, GENEROUS_HOSTS) if chosen.generous else (BOUND, BOUND_HOSTS)
    if chosen.generous:
        chosen.hosts, chosen.only = [GENEROUS_HOSTS], ["small"]
    file = chosen.json or kept.place(chosen.generous)
    print(", ".join(f"{key}: {value}" for key, value in kept.machine().items()))
    table = Table(file)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        furnish(place)
        if "small" in chosen.only:
            small(table, place, chosen.hosts, chosen.forks, first=not chosen.generous)
        if "facts" in chosen.only:
            facts(table, place, chosen.hosts[0], chosen.forks)
        if "cached" in chosen.only:
            cached(table, place, chosen.cached, chosen.forks)
        if "site" in chosen.only:
            site(table, place, chosen.site, chosen.forks)
    print(f"kept in {file}")
    wrong = table.wrong(bound, bound_hosts)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    # runs are in groups of their own, and end with this
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _frame: sys.exit(128 + number))
    sys.exit(main())
