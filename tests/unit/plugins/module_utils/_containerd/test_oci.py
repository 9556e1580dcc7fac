# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rlimits of a base runtime specification: what is asked for changes, and nothing else."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci import UNLIMITED, SpecError, load_spec
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci_edit import (
    dump_spec,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._containerd.specs import spec


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "f is not JSON that containerd could read: Expecting value: line 1 column 1 (char 0)"),
        (b'{"ociVersion": ', "f is not JSON that containerd could read: Expecting value: line 1 column 16 (char 15)"),
        (b"\xff{}", "f is not JSON that containerd could read: "),
        (b"\xef\xbb\xbf{}", "f is not JSON that containerd could read: "),
        (b'{"a": 1, "a": 2}', "f is not JSON that containerd could read: the key 'a' is there twice"),
        (b"[]", "f holds a JSON array; a runtime specification is an object"),
        (b"7", "f holds a JSON number; a runtime specification is an object"),
        (b"null", "f holds a JSON null; a runtime specification is an object"),
        (b"{}", "f has no ociVersion or no process: it is not a runtime specification"),
        (
            json.dumps({"ociVersion": "1", "process": {"rlimits": {}}}).encode(),
            "f: process.rlimits is a JSON number; expected a list",
        ),
        (dump_spec(spec({"soft": 1, "hard": 1})), "f: process.rlimits has an entry without type: "),
        *(
            (
                dump_spec(spec({"type": "RLIMIT_MEMLOCK", "soft": 0, "hard": value})),
                f"f: hard of RLIMIT_MEMLOCK is {value!r}; containerd reads only integers from 0 to {UNLIMITED}",
            )
            for value in (-1, "unlimited", 1.5, 1.8446744073709552e19, UNLIMITED + 1, True, None)
        ),
    ],
)
def test_a_file_that_would_kill_the_cri_plugin(data: bytes, message: str) -> None:
    with pytest.raises(SpecError, match="^" + re.escape(message)):
        load_spec(data, "f")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b'{"ociVersion": "1", "process": {}, "linux": {"cpu": [1, 1e400]}}',
            r"linux\.cpu\[1\] is not a number that JSON can have",
        ),
        (b'{"ociVersion": "1", "process": {"umask": NaN}}', r"process\.umask is not a number that JSON can have"),
        (b'{"ociVersion": "1", "process": {"umask": -Infinity}}', r"process\.umask is not a number that JSON can have"),
        (b'{"ociVersion": "1", "process": {}, "Process": {}}', r"Process is 'process' for containerd"),
        (b'{"ociVersion": "1", "PROCESS": {}}', r"PROCESS is 'process' for containerd"),
        ('{"ociVersion": "1", "proce\u017fs": {}}'.encode(), r"proce\u017fs is 'process' for containerd"),
        (
            b'{"ociVersion": "1", "process": {"rlimits": [], "RLimits": []}}',
            r"process\.RLimits is 'rlimits' for containerd",
        ),
        (
            b'{"ociVersion": "1", "process": {"rlimits": [{"type": "RLIMIT_CPU", "soft": 1, "hard": 2, "Hard": 1}]}}',
            r"process\.rlimits\[0\]\.Hard is 'hard' for containerd",
        ),
        (
            b'{"ociVersion": "1", "process": {"env": ["A", "\\ud800"]}}',
            r"process\.env\[1\] has one half of a surrogate pair",
        ),
        (b'{"ociVersion": "1", "process": {"\\udc00": 1}}', r"process has a key with one half of a surrogate pair"),
        # from 3.12 on, Python reads more levels than it writes
        (
            b'{"ociVersion": "1", "process": {}, "a": ' + b"[" * 900 + b"]" * 900 + b"}",
            r"a(\[0\])+ is nested more than 100 levels deep$",
        ),
        (
            b'{"ociVersion": "1", "process": {}, "a": ' + b'{"b": ' * 900 + b"1" + b"}" * 900 + b"}",
            r"a(\.b)+ is nested more than 100 levels deep$",
        ),
    ],
)
def test_what_containerd_reads_otherwise(data: bytes, message: str) -> None:
    with pytest.raises(SpecError, match=f"^base.json: {message}"):
        load_spec(data, "base.json")


def test_keys_of_maps_have_a_case() -> None:
    spec = load_spec(
        b'{"ociVersion": "1", "process": {}, "annotations": {"Process": "\\ud83d\\ude00", "process": ""}}', "x"
    )
    assert spec["annotations"] == {"Process": "\U0001f600", "process": ""}
    assert load_spec(dump_spec(spec), "x") == spec
