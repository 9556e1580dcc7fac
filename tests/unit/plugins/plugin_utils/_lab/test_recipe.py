# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes into the image."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import typing as t
import zipfile
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.recipe import (
    BYTECODE,
    BYTECODE_DIRECTORY,
    FILES,
    FORMAT_VERSION,
    OFFLINE_PACKAGES,
    PACKAGES,
    ImageRecipe,
    default_recipe,
    packages_stanza_script,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.sources import AptSource
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.waiting import TROUBLE_TEXT
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import DEBIAN, MODULE, UBUNTU, recipe


def test_key_is_stable_and_depends_on_every_field() -> None:
    assert recipe().key() == recipe().key()
    assert re.fullmatch("[0-9a-f]{16}", recipe().key())
    changes: dict[str, t.Any] = {
        "suite": "noble",
        "components": ("main", "contrib"),
        "kernel_package": "linux-image-cloud-amd64",
        "packages": ("apt",),
        "offline_packages": ("perftest",),
        "pod_packages": ("perftest",),
        "path_excludes": (),
        "masked_units": (),
        "masked_generators": (),
        "files": {"etc/motd": (0o644, "hello\n")},
        "hook": "true\n",
        "disk_mib": 4096,
        "architecture": "arm64",
        "format_version": FORMAT_VERSION + 1,
    }
    assert set(changes) == {field.name for field in dataclasses.fields(ImageRecipe)}
    keys = [recipe(**{name: value}).key() for name, value in changes.items()]
    assert len({recipe().key(), *keys}) == len(changes) + 1


@pytest.mark.parametrize(("release", "flavour"), [(DEBIAN, "amd64"), (UBUNTU, "generic")])
def test_headers_are_those_of_the_kernel(release: dict[str, str], flavour: str) -> None:
    found = default_recipe("suite", [], release, MODULE)
    assert found.kernel_package == f"linux-image-{flavour}"
    assert found.offline_packages[-1] == f"linux-headers-{flavour}"


def test_services_that_a_role_installs_are_started() -> None:
    """While mmdebstrap works, a policy keeps every service from starting; on a node it must not be there."""
    script = recipe().hook_script()
    assert script.index('rm -f "$root/usr/sbin/policy-rc.d"') < script.index("mke2fs")


def test_mirrors_are_no_part_of_the_key() -> None:
    other = AptSource("http://elsewhere.example.com/debian", "bookworm", ("main",), None)
    assert default_recipe("bookworm", [other], DEBIAN, MODULE).key() == recipe().key()


def test_what_roles_install_is_not_in_the_image() -> None:
    assert not set(PACKAGES) & set(OFFLINE_PACKAGES)
    assert {"perftest", "open-iscsi", "nfs-common", "multipath-tools", "dnf"} <= set(OFFLINE_PACKAGES)
    for text in (content for _mode, content in FILES.values()):
        assert "ib_umad" not in text
        assert "rdma_ucm" not in text


def test_scripts_are_valid_shell() -> None:
    scripts = [recipe().hook_script(), *(text for _mode, text in FILES.values() if text.startswith("#!/bin/sh"))]
    assert len(scripts) == 2
    for script in scripts:
        assert not re.search("@[A-Z]+@", script)
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)


UNKNOWN = "insmod: ERROR: Unknown symbol"


