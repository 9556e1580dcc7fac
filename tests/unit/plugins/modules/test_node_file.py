# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where node_file takes what it writes from. How it writes: test_writers.py, test_matrix.py."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run
from ansible_collections.fabric.rdma.tests.unit.served import served

# neither UTF-8 nor any other text
BINARY = bytes(range(256)) * 8
SHA256 = hashlib.sha256(BINARY).hexdigest()


def test_binary_content_is_written_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "key.gpg"
    given = {"path": str(path), "content_base64": base64.b64encode(BINARY).decode(), "_ansible_diff": True}
    result = run("node_file", **given)
    assert path.read_bytes() == BINARY
    assert result["diff"]["after"] == f"(2048 bytes, SHA-256 {SHA256})\n"
    assert run("node_file", **given)["changed"] is False


def test_directories_that_are_made_let_others_through(tmp_path: Path) -> None:
    """/etc/apt/keyrings, which older releases lack: apt reads the key as a user of its own, whatever the umask of root is."""
    path = tmp_path / "apt/keyrings/key.asc"
    prelude = "import os; os.umask(0o077)\n"
    assert run("node_file", prelude=prelude, path=str(path), content="key")["changed"] is True
    assert [each.stat().st_mode & 0o777 for each in (path.parent.parent, path.parent, path)] == [0o755, 0o755, 0o644]


def test_what_is_no_base64_is_not_written(tmp_path: Path) -> None:
    result = run("node_file", path=str(tmp_path / "key"), content_base64="a key, surely")
    assert result["msg"].startswith("content_base64 cannot be decoded: ")
    assert not list(tmp_path.iterdir())


def test_a_difference_shows_no_password_of_an_address(tmp_path: Path) -> None:
    """Also not that of a repository from before, of which the wishes no longer tell that it has one."""
    path = tmp_path / "vendor.sources"
    path.write_text("Types: deb\nURIs: https://admin:hunter2@old.example/doca\n")
    result = run(
        "node_file", path=str(path), content="Types: deb\nURIs: https://new.example/doca\n", _ansible_diff=True
    )
    assert result["diff"]["before"] == "Types: deb\nURIs: https://old.example/doca\n"
    assert result["diff"]["after"] == path.read_text()
    content = "URIs: https://admin:hunter2@new.example/doca\n"
    result = run("node_file", path=str(path), content=content, private=True, backup=False, _ansible_diff=True)
    assert result["diff"]["after"] == "URIs: https://new.example/doca\n"
    assert path.read_text() == content


def test_a_password_that_changes_is_a_difference_and_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.sources"
    path.write_text("URIs: https://admin:hunter2@new.example/doca\n")
    content = "URIs: https://admin:hunter3@new.example/doca\n"
    result = run("node_file", path=str(path), content=content, private=True, backup=False, _ansible_diff=True)
    assert result["changed"] is True
    assert result["diff"]["before"] != result["diff"]["after"]
    assert "hunter" not in json.dumps(result["diff"])


def test_a_file_that_others_may_read_is_closed_to_them_and_that_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("one\n")
    path.chmod(0o644)
    given = {"path": str(path), "content": "one\n", "private": True, "_ansible_diff": True}
    for check in (True, False):
        result = run("node_file", check=check, **given)
        assert result["changed"] is True
        assert (result["diff"]["before"], result["diff"]["after"]) == ("mode 0644\n", "mode 0600\n")
    assert path.stat().st_mode & 0o777 == 0o600
    again = run("node_file", **given)
    assert (again["changed"], "diff" in again) == (False, False)


def test_another_file_of_the_node_is_copied(tmp_path: Path) -> None:
    log = tmp_path / "make.log"
    log.write_bytes(b"gcc: caf\xe9\n")
    log.chmod(0o600)
    given = {"path": str(tmp_path / "kept" / "build.log"), "src": str(log)}
    assert run("node_file", check=True, **given)["changed"] is True
    assert not (tmp_path / "kept").exists()
    assert run("node_file", **given)["changed"] is True
    kept = tmp_path / "kept" / "build.log"
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (log.read_bytes(), 0o644)
    assert run("node_file", **given)["changed"] is False


@pytest.mark.parametrize(
    ("kind", "message"), [("none", "No such file"), ("pipe", "Is not a regular"), ("large", "16 MiB")]
)
def test_what_cannot_be_copied_changes_nothing(kind: str, message: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    if kind == "pipe":
        os.mkfifo(source)
    elif kind == "large":
        source.touch()
        os.truncate(source, (16 << 20) + 1)
    path = tmp_path / "file"
    path.write_text("theirs")
    result = run("node_file", path=str(path), src=str(source))
    assert result["failed"] is True
    assert result["msg"].startswith(f"{source}: ")
    assert message in result["msg"]
    assert path.read_text() == "theirs"


def test_a_download_has_the_checksum_that_was_given(tmp_path: Path) -> None:
    """With its password; the second time, nobody is asked."""
    path = tmp_path / "key.gpg"
    with served({"/key": BINARY}, password="of admin: a+b") as server:
        given: dict[str, Any] = {"path": str(path), "url": f"{server.address}/key", "checksum": f"sha256:{SHA256}"}
        refused = run("node_file", **given)
        assert "401" in refused["msg"]
        given |= {"url_username": "admin", "url_password": "of admin: a+b"}
        assert run("node_file", check=True, **given)["changed"] is True
        assert not path.exists()
        assert run("node_file", **given)["changed"] is True
        assert path.read_bytes() == BINARY
        asked = len(server.asked)
        assert run("node_file", **given)["changed"] is False
        assert len(server.asked) == asked


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"checksum": "sha256:" + "0" * 64}, f"has the checksum sha256:{SHA256}, not sha256:{'0' * 64}"),
        ({"checksum": "sha256:0"}, "checksum is 'sha256:0'; expected sha256: and 64 hexadecimal digits"),
        ({"checksum": "md5:" + "0" * 32}, "checksum is 'md5:"),
        ({"url": "/none"}, "/none cannot be downloaded: HTTP Error 404"),
        ({"url": "/large"}, "/large is larger than 16 MiB"),
        ({"url": "file:///etc/passwd"}, "url is 'file:///etc/passwd'; expected an address with http or https"),
    ],
)
def test_a_download_that_is_not_what_it_should_be_changes_nothing(
    what: dict[str, str], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    path.write_text("theirs")
    with served({"/key": BINARY, "/large": bytes((16 << 20) + 1)}) as server:
        given = {"url": "/key", "checksum": f"sha256:{SHA256}", **what}
        given["url"] = server.address + given["url"] if given["url"].startswith("/") else given["url"]
        result = run("node_file", path=str(path), **given)
    assert result["failed"] is True
    assert message in result["msg"]
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "one of the following is required: content, content_base64, src, url"),
        ({"content": "", "src": "/x"}, "mutually exclusive: content|content_base64|src|url"),
        ({"url": "http://x/"}, "missing parameter(s) required by 'url': checksum"),
    ],
)
def test_there_is_one_source(given: dict[str, str], message: str, tmp_path: Path) -> None:
    assert message in run("node_file", path=str(tmp_path / "x"), **given)["msg"]
