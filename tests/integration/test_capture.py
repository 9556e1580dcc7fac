# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook capture on a live host, which is this machine: what was asked for reaches the module. It reads, and changes nothing."""

from __future__ import annotations

import json
import re
import sys
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, load_archive, load_listing
from ansible_collections.fabric.rdma.plugins.module_utils._discover.anonymize import anonymize

if t.TYPE_CHECKING:
    from pathlib import Path

    from conftest import User

pytestmark = pytest.mark.integration

# Every machine has some, if only that of its loopback device.
ADDRESSES = "/.answers/addresses"


def entries(path: Path) -> dict[str, Entry]:
    if path.suffix == ".capture":
        return load_listing(path.read_text(), path.name)
    return load_archive(path.read_bytes(), path.name)


def captured(user: User, directory: Path, *variables: str) -> Path:
    """The one archive that a run leaves, which a check has left alone before."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    directory.mkdir()
    (directory / "hosts.json").write_text(json.dumps({"rdma": {"hosts": {"live-1": local}}}))
    extra = [word for each in (f"rdma_output_dir={directory / 'output'}", *variables) for word in ("-e", each)]
    command = ["ansible-playbook", "fabric.rdma.capture", "-i", str(directory / "hosts.json"), *extra]
    checked = user.run(*command, "--check").stdout
    assert f"would go to {directory / 'output'}/captures" in re.sub(r"\s+", " ", checked)
    assert not (directory / "output").exists()
    user.run(*command)
    (path,) = (directory / "output" / "captures").iterdir()
    return path


def test_what_a_live_host_has_comes_as_it_was_asked_for(user: User, tmp_path: Path) -> None:
    """As an archive with all that it has, and with both options as a text without what identifies a site."""
    plain = captured(user, tmp_path / "plain")
    assert (plain.name, plain.read_bytes()[:2]) == ("live-1.tar.gz", b"\x1f\x8b")
    whole = entries(plain)
    told = captured(user, tmp_path / "told", "rdma_capture_anonymize=true", "rdma_capture_text=true")
    assert told.name == "live-1.capture"
    assert told.read_text().startswith("# fabric.rdma capture 1\n")
    anonymous = entries(told)
    assert anonymous[ADDRESSES] == anonymize(whole)[ADDRESSES] != whole[ADDRESSES]


@pytest.mark.parametrize(
    ("option", "name", "hidden"),
    [("rdma_capture_anonymize=true", "live-1.tar.gz", True), ("rdma_capture_text=true", "live-1.capture", False)],
)
def test_one_option_is_not_the_other(user: User, tmp_path: Path, option: str, name: str, hidden: bool) -> None:
    path = captured(user, tmp_path / "one", option)
    assert path.name == name
    assert (b" 127.0.0.1\n" in entries(path)[ADDRESSES].data) is not hidden


def test_an_archive_is_where_the_run_was_started(user: User, tmp_path: Path) -> None:
    """With a relative path: not beside the playbook, which is in the collection."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.json").write_text(json.dumps({"rdma": {"hosts": {"live-1": local}}}))
    command = ["ansible-playbook", "fabric.rdma.capture", "-i", "hosts.json", "-e", "rdma_output_dir=out"]
    user._replace(home=tmp_path).run(*command)
    assert [path.name for path in (tmp_path / "out" / "captures").iterdir()] == ["live-1.tar.gz"]
    assert not (user.collection / "playbooks" / "out").exists()
