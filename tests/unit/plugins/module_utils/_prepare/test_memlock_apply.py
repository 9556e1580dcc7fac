# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lifting the limit on a real containerd: change, again, predict, fail and put back, be killed and be undone."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._prepare import memlock_apply as _memlock_run
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_apply import lift
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_daemon import check_cri, cri_status
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import MemlockError, parse_wish
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.containerd_node import (
    CONFIG_2,
    CONFIG_3,
    GENERATIONS,
    HIGH,
    LOW,
    Machine,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.processes import Killed
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import documented, insist_on_return

LIMIT = {"soft": HIGH, "hard": HIGH}
ENTRY = {"type": "RLIMIT_MEMLOCK", **LIMIT}
SPEC = "etc/fabric-rdma-base.json"
DROP_IN = "units/containerd.service.d/90-fabric-rdma-memlock.conf"
Start = Callable[..., Machine]


def run(machine: Machine, check: bool = False, **wish: Any) -> dict[str, Any]:
    result: dict[str, Any] = lift(machine, parse_wish({**LIMIT, **wish}), check, limit(20))
    assert not list((machine.root / "scratch").iterdir())
    assert "never shown" not in json.dumps(result)
    assert bool(result["diff"]) is result["changed"]
    assert all(part["before"] != part["after"] for part in result["diff"])
    return result


def rlimits(machine: Machine, name: str = SPEC) -> Any:
    return json.loads(machine.files()[name])["process"]["rlimits"]


def notes(machine: Machine) -> dict[str, bytes]:
    """What runs keep, by its path without the name of the run."""
    top = Path(machine.state_directory)
    return {
        re.sub(r"^\d.*/", "", str(path.relative_to(top))): path.read_bytes()
        for path in top.rglob("*")
        if path.is_file()
    }


# containerd 1.x knows no version 3 of its configuration
@pytest.mark.parametrize(
    ("generation", "config"),
    [*((generation, CONFIG_2) for generation in GENERATIONS), ("2", CONFIG_3)],
    ids=[*GENERATIONS, "2-version3"],
)
def test_a_fresh_node_is_changed_as_predicted_and_only_once(start: Start, config: str) -> None:
    machine = start(config)
    before = machine.files()
    predicted = run(machine, check=True)
    assert (machine.files(), machine.starts) == (before, 1)

    result = run(machine)
    after = machine.files()
    assert sorted(set(after) - set(before)) == [SPEC, DROP_IN]
    assert [str(Path(path).relative_to(machine.root)) for path in result["files"]] == [SPEC, "etc/config.toml", DROP_IN]
    assert rlimits(machine) == [ENTRY]
    added = set(after["etc/config.toml"].splitlines()) - set(before["etc/config.toml"].splitlines())
    assert {line.split(b"=")[0].strip() for line in added} == {b"base_runtime_spec"}
    assert len(after["etc/config.toml"].splitlines()) == len(before["etc/config.toml"].splitlines()) + 2
    assert (result["changed"], result["restarted"], machine.starts) == (True, True, 2)
    both = {"base_runtime_spec": str(machine.root / SPEC), "memlock": LIMIT}
    assert result["handlers"] == {"nvidia": both, "runc": both}
    assert result["daemon"]["memlock"] == LIMIT
    for key in ("changed", "files", "diff", "reasons", "drift", "warnings", "stale_containers"):
        assert predicted[key] == result[key]
    assert predicted["handlers"] == result["handlers"]
    assert next(part["after"] for part in result["diff"]) == f"RLIMIT_MEMLOCK: soft {HIGH} hard {HIGH}\n"

    for check in (True, False):
        again = run(machine, check=check)
        assert (again["changed"], again["files"], again["diff"], machine.starts) == (False, [], [], 2)
    assert machine.files() == after
    kept = result["backups"][str(machine.config)]
    assert Path(kept).read_bytes() == before["etc/config.toml"]


def test_a_specification_of_another_containerd_is_shown_to_be_made_again(start: Start) -> None:
    """Its limits are what they were."""
    machine = start()
    run(machine)
    path = machine.root / SPEC
    spec = json.loads(path.read_text())
    path.write_text(json.dumps({**spec, "hostname": "of-an-old-one"}))
    for check in (True, False):
        result = run(machine, check=check)
        assert (result["changed"], result["files"]) == (True, [str(path)])
        assert [(part["before"], part["after"]) for part in result["diff"]] == [
            ("", "made from what containerd makes now\n")
        ]
    assert json.loads(path.read_text()) == spec
    assert run(machine)["changed"] is False


@pytest.mark.parametrize(
    "example", documented("containerd_memlock", "EXAMPLES"), ids=lambda task: task["name"].replace(" ", "-")
)
def test_an_example_lifts_the_limit(start: Start, example: dict[str, Any]) -> None:
    """As far as this machine may: unlimited memory needs a privilege."""
    machine = start()
    wish = example["fabric.rdma.containerd_memlock"] or {}
    assert not {"soft", "hard"} & set(wish)
    for changed in (True, False):
        result = run(machine, **wish)
        assert result["changed"] is changed
        insist_on_return("containerd_memlock", result)
        lifted = {name for name, entry in result["handlers"].items() if entry["memlock"] == LIMIT}
        assert set(wish.get("handlers", ["nvidia", "runc"])) <= lifted


def test_limit_alone_leaves_the_configuration(start: Start) -> None:
    machine = start()
    config = machine.config.read_bytes()
    predicted = run(machine, check=True, method="limit")
    result = run(machine, method="limit")
    assert (predicted["changed"], predicted["diff"]) == (True, result["diff"])
    assert (machine.config.read_bytes(), list(machine.files())) == (config, ["etc/config.toml", DROP_IN])
    assert result["handlers"]["runc"] == {"base_runtime_spec": None, "memlock": LIMIT}
    assert run(machine, method="limit")["changed"] is False


def test_only_the_handlers_that_are_asked_for_change(start: Start) -> None:
    machine = start()
    result = run(machine, handlers=["nvidia"])
    assert {name: handler["base_runtime_spec"] for name, handler in result["handlers"].items()} == {
        "nvidia": str(machine.root / SPEC),
        "runc": None,
    }
    assert run(machine, handlers=["nvidia"])["changed"] is False
    with pytest.raises(MemlockError, match=r"^containerd has no runtime handler kata; it has nvidia, runc$"):
        run(machine, handlers=["kata"])


def foreign(machine: Machine, *entries: dict[str, Any]) -> Path:
    """A specification of somebody else, configured for runc."""
    status, output, _error = machine.command([os.path.join(machine.directory, "ctr"), "oci", "spec"])
    assert status == 0
    spec = json.loads(output)
    spec["process"]["rlimits"] = list(entries)
    path = machine.root / "etc/cri-base.json"
    path.write_text(json.dumps(spec))
    text = machine.config.read_text()
    header = "runtimes.runc]\n"
    machine.config.write_text(text.replace(header, f'{header}base_runtime_spec = "{path}"\n', 1))
    machine.command(["systemctl", "restart", "containerd.service"])
    return path


def test_a_specification_of_somebody_else_is_adopted(start: Start) -> None:
    machine = start()
    nofile = {"type": "RLIMIT_NOFILE", "hard": 65535, "soft": 65535}
    theirs = foreign(machine, nofile)
    data = theirs.read_bytes()
    result = run(machine)
    assert result["handlers"]["runc"]["base_runtime_spec"] == str(machine.root / "etc/fabric-rdma-from-cri-base.json")
    assert rlimits(machine, "etc/fabric-rdma-from-cri-base.json") == [nofile, ENTRY]
    assert theirs.read_bytes() == data
    assert run(machine)["changed"] is False


def test_a_specification_with_which_no_container_would_start(start: Start) -> None:
    machine = start()
    foreign(machine, {"type": "RLIMIT_NOPE", "hard": 1, "soft": 1})
    before, starts = machine.files(), machine.starts
    with pytest.raises(MemlockError, match=r"cri-base\.json has the rlimit RLIMIT_NOPE, which runc does not know"):
        run(machine)
    assert (machine.files(), machine.starts) == (before, starts)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"KillMode": "control-group"}, "has KillMode=control-group: a restart would kill every Pod of the node"),
        ({"KillMode": ""}, r"`systemctl show containerd\.service` did not say what a restart of it kills"),
    ],
)
def test_a_unit_that_makes_a_restart_unsafe(start: Start, properties: dict[str, str], message: str) -> None:
    machine = start()
    machine.properties = properties
    before = machine.files()
    with pytest.raises(MemlockError, match=message):
        run(machine)
    assert (machine.files(), machine.starts) == (before, 1)


