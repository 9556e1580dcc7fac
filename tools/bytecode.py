# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""usage: bytecode.py DIRECTORY > sitecustomize.py

Writes what has Python keep in DIRECTORY what it has compiled of code for which it has no cache itself: of modules, which Ansible brings as
zip archives, and of collections, which Ansible imports by a way of its own, in each process that runs a task. Of the processor time of a
playbook of the integration tests the second one is a fifth.

It also keeps the garbage collector of a process that Ansible forks for a task from what its parent has: to look through that, and to get
a copy of each page on which it notes that it did, is a twentieth of a playbook.
"""

from __future__ import annotations

import sys

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.recipe import BYTECODE, BYTECODE_DIRECTORY

COLLECTIONS = """

# The same for collections.
import sys

_FINDER = "ansible.utils.collection_loader._collection_finder"


def _compile_kept(source, filename, mode, flags, dont_inherit):
    import _imp

    if not isinstance(source, bytes):
        return compile(source, filename, mode, flags, dont_inherit)
    code = _cached(filename, source)
    # one source may lie in several places
    _imp._fix_co_filename(code, filename)
    return code


class _Watch:
    # Waits for the one module that compiles them.
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != _FINDER:
            return None
        import importlib.util

        sys.meta_path.remove(_Watch)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                module.compile = _compile_kept

            spec.loader.exec_module = exec_module
        return spec


if _compile is not None:
    sys.meta_path.insert(0, _Watch)
"""

# As the documentation of gc.freeze advises where processes fork. What it does to its parent is undone there.
GARBAGE = """

# A process that forks hands on what it has, and no garbage collector of its children looks at that.
import gc
import os

os.register_at_fork(before=gc.freeze, after_in_parent=gc.unfreeze)
"""

if __name__ == "__main__":
    print(BYTECODE.replace(f'"{BYTECODE_DIRECTORY}"', repr(sys.argv[1])) + COLLECTIONS + GARBAGE, end="")
