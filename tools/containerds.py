# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetches the containerds of three Debian suites (tools/debian.py).

usage: containerds.py

Prints a JSON object: generation -> {package: its path, programs: the directory in which it lies unpacked}. All of it is in
~/.cache/fabric.rdma/packages (or below XDG_CACHE_HOME), and what is there is not fetched again.
"""

from __future__ import annotations

import json
import sys

from debian import LabError, cache_of, fetch

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import CONTAINERDS

INSTEAD = "name directories with the programs of three generations in FABRIC_RDMA_CONTAINERDS, separated by colons"


def main() -> None:
    """Fetches what is not there."""
    if len(sys.argv) != 1:
        sys.exit((__doc__ or "").strip())
    try:
        with cache_of("containerd") as cache:
            found = {
                generation: fetch("containerd", suite, f"{generation}.", cache, INSTEAD)
                for generation, suite in CONTAINERDS.items()
            }
    except LabError as exc:
        sys.exit(f"error: {exc}")
    print(json.dumps({key: {"package": str(each.path), "programs": str(each.programs)} for key, each in found.items()}))


if __name__ == "__main__":
    main()