def test_a_limit_that_cannot_be_raised(start: Start) -> None:
    machine = start()
    machine.may_raise = False
    with pytest.raises(MemlockError, match=r"^containerd may lock .*it lacks CAP_SYS_RESOURCE"):
        run(machine)
    # what is there already needs no right
    assert run(machine, soft=LOW, hard=HIGH)["restarted"] is True


def test_a_drop_in_of_somebody_else_that_has_the_last_word(start: Start) -> None:
    machine = start()
    later = machine.root / "units/zz-limits.conf"
    later.write_text("[Service]\nLimitMEMLOCK=64K\n")
    machine.properties = {"DropInPaths": f"/x/10-a.conf {later}"}
    with pytest.raises(
        MemlockError, match=r"zz-limits\.conf sets LimitMEMLOCK after 90-fabric-rdma-memlock\.conf would"
    ):
        run(machine)


@pytest.mark.parametrize("restarted", [True, False])
def test_a_drop_in_of_somebody_else_that_comes_later_is_not_answered_with_restarts(
    start: Start, restarted: bool
) -> None:
    """Ours is there, theirs has the last word: a restart does not raise the limit, or takes it from a daemon that has it."""
    machine = start()
    run(machine, method="limit")
    later = Path(machine.unit_directory) / "containerd.service.d/zz-limits.conf"
    later.write_text(f"[Service]\nLimitMEMLOCK={LOW}\n")
    machine.properties = {"DropInPaths": f"{machine.root / DROP_IN} {later}"}
    machine.command(["systemctl", "daemon-reload"])
    if restarted:
        machine.command(["systemctl", "restart", "containerd.service"])
    before, starts = machine.files(), machine.starts
    with pytest.raises(
        MemlockError, match=r"zz-limits\.conf sets LimitMEMLOCK after 90-fabric-rdma-memlock\.conf would"
    ):
        run(machine, method="limit" if restarted else "spec")
    assert (machine.files(), machine.starts) == (before, starts)