@pytest.mark.parametrize(
    ("kubernetes", "stub", "code", "said"),
    [
        ("", "", 0, "lab1 is set up"),
        ("1", "", 0, "lab1 is set up"),
        ("", f"insmod() {{ echo {UNKNOWN} >&2; return 1; }}", 0, f"RDMA devices stay outside the PCI tree: {UNKNOWN}"),
        # a node of a cluster would have nothing for the device plugin
        ("1", f"insmod() {{ echo {UNKNOWN} >&2; return 1; }}", 1, f"lab1{TROUBLE_TEXT}{UNKNOWN}"),
        ("", "tar() { echo tar: damaged >&2; return 2; }", 2, f"node{TROUBLE_TEXT}tar: damaged"),
        ("", "modprobe() { echo modprobe: no rdma_rxe >&2; return 1; }", 1, f"lab1{TROUBLE_TEXT}modprobe: no rdma_rxe"),
        ("", "rdma() { echo error: no $2 >&2; return 3; }", 3, f"lab1{TROUBLE_TEXT}error: no add"),
        ("", "ip() { return 4; }", 4, f"lab1{TROUBLE_TEXT}exit code 4"),
        ("1", "mount() { echo mount: no vdc >&2; return 32; }", 32, f"lab1{TROUBLE_TEXT}mount: no vdc"),
    ],
)
def test_a_node_tells_what_keeps_it_from_being_set_up(
    tmp_path: Path, kubernetes: str, stub: str, code: int, said: str
) -> None:
    """The setup script, run with programs that do nothing, of which one fails. What is told ends the wait for the node."""
    script = FILES["usr/local/sbin/fabric-rdma-lab-setup"][1]
    for place in (
        "/proc/sys/net/ipv4/conf/all",
        "/proc/sys/kernel",
        "/sys/module",
        "/sys/class/net",
        "/run",
        "/etc",
        "/dev",
    ):
        (tmp_path / place.strip("/")).mkdir(parents=True)
    script = script.replace(">/dev/console", ">>/dev/console")  # a device keeps what was written before
    script = re.sub(r"/(proc|sys|run|etc|dev)/(?!null)", rf"{tmp_path}/\1/", script)
    settings = f"LAB_NAME=lab1 LAB_KUBERNETES={kubernetes} LAB_MANAGEMENT_ADDRESS=a LAB_GATEWAY=b LAB_HCAS='mlx5_0 eth1 c eth1'\n"
    (tmp_path / "etc" / "fabric-rdma-lab.conf").write_text(settings)
    programs = "".join(
        f"{name}() {{ :; }}\n" for name in ("tar", "ip", "modprobe", "insmod", "mount", "systemctl", "mkdir")
    )
    programs += "rdma() { :; }\nmountpoint() { return 1; }\n"
    done = subprocess.run(["sh", "-c", programs + stub + "\n" + script], check=False, capture_output=True, text=True)
    told = (tmp_path / "dev" / "console").read_text()
    assert (done.returncode, told.splitlines()[0]) == (code, f"fabric.rdma lab: {said}")
    # the journal has what was not caught
    assert (said.rpartition(TROUBLE_TEXT)[2] in done.stderr) is (code != 0 and "exit code" not in said)
    # whoever waits takes it for the end, or does not
    assert (TROUBLE_TEXT in told) is (code != 0)
    if code == 0:
        assert told.splitlines()[-1] == "fabric.rdma lab: lab1 is set up"
    if "insmod" in stub:
        # one that is there from before is not loaded again
        (tmp_path / "sys" / "module" / "fabric_lab_pci" / "parameters").mkdir(parents=True)
        (tmp_path / "dev" / "console").unlink()
        assert subprocess.run(["sh", "-c", programs + stub + "\n" + script], check=False).returncode == 0
        assert (tmp_path / "dev" / "console").read_text() == "fabric.rdma lab: lab1 is set up\n"


@pytest.mark.parametrize("damage", [None, b"", b"no bytecode", "read-only"])
def test_modules_of_archives_are_compiled_once(tmp_path: Path, damage: bytes | str | None) -> None:
    """As Ansible runs them: out of an archive of another name each time. What cannot be kept or read is compiled."""
    cache, log = tmp_path / "cache", tmp_path / "log"
    code = BYTECODE.replace(BYTECODE_DIRECTORY, str(cache))
    assert code != BYTECODE
    # says what is really compiled
    spy = f"zipimport._compile_source = lambda path, source: (open({str(log)!r}, 'a').write(path), compile(source, path, 'exec'))[1]"
    code = code.replace("import zipimport\n", f"import zipimport\n{spy}\n", 1)
    if damage == "read-only":
        cache.write_text("a file where the directory should be")
    for number in (1, 2):
        archive = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(archive, "w") as stream:
            stream.writestr("probe_module.py", "ANSWER = 6 * 7\n")
        program = (
            f"{code}\nimport sys\nsys.path.insert(0, {str(archive)!r})\nimport probe_module\nprint(probe_module.ANSWER)"
        )
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        assert done.stdout == "42\n"
        for kept in cache.iterdir() if isinstance(damage, bytes) and number == 1 else ():
            kept.write_bytes(damage)
    compiled = log.read_text().count("probe_module.py")
    if damage == "read-only":
        # zipimport itself compiles a module twice for each import: once to tell its path
        assert compiled >= 2
    else:
        assert compiled == (1 if damage is None else 2)
        (kept,) = cache.iterdir()
        # another Python does not read it
        assert kept.suffix == f".{sys.implementation.cache_tag}"


def test_the_index_of_packages_satisfies_apt(tmp_path: Path) -> None:
    control = tmp_path / "package/DEBIAN"
    control.mkdir(parents=True)
    (control / "control").write_text(
        "Package: probe\nVersion: 1.2\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: probe\n long text\n"
    )
    subprocess.run(["dpkg-deb", "--build", "package", "probe.deb"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["sh", "-euc", packages_stanza_script()], cwd=tmp_path, check=True)
    index = (tmp_path / "Packages").read_text()
    assert index.startswith("Package: probe\n")
    assert index.endswith("\n\n")
    assert f"\nFilename: ./probe.deb\nSize: {(tmp_path / 'probe.deb').stat().st_size}\nSHA256: " in index
    assert re.search(r"^ [0-9a-f]{64} \d+ Packages$", (tmp_path / "Release").read_text(), re.MULTILINE)
