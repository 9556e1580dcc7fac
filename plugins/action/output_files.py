# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module output_files: texts become files of the controller, in its own process, and are in no event."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import content_difference, mode_difference
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import make_directories, put, read, stage, unlink
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import plain

OPTIONS = ("directory", "files", "header", "mode")


def arguments(given: t.Mapping[str, t.Any]) -> tuple[str, dict[str, str], int]:
    """The directory, the text of each path in it, and the mode. AnsibleActionFail for what makes no sense."""
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise AnsibleActionFail(
            f"output_files has the options {', '.join(OPTIONS)}, and was given {', '.join(unknown)}"
        )
    directory, files, mode = given.get("directory"), given.get("files"), str(given.get("mode", "0644"))
    if not isinstance(directory, str) or not directory:
        raise AnsibleActionFail(f"directory is {directory!r}; expected a path")
    if not isinstance(files, t.Mapping):
        raise AnsibleActionFail(f"files is {type(files).__name__}; expected a dictionary of names and texts")
    if not re.fullmatch("0?[0-7]{3}", mode):
        raise AnsibleActionFail(f"mode is '{mode}'; expected an octal number of three digits, such as 0644")
    header = str(given.get("header") or "")
    texts: dict[str, str] = {}
    for name, text in files.items():
        if isinstance(text, (t.Mapping, list)):
            # ansible-core up to 2.18 makes such of a text that looks so
            text = json.dumps(plain(text), indent=2, sort_keys=True) + "\n"
        if not isinstance(text, str):
            raise AnsibleActionFail(f"{name} is to hold {type(text).__name__}; expected a text")
        parts = str(name).split("/")
        if not all(parts) or {".", ".."} & set(parts):
            raise AnsibleActionFail(f"'{name}' is not a path below {directory}")
        texts[str(name)] = header + str(text)
    # relative to where Ansible was started
    return os.path.abspath(os.path.expanduser(str(directory))), texts, int(mode, 8)


def write(path: str, data: bytes, before: bytes | None, mode: int) -> None:
    """A file, whole or not at all. One that is there keeps its owner; a link stays one."""
    real = os.path.realpath(path)
    for made in make_directories(os.path.dirname(real)):
        # whatever the umask is: who may read a file has to get at it; what the directory above hands on (setgid) stays
        os.chmod(made, stat.S_IMODE(os.stat(made).st_mode) | 0o755)
    if data == before:
        os.chmod(real, mode)
        return
    # jobs in containers of their own share a directory, and may have the same number
    temporary = f"{real}.{secrets.token_hex(8)}.tmp"
    try:
        stage(temporary, data, name=path, like=None if before is None else real, mode=mode)
        put(temporary, real)
    except BaseException:
        unlink(temporary)
        raise


def encoded(text: str) -> bytes:
    """A text as UTF-8, with the bytes that a node has in it. Half a character of UTF-16, which JSON can name, is none of these."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


class ActionModule(ActionBase):
    """Runs in the controller's process, whatever the host of the task is: a process for each file would cost more than the files."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        directory, texts, mode = arguments(self._task.args)
        changed: list[str] = []
        differences: list[dict[str, str]] = []
        path = directory
        try:
            for name in sorted(texts):
                path = os.path.join(directory, name)
                data = encoded(texts[name])
                before = read(path, None)
                was = None if before is None else stat.S_IMODE(os.stat(path).st_mode)
                if before == data and was == mode:
                    continue
                changed.append(name)
                if self._task.diff and before == data and was is not None:
                    differences.append(mode_difference(path, was, mode))
                elif self._task.diff:
                    differences.append(content_difference(path, before, data))
                if not self._task.check_mode:
                    write(path, data, before, mode)
        except OSError as exc:
            return {**result, "failed": True, "msg": f"{exc.filename or path}: {exc.strerror}"}
        return {
            **result,
            "changed": bool(changed),
            "written": changed,
            **({"diff": differences} if differences else {}),
        }