def test_a_later_drop_in_that_is_enough_is_left_alone(start: Start) -> None:
    machine = start()
    later = Path(machine.unit_directory) / "containerd.service.d/zz-limits.conf"
    later.parent.mkdir()
    later.write_text(f"[Service]\nLimitMEMLOCK={HIGH}\n")
    machine.properties = {"DropInPaths": str(later)}
    machine.command(["systemctl", "daemon-reload"])
    assert run(machine, method="limit")["daemon"]["memlock"] == LIMIT
    assert later.exists()


def test_gpus_that_a_reload_of_systemd_takes_from_containers(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = start()
    monkeypatch.setattr(machine, "unlinked_gpus", lambda: ["nvidia0"])
    for check in (True, False):
        (warning,) = run(machine, check, method="limit")["warnings"]
        assert warning.startswith("nvidia0 has no link in /dev/char: containers that use GPUs may lose them")
    # nothing is reloaded where nothing changes, also where somebody else's change of the unit waits for it
    assert run(machine, method="limit")["warnings"] == []
    machine.properties = {"NeedDaemonReload": "yes"}
    assert run(machine, method="limit")["warnings"] == []


def test_a_runtime_that_is_ill_before(start: Start) -> None:
    machine = start()
    text = machine.config.read_text()
    machine.config.write_text(
        text.replace("runtimes.runc]\n", 'runtimes.runc]\nbase_runtime_spec = "/nowhere.json"\n', 1)
    )
    machine.command(["systemctl", "restart", "containerd.service"])
    before = machine.files()
    with pytest.raises(MemlockError, match=r"^containerd is not healthy, and nothing was changed: .*nowhere\.json"):
        run(machine)
    assert machine.files() == before


@pytest.mark.parametrize("method", ["spec", "limit"])
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('[TABLE]\ndefault_runtime_name = "absent"\n', "default_runtime_name absent, .*it has nvidia, runc"),
        ("[TABLE.runtimes.bare]\n", "handler bare has no runtime_type"),
    ],
    ids=["default", "type"],
)
def test_files_with_which_the_next_start_would_be_worse_stop_the_run(
    start: Start, method: str, lines: str, message: str
) -> None:
    """containerd runs well, on what its files were; with what they are now its CRI, or some Pods, would not come back."""
    machine = start()
    table = 'plugins."io.containerd.grpc.v1.cri".containerd'
    machine.config.write_text(machine.config.read_text() + lines.replace("TABLE", table))
    before = machine.files()
    with pytest.raises(MemlockError, match=message):
        run(machine, method=method)
    assert (machine.files(), machine.starts) == (before, 1)


def _with_a_link_to_nowhere(machine: Machine) -> str:
    directory = machine.config.parent / "conf.d"
    directory.mkdir()
    (directory / "50-gone.toml").symlink_to("/nowhere/gone.toml")
    return r"50-gone\.toml"


def _with_an_import_that_is_gone(machine: Machine) -> str:
    text = machine.config.read_text()
    machine.config.write_text(text.replace("imports = [", 'imports = ["/nowhere/gone.toml", '))
    return r"/nowhere/gone\.toml"


def _with_a_specification_that_is_gone(machine: Machine) -> str:
    text = machine.config.read_text()
    setting = 'base_runtime_spec = "/nowhere/base.json"\n'
    machine.config.write_text(text.replace("runtimes.runc]\n", f"runtimes.runc]\n{setting}", 1))
    return r"^base_runtime_spec /nowhere/base\.json of the runtime handler runc is not there; after its next start"


