# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists the pages of the documentation with what tests do with all that a user is to type and to write.

usage: checked.py

typed     a test types the command as it stands, for recorded nodes (make integration)
likewise  a test does the same with addresses, a cluster or nodes of its own; it comes behind the target that runs it
not run   no test ever runs it: only what comes behind it is looked at (make unit, as for the commands in sentences, YAML and tables)
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / ".collections"))

from ansible_collections.fabric.rdma.tests.unit.documentation import (
    PAPERS,
    SAME,
    blocks,
    inventory_files,
    planned_groups,
    rows_of,
    sentences,
    tables,
    target_of,
)

# What there is on a page: of one, of several.
PARTS = (
    ("command", "commands"),
    ("command in a sentence", "commands in sentences"),
    ("block of YAML", "blocks of YAML"),
    ("file of an inventory", "files of an inventory"),
    ("group planned", "groups planned"),
    ("table compared", "tables compared"),
)


def page(paper: str) -> list[str]:
    """What is on it, and what becomes of each command."""
    rows = rows_of(paper)
    parts = (
        rows,
        sentences(paper),
        blocks(paper, "yaml"),
        inventory_files(paper),
        planned_groups(paper),
        tables(paper),
    )
    said = [f"{len(part)} {names[len(part) > 1]}" for part, names in zip(parts, PARTS, strict=True) if part]
    lines = [f"{paper}: {', '.join(said) or 'prose'}"]
    for row in rows:
        lines.append(f"  {row.way:9} {row.command}")
        if row.way == "typed" and paper in SAME:
            lines.append(f"  {'':9}   as in {SAME[paper]}")
        elif row.way == "likewise":
            lines.append(f"  {'':9}   make {target_of(row.by)}: {row.by}")
        elif row.way == "not run":
            lines.append(f"  {'':9}   {row.by}")
    return lines


def main() -> int:
    if len(sys.argv) != 1:
        sys.exit((__doc__ or "").strip())
    print(*(__doc__ or "").strip().splitlines()[4:], sep="\n", end="\n\n")
    for paper in PAPERS:
        print(*page(paper), sep="\n")
    print()
    ways = [row.way for paper in PAPERS for row in rows_of(paper)]
    print(
        f"checked: {ways.count('typed')} of {len(ways)} commands are typed as they stand, {ways.count('likewise')} likewise, "
        f"{ways.count('not run')} are never run"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
