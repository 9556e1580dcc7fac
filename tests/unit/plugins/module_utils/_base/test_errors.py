# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import importlib
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.grpc import GrpcError
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import TomlError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError

PLUGINS = Path(__file__).resolve().parents[5] / "plugins"
FILES = sorted(path.relative_to(PLUGINS) for path in PLUGINS.rglob("*.py"))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FabricError("the file is damaged"), "the file is damaged"),
        (FabricError("the file is damaged", "remove it"), "the file is damaged; remove it"),
        (FabricError("the file is damaged", "Remove it."), "the file is damaged. Remove it."),
        (FabricError("the file is damaged", "`rm` it"), "the file is damaged; `rm` it"),
        (KubeError("it was deleted", 409, "run again"), "it was deleted; run again"),
        (GrpcError(5, "not found"), "not found"),
        (TomlError(3, "expected a value"), "line 3: expected a value"),
    ],
    ids=str,
)
def test_users_read_what_is_wrong_and_then_what_to_do(error: FabricError, text: str) -> None:
    assert str(error) == text
    assert text.startswith(error.message)
    assert text.endswith(error.remedy)
    assert error.args == (text,)


def test_the_parts_of_an_error_can_be_told_apart() -> None:
    error = KubeError("it was deleted", 409, "run again")
    assert (error.message, error.remedy, error.code) == ("it was deleted", "run again", 409)
    assert vars(copy.copy(FabricError("a", "b"))) == {"message": "a", "remedy": "b"}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_exception_of_a_plugin_reaches_the_user(path: Path) -> None:
    module = importlib.import_module(".".join(("ansible_collections.fabric.rdma.plugins", *path.with_suffix("").parts)))
    own = [item for item in vars(module).values() if isinstance(item, type) and item.__module__ == module.__name__]
    errors = [item for item in own if issubclass(item, BaseException)]
    assert [item.__name__ for item in errors if not issubclass(item, FabricError)] == []