def _with_a_specification_that_is_damaged(machine: Machine) -> str:
    path = machine.config.parent / "base.json"
    path.write_text("{")
    text = machine.config.read_text()
    machine.config.write_text(text.replace("runtimes.runc]\n", f'runtimes.runc]\nbase_runtime_spec = "{path}"\n', 1))
    return r"base\.json is not JSON that containerd could read"


@pytest.mark.parametrize(
    "wish", [{"method": "limit"}, {"method": "spec", "handlers": ["nvidia"]}], ids=["limit", "spec"]
)
@pytest.mark.parametrize(
    "breaks",
    [
        _with_a_link_to_nowhere,
        _with_an_import_that_is_gone,
        _with_a_specification_that_is_gone,
        _with_a_specification_that_is_damaged,
    ],
)
def test_files_that_went_since_containerd_started_stop_the_run(
    start: Start, breaks: Callable[[Machine], str], wish: dict[str, Any]
) -> None:
    """It runs well without them, and a restart for a limit would be its end: neither does it come back, nor with the old files."""
    machine = start()
    message = breaks(machine)
    before = machine.files()
    with pytest.raises(FabricError, match=message):
        run(machine, **wish)
    assert (machine.files(), machine.starts, healthy(machine)) == (before, 1, True)


def _take_nvidia_out(machine: Machine) -> None:
    parts = re.split(r"(?m)^(?=\s*\[)", machine.config.read_text())
    machine.config.write_text("".join(part for part in parts if "nvidia" not in part.partition("]")[0]))


@pytest.mark.parametrize("wish", [{"method": "limit"}, {"method": "spec", "handlers": ["runc"]}], ids=["limit", "spec"])
def test_a_handler_that_went_since_containerd_started_stops_the_run(start: Start, wish: dict[str, Any]) -> None:
    """What somebody else has taken out, and not restarted containerd for, does not go with a restart for a limit."""
    machine = start()
    _take_nvidia_out(machine)
    before = machine.files()
    with pytest.raises(
        MemlockError, match=r"^containerd runs with the runtime handler nvidia, which its files .* any more"
    ):
        run(machine, **wish)
    assert (machine.files(), machine.starts) == (before, 1)


def test_a_handler_that_went_is_no_matter_of_a_node_on_which_nothing_is_to_be_done(start: Start) -> None:
    machine = start()
    run(machine, method="limit")
    _take_nvidia_out(machine)
    for check in (True, False):
        assert run(machine, check, method="limit")["changed"] is False


def read_by_nvidia(machine: Machine, path: str) -> None:
    """containerd has read a specification for the handler nvidia."""
    text = machine.config.read_text()
    setting = f'base_runtime_spec = "{path}"\n'
    machine.config.write_text(text.replace("runtimes.nvidia]\n", f"runtimes.nvidia]\n{setting}", 1))
    machine.command(["systemctl", "restart", "containerd.service"])


