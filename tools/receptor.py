# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetches the program of Receptor, which joins the nodes of AWX, from a suite of Debian (tools/debian.py).

usage: receptor.py

Prints the path of the program. FABRIC_RDMA_RECEPTOR names another one, which is printed as it is.
"""

from __future__ import annotations

import os
import sys

from debian import LabError, cache_of, fetch

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import RECEPTOR


def main() -> None:
    """Fetches it if it is not there."""
    if len(sys.argv) != 1:
        sys.exit((__doc__ or "").strip())
    own = os.environ.get("FABRIC_RDMA_RECEPTOR")
    if own:
        print(own)
        return
    suite, version = RECEPTOR
    try:
        with cache_of("receptor") as cache:
            found = fetch("receptor", suite, version, cache, "name its program in FABRIC_RDMA_RECEPTOR")
    except LabError as exc:
        sys.exit(f"error: {exc}")
    print(found.programs / "receptor")


if __name__ == "__main__":
    main()
