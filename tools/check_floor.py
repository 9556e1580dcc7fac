# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the code that runs on nodes with the interpreter that runs this file.

usage: pythonX.Y check_floor.py COLLECTIONS      COLLECTIONS holds ansible_collections/fabric/rdma

Modules need Ansible and are only compiled.  module_utils need nothing and are imported.
"""

import importlib
import pathlib
import sys
import traceback


def main():
    root = pathlib.Path(sys.argv[1])
    plugins = root / "ansible_collections" / "fabric" / "rdma" / "plugins"
    sys.path.insert(0, str(root))
    problems = 0
    for folder in ("modules", "module_utils"):
        for path in sorted((plugins / folder).glob("**/*.py")):
            try:
                compile(path.read_bytes(), str(path), "exec")
                if folder == "module_utils":
                    importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
            except Exception:
                problems += 1
                traceback.print_exc(limit=-1)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