def test_a_specification_that_containerd_has_read_is_no_reason_to_refuse(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse one, at a path relative to the directory of containerd, which we would not take for our own."""
    machine = start()
    path = machine.root / "etc/sparse.json"
    path.write_text('{"ociVersion": "1.0.2", "linux": {}}')
    read_by_nvidia(machine, os.path.relpath(path))
    assert healthy(machine)
    with monkeypatch.context() as patched:
        patched.chdir("/")
        assert run(machine, check=True, method="limit")["changed"] is True
    assert run(machine, method="limit")["daemon"]["memlock"] == LIMIT
    assert healthy(machine)


def test_a_damaged_specification_with_the_time_of_a_good_one_stops_the_run(start: Start) -> None:
    """As rsync leaves it, or cp -p of half a file."""
    machine = start()
    path = machine.root / "etc/theirs.json"
    path.write_text('{"ociVersion": "1.0.2", "process": {}}')
    read_by_nvidia(machine, str(path))
    path.write_text('{"ociVersion": "1.0.2", "proc')
    os.utime(path, (0, 0))
    with pytest.raises(MemlockError, match=r"theirs\.json is not JSON"):
        run(machine, method="limit")
    assert (machine.starts, healthy(machine)) == (2, True)


def test_our_own_specification_that_is_gone_is_made_again(start: Start) -> None:
    machine = start()
    run(machine)
    (machine.root / SPEC).unlink()
    assert run(machine)["files"] == [str(machine.root / SPEC)]
    assert healthy(machine)


@pytest.mark.parametrize("method", ["spec", "limit"])
def test_a_node_without_containerd_is_left_alone(start: Start, method: str) -> None:
    """As with CRI-O, which is told what to do instead."""
    machine = start()
    machine.stop()
    before = machine.files()
    for check in (True, False):
        with pytest.raises(
            MemlockError,
            match=r"^no containerd that serves Kubernetes runs here.* for CRI-O default_ulimits in crio\.conf\.d",
        ):
            run(machine, check, method=method)
    assert (machine.files(), list(notes(machine)), machine.starts, machine.pids()) == (before, ["lock"], 1, [])


def test_an_edit_that_would_change_something_else_is_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = start()
    before = machine.files()
    real = _memlock_run._edit.plan_edits

    def more(*arguments: Any, **keywords: Any) -> Any:
        plan = real(*arguments, **keywords)
        edits = {
            path: text.replace("SystemdCgroup = true", "SystemdCgroup = false") for path, text in plan.edits.items()
        }
        return plan._replace(edits=edits)

    def none(*arguments: Any, **keywords: Any) -> Any:
        plan = real(*arguments, **keywords)
        return plan._replace(edits={})

    monkeypatch.setattr(_memlock_run._edit, "plan_edits", more)
    with pytest.raises(
        MemlockError, match=r"the edit would change .*SystemdCgroup, too, as containerd merges its files"
    ):
        run(machine)
    monkeypatch.setattr(_memlock_run._edit, "plan_edits", none)
    with pytest.raises(MemlockError, match="no effect on the runtime handler nvidia, runc: another file"):
        run(machine)
    assert (machine.files(), machine.starts) == (before, 1)


# --- failures after the restart ---------------------------------------------------------------------------------------


def break_specification(machine: Machine) -> None:
    """A specification that containerd cannot read appears between the writing and the restart."""
    real = machine.step

    def step(name: str) -> None:
        if name == "proved":
            (machine.root / SPEC).write_text("[]")
        real(name)

    machine.step = step  # type: ignore[method-assign]


def test_a_plugin_in_error_is_rolled_back(start: Start) -> None:
    machine = start()
    before = machine.files()
    break_specification(machine)
    with pytest.raises(MemlockError, match=r"the plugin (cri|runtime) of .* is in state error: .*") as error:
        run(machine)
    assert "The old configuration is back and containerd healthy with it" in str(error.value)
    assert "cannot unmarshal array" in str(error.value)
    after = machine.files()
    # what somebody else wrote in our place is not ours to take away, and nobody names it
    assert after.pop(SPEC) == b"[]"
    assert after == before
    assert machine.starts == 3
    assert run(machine, check=True)["changed"] is True


def test_a_daemon_that_does_not_start_is_rolled_back(start: Start) -> None:
    machine = start()
    before = machine.files()
    real = machine.step

    def step(name: str) -> None:
        if name == "proved":
            machine.answers = {"systemctl restart": (1, "", "Job failed.")}
        if name == "undone":
            machine.answers = {}
        real(name)

    machine.step = step  # type: ignore[method-assign]
    with pytest.raises(
        MemlockError, match=r"^containerd does not start: its log says why .*The old configuration is back"
    ):
        run(machine)
    assert machine.files() == before


def test_a_limit_that_did_not_take(start: Start) -> None:
    machine = start()
    before = machine.files()
    machine.answers = {"daemon-reload": (0, "", "")}
    with pytest.raises(
        MemlockError, match=r"containerd may still lock only .* after the restart. The old configuration is"
    ):
        run(machine)
    assert machine.files() == before


def test_the_old_configuration_that_is_ill_too(start: Start) -> None:
    machine = start()
    before = machine.files()
    machine.answers = {"systemctl restart": (1, "", "Job failed.")}
    with pytest.raises(MemlockError, match=r"containerd is NOT healthy with them, either.*This node needs a look now"):
        run(machine)
    assert machine.files() == before
    machine.answers = {}
    machine.stop()
    assert run(machine)["recovered"] is True


# --- killed -----------------------------------------------------------------------------------------------------------

STEPS = (
    "planned",
    "journal",
    "staged",
    "written fabric-rdma-base.json",
    "written config.toml",
    "written 90-fabric-rdma-memlock.conf",
    "reloaded",
    "proved",
    "restarted",
    "healthy",
    "finished",
    "recorded",
)
# The second reading of a configuration is that of the candidate.
MERGES = "containerd .*config dump"
RELOADS, RESTARTS = (f"systemctl {words}" for words in ("daemon-reload", "restart containerd.service"))
RESTORED = tuple(f"restored {step.partition(' ')[2]}" for step in reversed(STEPS) if step.startswith("written "))
# Those of the way back from a start that fails, which is that of the first restart.
BACK = (*((step, 1) for step in RESTORED), ("undone", 1), ("restarted", 2), ("healthy", 1), ("finished", 1))
Files = dict[str, bytes]


def fresh(machine: Machine, check: bool = False, **wish: Any) -> dict[str, Any]:
    """A run in a process of its own."""
    return machine.apart(lambda: run(machine, check, **wish))


def kill(machine: Machine, at: str, occurrence: int = 1) -> None:
    """A run that gets SIGKILL."""
    with pytest.raises(Killed):
        machine.apart(lambda: run(machine), at, occurrence)


def relative(machine: Machine) -> Files:
    return {name: data.replace(str(machine.root).encode(), b"ROOT") for name, data in machine.files().items()}


def healthy(machine: Machine) -> bool:
    return check_cri(machine, os.path.join(machine.directory, "ctr"), machine.address) is None


def assert_nothing_is_left(machine: Machine, before: Files) -> None:
    """No file that nobody needs, no lock, no journal; every copy is of the state before the first run, and containerd is healthy."""
    found = notes(machine)
    assert set(found) <= {"lock", "last.json", "1-config.toml"}
    assert found.get("1-config.toml", before["etc/config.toml"]) == before["etc/config.toml"]
    assert not [name for name in machine.files() if ".fabric-rdma-" in name]
    assert not list((machine.root / "scratch").iterdir())
    with open(os.path.join(machine.state_directory, "lock")) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert healthy(machine)


@pytest.fixture(scope="module")
def ends() -> dict[str, Files]:
    """The files after a run that nobody has disturbed, by generation."""
    return {}


@pytest.fixture
def undisturbed(start: Start, generation: str, ends: dict[str, Files]) -> Files:
    """Those of this generation."""
    if generation not in ends:
        machine = start()
        fresh(machine)
        assert tuple(" ".join(map(os.path.basename, name.split())) for name in machine.steps) == STEPS
        ends[generation] = relative(machine)
        machine.stop()
    return ends[generation]


def assert_done(machine: Machine, before: Files, undisturbed: Files, changed: bool, recovered: bool) -> None:
    """The next run ends where one that nobody has disturbed ends, and the one after it has nothing to do."""
    result = fresh(machine)
    assert (result["changed"], result["recovered"]) == (changed, recovered)
    assert relative(machine) == undisturbed
    assert_nothing_is_left(machine, before)
    if changed:
        assert Path(result["backups"][str(machine.config)]).read_bytes() == before["etc/config.toml"]
    assert {handler["memlock"]["hard"] for handler in result["handlers"].values()} == {HIGH}
    assert result["daemon"]["memlock"] == LIMIT
    again = fresh(machine)
    assert (again["changed"], again["recovered"], again["handlers"]) == (False, False, result["handlers"])


@pytest.mark.parametrize(
    ("at", "occurrence"),
    [*((step, 1) for step in STEPS), (MERGES, 2), (RELOADS, 1), (RESTARTS, 1)],
    ids=[*STEPS, "candidate", "reloading", "restarting"],
)
def test_the_next_run_completes_what_was_killed_between_any_two_steps(
    start: Start, undisturbed: Files, at: str, occurrence: int
) -> None:
    """The node works; the next run predicts what it then does, and ends where one that was never disturbed ends."""
    machine = start()
    before = machine.files()
    kill(machine, at, occurrence)
    assert healthy(machine)
    left, starts = (machine.files(), notes(machine)), machine.starts
    predicted = fresh(machine, check=True)
    assert ((machine.files(), notes(machine)), machine.starts) == (left, starts)
    done = at in ("finished", "recorded")
    assert (predicted["changed"], predicted["recovered"]) == (not done, not done and "journal.json" in left[1])
    assert predicted["files"] == (
        [] if done else [str(machine.root / name) for name in (SPEC, "etc/config.toml", DROP_IN)]
    )
    assert_done(machine, before, undisturbed, predicted["changed"], predicted["recovered"])


@pytest.mark.parametrize("at", STEPS[3:6])
def test_killed_and_containerd_is_restarted_by_somebody_else(start: Start, undisturbed: Files, at: str) -> None:
    """It comes up with what was left there, whatever part of the change that is."""
    machine = start()
    before = machine.files()
    kill(machine, at)
    for words in (RELOADS, RESTARTS):
        assert machine.command(words.split())[0] == 0
    assert healthy(machine)
    assert_done(machine, before, undisturbed, True, True)


def does_not_start(machine: Machine) -> None:
    """Something keeps the unit from starting as long as our specification is there."""
    machine.may_start = lambda: not (machine.root / SPEC).exists()


@pytest.mark.parametrize(("at", "occurrence"), BACK, ids=[step for step, _number in BACK])
def test_the_next_run_completes_what_was_killed_on_the_way_back(
    start: Start, undisturbed: Files, at: str, occurrence: int
) -> None:
    """containerd did not start, and what puts the old files back is killed, too."""
    machine = start()
    before = machine.files()
    does_not_start(machine)
    kill(machine, at, occurrence)
    back = at == "finished"
    machine.may_start = lambda: True
    assert back == ("journal.json" not in notes(machine))
    if back:
        assert machine.files() == before
        assert_nothing_is_left(machine, before)
    assert_done(machine, before, undisturbed, True, not back)


def test_what_is_killed_over_and_over_again_is_put_right(start: Start) -> None:
    """containerd is down, and runs that put it right are killed one step later each; one that is not fails as the first one would have."""
    machine = start()
    before, handlers = machine.files(), cri_status(machine, machine.address)["handlers"]
    does_not_start(machine)
    kill(machine, "restarted")
    assert not healthy(machine)
    with pytest.raises(
        MemlockError, match=r"^a run that began at .* was killed, and left this: no containerd .* without check mode"
    ):
        fresh(machine, check=True)
    for at in (*RESTORED, "recovered", RESTARTS, "restarted", "healthy", "planned"):
        machine.stop()
        kill(machine, at)
    assert (machine.files(), healthy(machine)) == (before, True)
    with pytest.raises(
        MemlockError, match=r"^containerd does not start: .*The old configuration is back and containerd healthy"
    ):
        fresh(machine)
    assert (machine.files(), cri_status(machine, machine.address)["handlers"]) == (before, handlers)
    assert_nothing_is_left(machine, before)


def test_killed_with_a_daemon_that_is_down(start: Start, undisturbed: Files) -> None:
    machine = start()
    before = machine.files()
    kill(machine, "reloaded")
    machine.stop()
    assert_done(machine, before, undisturbed, True, True)


def test_what_was_half_noted_is_removed(start: Start, undisturbed: Files) -> None:
    """All is done: the next run has nothing to do but to remove what was half written."""
    machine = start()
    before = machine.files()
    kill(machine, "os.rename last.json.new last.json")
    assert "last.json.new" in notes(machine)
    assert_done(machine, before, undisturbed, False, False)


def test_restarted_when_files_are_newer_than_the_daemon(start: Start) -> None:
    machine = start()
    run(machine)
    path = machine.root / SPEC
    # the same content is known to be loaded, whatever its time is
    os.utime(path)
    assert run(machine)["changed"] is False
    (Path(machine.state_directory) / "last.json").unlink()
    result = run(machine)
    assert (result["changed"], result["files"]) == (True, [])
    assert result["reasons"] == [f"{path} was changed after containerd had started"]
    assert run(machine)["changed"] is False


def test_restarted_for_a_specification_that_came_with_an_old_time(start: Start) -> None:
    """As by `cp -p`, rsync or tar: discovery says of the host that its containerd has not read it."""
    machine = start()
    run(machine)
    (Path(machine.state_directory) / "last.json").unlink()
    path = machine.root / SPEC
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    os.utime(copy, (0, 0))
    copy.replace(path)
    assert run(machine)["reasons"] == [f"{path} was changed after containerd had started"]


def test_not_restarted_over_and_over_for_a_time_to_come(start: Start) -> None:
    """As a clock that was wrong leaves behind."""
    machine = start()
    run(machine)
    path = machine.root / SPEC
    os.utime(path, (time.time() + 3600, time.time() + 3600))
    machine.command(["systemctl", "restart", "containerd.service"])
    assert run(machine)["changed"] is False


def test_a_restart_that_does_not_help_is_not_made_twice(start: Start) -> None:
    """Where no file was changed, none can be put back."""
    machine = start()
    run(machine)
    (Path(machine.state_directory) / "last.json").unlink()
    path = machine.root / SPEC
    os.utime(path)
    before, restarts = machine.files(), []
    real = machine.command

    def command(words: list[str], *more: Any) -> Any:
        if " ".join(words).startswith("systemctl restart"):
            restarts.append(words)
            return 1, "", "Job failed."
        return real(words, *more)

    machine.command = command  # type: ignore[method-assign]
    with pytest.raises(MemlockError, match=r"No file was changed, so none is put back$"):
        run(machine)
    assert len(restarts) == 1
    assert machine.files() == before


def test_a_restart_that_leaves_containerd_down_is_tried_again_also_by_the_next_run(start: Start) -> None:
    machine = start()
    run(machine)
    (Path(machine.state_directory) / "last.json").unlink()
    path = machine.root / SPEC
    os.utime(path)
    machine.may_start = lambda: False
    with pytest.raises(MemlockError, match=r"NOT healthy with them, either"):
        run(machine)
    assert not healthy(machine)
    machine.may_start = lambda: True
    assert run(machine)["recovered"] is True
    assert healthy(machine)


def test_a_run_that_stops_after_it_has_undone_a_killed_one_says_so(start: Start) -> None:
    machine = start()
    before = machine.files()
    kill(machine, "healthy")
    with pytest.raises(
        MemlockError, match=r"no runtime handler \W?nothing.*containerd has not read them yet: the next run"
    ):
        run(machine, handlers=["nothing"])
    assert machine.files() == before
    assert "journal.json" in notes(machine)
    assert run(machine)["recovered"] is True


def edits(machine: Machine, at: str, edit: Callable[[], None]) -> None:
    """Somebody else changes something at a step of the run."""
    real = machine.step

    def step(name: str) -> None:
        if name == at:
            edit()
        real(name)

    machine.step = step  # type: ignore[method-assign]


def append(path: Path, text: str) -> Callable[[], None]:
    return lambda: path.write_text(path.read_text() + text) and None


@pytest.mark.parametrize(
    "at", ["planned", "journal", "staged", "written etc/fabric-rdma-base.json", "written etc/config.toml"]
)
def test_an_edit_of_somebody_else_stays_whenever_it_comes(start: Start, at: str) -> None:
    """It is there afterwards, the run says so, and containerd works, also after a restart."""
    machine = start()
    at = at.replace("etc/", f"{machine.root}/etc/")
    edits(machine, at, append(machine.config, "# theirs\n"))
    with (
        pytest.raises(FabricError, match=r"config\.toml was changed by somebody else")
        if "config" not in at
        else contextlib.nullcontext()
    ):
        run(machine)
    assert machine.config.read_text().endswith("# theirs\n")
    assert ("base_runtime_spec" in machine.config.read_text()) == ("config" in at)
    machine.step = lambda name: None  # type: ignore[method-assign]
    machine.command(["systemctl", "restart", "containerd.service"])
    assert run(machine)["changed"] is ("config" not in at)
    assert "# theirs" in machine.config.read_text()


@pytest.mark.parametrize("at", ["planned", "journal", "staged"])
def test_a_drop_in_of_somebody_else_meanwhile_undoes_the_plan(start: Start, at: str) -> None:
    """The plan was made without it: nothing is kept of what would now mean something else."""
    machine = start()
    before = machine.files()
    theirs = machine.root / "etc/conf.d/99-theirs.toml"
    table = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc'

    def edit() -> None:
        theirs.parent.mkdir()
        theirs.write_text(f'version = 2\n[{table}]\nbase_runtime_spec = ""\n')

    edits(machine, at, edit)
    with pytest.raises(FabricError, match=r"(no effect on the runtime handler runc|The old configuration is back)"):
        run(machine)
    after = machine.files()
    assert after.pop("etc/conf.d/99-theirs.toml")
    assert after == before


def test_their_edit_of_our_file_and_a_change_that_fails(start: Start) -> None:
    """What they made of our file names our specification: containerd would not come back without it."""
    machine = start()

    def edit() -> None:
        append(machine.config, "# theirs\n")()
        machine.answers = {"systemctl restart": (1, "", "Job failed.")}

    edits(machine, "proved", edit)
    with pytest.raises(MemlockError, match="containerd does not start"):
        run(machine)
    machine.answers = {}
    machine.step = lambda name: None  # type: ignore[method-assign]
    assert "# theirs" in machine.config.read_text()
    machine.command(["systemctl", "restart", "containerd.service"])
    assert check_cri(machine, os.path.join(machine.directory, "ctr"), machine.address) is None


def test_a_disk_that_is_full_at_the_very_end(start: Start) -> None:
    """containerd runs with what was wanted: the change stays, and the next run has nothing to do."""
    machine = start()
    record = Path(machine.state_directory) / "last.json.new"
    # the room for it is taken
    edits(machine, "healthy", lambda: (record / "x").mkdir(parents=True))
    result = run(machine)
    assert (result["changed"], result["restarted"]) == (True, True)
    assert len(result["warnings"]) == 1
    assert str(machine.state_directory) in result["warnings"][0]
    machine.step = lambda name: None  # type: ignore[method-assign]
    (record / "x").rmdir()
    record.rmdir()
    again = run(machine)
    assert (again["changed"], again["recovered"]) == (False, False)


def test_of_two_runs_at_once_the_second_fails(start: Start) -> None:
    machine = start()
    messages = []
    real = machine.step

    def step(name: str) -> None:
        if name == "staged":
            with pytest.raises(MemlockError) as error:
                lift(machine, parse_wish(LIMIT), False, 5)
            messages.append(str(error.value))
        real(name)

    machine.step = step  # type: ignore[method-assign]
    run(machine)
    assert len(messages) == 1
    assert re.match("another run changes containerd on this node now", messages[0])
