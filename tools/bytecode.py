# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""usage: bytecode.py DIRECTORY > sitecustomize.py

Writes what has Python keep in DIRECTORY what it has compiled of code for which it has no cache itself: of modules, which Ansible brings as
zip archives, and of collections, which Ansible imports by a way of its own, in each process that runs a task. Of the processor time of a
playbook of the integration tests the second one is a fifth. What modules import is kept likewise, a seventh of such a playbook.

It also keeps the garbage collector of a process that Ansible forks for a task from what its parent has: to look through that, and to get
a copy of each page on which it notes that it did, is a twentieth of a playbook. And it has a playbook look less often whether a task has
ended.

tools/setup-venv writes it into .venv: what is changed here counts in one that is made afterwards (make clean).
"""

from __future__ import annotations

import sys

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.recipe import BYTECODE, BYTECODE_DIRECTORY

COLLECTIONS = """

# The same for collections.
import sys


def _compile_kept(source, filename, mode, flags, dont_inherit):
    import _imp

    if not isinstance(source, bytes):
        return compile(source, filename, mode, flags, dont_inherit)
    code = _cached(filename, source)
    # one source may lie in several places
    _imp._fix_co_filename(code, filename)
    return code


def _keep_code(module):
    module.compile = _compile_kept


# What is done to modules of Ansible when they are imported.
_CHANGES = {"ansible.utils.collection_loader._collection_finder": _keep_code}


class _Watch:
    @staticmethod
    def find_spec(name, path=None, target=None):
        change = _CHANGES.pop(name, None)
        if change is None:
            return None
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                change(module)

            spec.loader.exec_module = exec_module
        return spec


if _compile is not None:
    sys.meta_path.insert(0, _Watch)
"""

# Ansible parses a module and all that it imports, to find what that is, and forgets it with the process that runs the task.
IMPORTS = """

# What a module imports is kept, too: Ansible parses all of it for each playbook.
def _keep_imports(module):
    import ast, hashlib, marshal, os
    from ansible.release import __version__

    finder = getattr(module, "ModuleDepFinder", None)
    if finder is None:
        return

    visit = finder.__init__
    # From ansible-core 2.21 on it is given the source, and parses it itself.
    parses = "module_data" in visit.__code__.co_varnames

    class Tree:
        # Stands for the syntax of a source whose imports are known; whoever looks at it gets the syntax.
        def __init__(self, kept, arguments):
            self._kept, self._arguments = kept, arguments

        def __getattr__(self, name):
            if name == "_tree":
                self._tree = compile(*self._arguments)
                return self._tree
            return getattr(self._tree, name)

    def look(source):
        text = source if isinstance(source, bytes) else source.encode("utf-8", "surrogateescape")
        path = os.path.join(@DIRECTORY@, "%s.imports-%s" % (hashlib.sha256(text).hexdigest(), __version__))
        try:
            with open(path, "rb") as stream:
                known = marshal.loads(stream.read())
        except (OSError, EOFError, ValueError, TypeError):
            known = None
        return path, known if isinstance(known, dict) else {}

    def parse(source, filename, mode, flags=0, *more):
        if flags != ast.PyCF_ONLY_AST or more or not isinstance(source, (bytes, str)):
            return compile(source, filename, mode, flags, *more)
        path, known = look(source)
        if known:
            return Tree((path, known), (source, filename, mode, flags))
        tree = compile(source, filename, mode, flags)
        tree._kept = (path, known)
        return tree

    def find(self, name, what, is_pkg_init=False):
        path, known = look(what) if parses else getattr(what, "_kept", (None, {}))
        # relative ones depend on where it is
        key = "%s %d" % (name, bool(is_pkg_init))
        if key in known:
            self.submodules, self.optional_imports = (set(names) for names in known[key])
            if parses:
                self.embeds, self.tree = set(), Tree((path, known), (what, name, "exec", ast.PyCF_ONLY_AST))
            return
        visit(self, name, getattr(what, "_tree", what), is_pkg_init)
        if path is not None and not getattr(self, "embeds", None):
            known[key] = tuple(tuple(sorted(names)) for names in (self.submodules, self.optional_imports))
            _keep(path, marshal.dumps(known))

    if not parses:
        module.compile = parse
    finder.__init__ = find


_CHANGES["ansible.executor.module_common"] = _keep_imports
"""

WAITING = """

# How often a playbook looks whether a task has ended: a thousand times a second is a twentieth of a processor.
def _wait_longer(module):
    module.DEFAULT_INTERNAL_POLL_INTERVAL = 0.01


_CHANGES["ansible.constants"] = _wait_longer
"""

# As the documentation of gc.freeze advises where processes fork. What it does to its parent is undone there.
GARBAGE = """

# A process that forks hands on what it has, and no garbage collector of its children looks at that.
import gc
import os

os.register_at_fork(before=gc.freeze, after_in_parent=gc.unfreeze)
"""

if __name__ == "__main__":
    directory = repr(sys.argv[1])
    print(
        BYTECODE.replace(f'"{BYTECODE_DIRECTORY}"', directory)
        + COLLECTIONS
        + IMPORTS.replace("@DIRECTORY@", directory)
        + WAITING
        + GARBAGE,
        end="",
    )
