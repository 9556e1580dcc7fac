# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules run for real: as a process that reads its arguments and prints JSON, as on a node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import summary
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, checked, lay, unpacked
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.forked import python

CAPTURE = CAPTURES / "ib-a100-1.capture"


def run(module: str, check: bool = False, prelude: str = "", **arguments: Any) -> dict[str, Any]:
    """The same without what is not the module's own: its arguments, and what exit_json() says of a file."""
    result = answer(module, check, prelude, **arguments)
    for key in ("invocation", "gid", "group", "mode", "owner", "state", "uid"):
        result.pop(key, None)
    return result


def answer(module: str, check: bool = False, prelude: str = "", **arguments: Any) -> dict[str, Any]:
    """What a module prints, or {"killed": True}. prelude: code that its process runs first, to put faults in its way."""
    given = {"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check, "_ansible_remote_tmp": "/tmp"}}
    # ansible-core 2.19 and newer want to know how the arguments are encoded
    bootstrap = (
        "import sys, runpy\n"
        "try:\n"
        "    from ansible.module_utils.testing import patch_module_args\n"
        "except ImportError:\n"
        "    import ansible.module_utils.basic as basic, json\n"
        "    basic._ANSIBLE_ARGS = sys.argv[2].encode()\n"
        "    runpy.run_module(sys.argv[1], run_name='__main__')\n"
        "else:\n"
        "    import json\n"
        "    with patch_module_args(json.loads(sys.argv[2])['ANSIBLE_MODULE_ARGS']):\n"
        "        runpy.run_module(sys.argv[1], run_name='__main__')\n"
    )
    name = f"ansible_collections.fabric.rdma.plugins.modules.{module}"
    code, out, err = python(prelude + bootstrap, [name, json.dumps(given)], limit(120))
    if code == -signal.SIGKILL:
        return {"killed": True}
    assert out, err
    return dict(json.loads(out))


@pytest.mark.parametrize("check", [False, True])
def test_ib_facts_returns_what_a_capture_shows(check: bool) -> None:
    result = run("ib_facts", check, root=unpacked(CAPTURE))
    assert result == {"changed": False, "ansible_facts": {"rdma": gather(open_tree(str(CAPTURE)))}}


def test_ib_facts_has_the_subsets_that_were_asked_for() -> None:
    result = run("ib_facts", root=unpacked(CAPTURE), gather_subset=["gpus"])
    assert set(result["ansible_facts"]["rdma"]) == {"schema", "gpus", "nvidia", "warnings"}


def test_link_counters_are_those_of_the_facts() -> None:
    capture = CAPTURES / "roce-rails-1.capture"
    result = run("link_counters", root=unpacked(capture))
    health = gather(open_tree(str(capture)), ["health"])["health"]
    reading = {"uptime_s": None, "boot_id": None, "ports": health["ports"], "netdevs": health["netdevs"]}
    assert result == {"changed": False, "reading": reading}


def test_link_counters_are_read_on_this_machine() -> None:
    assert run("link_counters")["reading"]["uptime_s"] > 0
    assert run("link_counters", root="/dev/null")["msg"].startswith("root '/dev/null' is not a directory")


def test_ib_facts_of_this_machine_fit_their_schema() -> None:
    checked(run("ib_facts")["ansible_facts"]["rdma"])


def test_ib_facts_of_names_that_are_no_text(tmp_path: Path) -> None:
    machine = Machine()
    machine.netdev("eth\udcff", machine.nic())
    lay(machine.entries, tmp_path)
    facts = checked(run("ib_facts", root=str(tmp_path))["ansible_facts"]["rdma"])
    assert facts["devices"][0]["netdevs"] == ["eth0", "eth?"]


def one_port(path: Path, state: str) -> Path:
    """The files of a node with one port in some state, which are there as a whole or not at all."""
    machine = Machine()
    machine.port(machine.hca("mlx5_0", machine.function("0000:3b:00.0")), state=state, link_layer="InfiniBand")
    files = path.parent / f"{path.name} {state[0]}"
    if not files.exists():
        lay(machine.entries, files)
    (path.parent / "next").symlink_to(files)
    (path.parent / "next").replace(path)
    return path


def test_ib_facts_waits_for_the_ports_that_were_active(tmp_path: Path) -> None:
    """After a boot, a port of InfiniBand is Init until a subnet manager has been there."""
    path = one_port(tmp_path / "node", "4: ACTIVE")
    before = run("ib_facts", root=str(path))["ansible_facts"]["rdma"]
    one_port(path, "2: INIT")
    later = threading.Timer(2, one_port, (path, "4: ACTIVE"))
    later.start()
    after = run("ib_facts", root=str(path), before=before)["ansible_facts"]["rdma"]
    later.join()
    assert after == before


@pytest.mark.parametrize(("before", "check"), [(True, False), (True, True), (False, False)])
def test_ib_facts_tells_of_a_port_that_does_not_come_back(tmp_path: Path, before: bool, check: bool) -> None:
    """Which is not for it to judge; and without facts from before, or in check mode, it waits for nothing."""
    path = one_port(tmp_path / "node", "4: ACTIVE")
    active = run("ib_facts", root=str(path))["ansible_facts"]["rdma"]
    one_port(path, "2: INIT")
    # its process would be ended long before
    patience = 1 if before and not check else 10**6
    after = run("ib_facts", check, root=str(path), before=active if before else {}, wait_timeout=patience)
    assert after["ansible_facts"]["rdma"]["devices"][0]["ports"][0]["state"] == "Init"


def test_ib_facts_refuses_malformed_facts_from_before() -> None:
    result = run("ib_facts", before={"devices": [{"ports": 5}]})
    assert result["failed"]
    assert result["msg"].startswith("before holds no facts of this module: ")


def test_a_capture_of_a_root_that_is_not_there(tmp_path: Path) -> None:
    result = run("capture", root=f"{tmp_path}/none", dest=str(tmp_path / "x"))
    assert result["failed"]
    assert result["msg"] == (
        f"root '{tmp_path}/none' cannot be read: No such file or directory (expected a directory or a capture file)"
    )


@pytest.mark.parametrize("module", ["driver_gate", "ib_facts", "link_counters"])
@pytest.mark.parametrize("root", ["/nowhere/node17", str(CAPTURE)])
def test_a_module_reads_no_capture_on_a_node(module: str, root: str) -> None:
    """What reads captures does not come to nodes."""
    result = run(module, root=root, **({"version": "2.9.1"} if module == "driver_gate" else {}))
    assert result["failed"]
    assert result["msg"] == (
        f"root '{root}' is not a directory. Unpack a capture, or name it in the option capture of fabric.rdma.ib_facts, which "
        "reads it on the controller"
    )


def test_a_capture_needs_its_directory(tmp_path: Path) -> None:
    dest = tmp_path / "none" / "a.capture"
    result = run("capture", dest=str(dest), root=str(CAPTURE))
    assert (result["failed"], result["msg"]) == (True, f"dest '{dest}' cannot be written: No such file or directory")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.capture", "a.tar.gz"])
def test_a_capture_is_written_as_predicted(name: str, tmp_path: Path) -> None:
    dest = tmp_path / name
    arguments: dict[str, Any] = {"root": str(CAPTURE), "dest": str(dest)}
    predicted = run("capture", check=True, **arguments)
    assert predicted["changed"]
    assert not dest.exists()
    assert run("capture", **arguments) == predicted
    assert dest.stat().st_size == predicted["size"]
    assert gather(open_tree(str(dest))) == gather(open_tree(str(CAPTURE)))
    written = dest.stat().st_mtime_ns
    shown = predicted.pop("diff")
    assert (shown["before"], shown["after"]) == ("", summary(dest.read_bytes()))
    assert run("capture", **arguments) == {**predicted, "changed": False}
    assert dest.stat().st_mtime_ns == written
    assert run("capture", anonymize=True, **arguments)["changed"]
    hidden = checked(gather(open_tree(str(dest))))
    assert [device["name"] for device in hidden["devices"]] == ["mlx5_0", "mlx5_1", "mlx5_bond_0"]
    assert hidden["devices"] != gather(open_tree(str(CAPTURE)))["devices"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_dest_that_cannot_be_written(tmp_path: Path) -> None:
    result = run("capture", root=str(CAPTURE), dest=str(tmp_path))
    assert result["failed"]
    assert result["msg"] == f"dest '{tmp_path}' cannot be written: Is a directory"


def test_a_module_that_modprobe_passes_over_is_no_success(tmp_path: Path) -> None:
    """As rules of hardening have it. Nothing is written for boot."""
    (tmp_path / "hardening.conf").write_text("install fabric_rdma_none /bin/true\n")
    prelude = f"import os; os.environ['MODPROBE_OPTIONS'] = '-C {tmp_path}'\n"
    result = run("kernel_module", prelude=prelude, name="fabric-rdma-none")
    assert result["failed"] is True
    assert "has modprobe run `/bin/true` in place of loading it" in result["cause"]
    assert result["msg"].startswith("fabric-rdma-none does not load on kernel ")
    assert not Path("/etc/modules-load.d/fabric-rdma-none.conf").exists()


@pytest.mark.parametrize("made", ["fabric_rdma_none", "fabric_rdma_other"])
def test_a_module_that_was_not_there_is_looked_for_anew(tmp_path: Path, made: str) -> None:
    """What modprobe ran has loaded it, as a kernel shows it, or has loaded another one."""
    conf, node = tmp_path / "conf", tmp_path / "node"
    conf.mkdir()
    (conf / "theirs.conf").write_text(f"install fabric_rdma_none /bin/mkdir -p {node}/sys/module/{made}\n")
    prelude = (
        "import ansible_collections.fabric.rdma.plugins.module_utils._base.tree as tree\n"
        "real = tree.DirectoryTree\n"
        f"tree.DirectoryTree = lambda root: real('{node}')\n"
        f"import os; os.environ['MODPROBE_OPTIONS'] = '-C {conf}'\n"
    )
    result = run("kernel_module", prelude=prelude, name="fabric-rdma-none", persistent=False)
    assert (node / "sys" / "module" / made).is_dir()
    assert result.get("failed", False) is (made != "fabric_rdma_none"), result
    assert result.get("changed", False) is (made == "fabric_rdma_none"), result


def test_an_alias_of_what_is_there_is_a_success(tmp_path: Path) -> None:
    release = os.uname().release
    kernel = tmp_path / "lib" / "modules" / release
    (tmp_path / "conf").mkdir()
    kernel.mkdir(parents=True)
    (kernel / "modules.order").touch()
    (kernel / "modules.builtin").write_text("kernel/kernel/printk.ko\n")
    subprocess.run(["depmod", "-b", tmp_path, release], check=True, capture_output=True)
    (tmp_path / "conf" / "alias.conf").write_text("alias fabric_rdma_none printk\n")
    prelude = f"import os; os.environ['MODPROBE_OPTIONS'] = '-C {tmp_path}/conf -d {tmp_path}'\n"
    result = run("kernel_module", prelude=prelude, name="fabric-rdma-none", persistent=False)
    assert (result.get("failed", False), result["loaded"]) == (False, True), result


@pytest.mark.parametrize(("line", "warned"), [("blacklist printk", True), ("blacklist printk-2", False), ("", False)])
def test_a_blacklist_that_boot_heeds_is_told(tmp_path: Path, line: str, warned: bool) -> None:
    """modprobe loads the module all the same when it is called by name."""
    (tmp_path / "theirs.conf").write_text(line + "\n")
    prelude = f"import os; os.environ['MODPROBE_OPTIONS'] = '-C {tmp_path}'\n"
    result = run("kernel_module", check=True, prelude=prelude, name="printk")
    assert result["path"] is not None
    told = [str(text) for text in result.get("warnings", [])]
    assert any("printk is blacklisted in modprobe.d" in text for text in told) is warned, told


@pytest.mark.parametrize("persistent", [True, False])
def test_a_blacklist_is_told_of_what_a_boot_has_passed_over(tmp_path: Path, persistent: bool) -> None:
    """The file for boot is there, and the module is not: a run loads it after every boot."""
    (tmp_path / "theirs.conf").write_text("blacklist fabric_rdma_none\n")
    (tmp_path / "fabric-rdma-none.conf").write_text("fabric-rdma-none\n")
    prelude = (
        "import ansible_collections.fabric.rdma.plugins.module_utils._discover.boot_modules as boot_modules\n"
        f"boot_modules.DIRECTORIES = ('{tmp_path}',)\n"
        f"import os; os.environ['MODPROBE_OPTIONS'] = '-C {tmp_path}'\n"
    )
    result = run("kernel_module", check=True, prelude=prelude, name="fabric-rdma-none", persistent=persistent)
    assert (result["loaded"], result["path"]) == (True, None)
    assert ("fabric-rdma-none is blacklisted" in str(result.get("warnings"))) is persistent
