# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CustomResourceDefinitions of operators: other people's, beside the checkout, where they are at all."""

from __future__ import annotations

import os
import re
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("FABRIC_RDMA_CRDS") or ROOT.parent / "shared" / "crds")
# what a test says that finds none
ELSEWHERE = "(FABRIC_RDMA_CRDS names another folder)"
# where the API server has them
PLACE = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def read(pattern: str = "*.yaml") -> dict[str, dict[str, t.Any]]:
    """Those in the files of the folder that fit a pattern, by name; none where the folder is not there."""
    return {
        item["metadata"]["name"]: item
        for path in sorted(FOLDER.glob(pattern))
        for item in yaml.safe_load_all(path.read_text())
        if item and item.get("kind") == "CustomResourceDefinition"
    }


def refs() -> dict[str, str]:
    """By file of the folder, the tag or branch of its project that it is from, as SOURCES.md there says."""
    path = FOLDER / "SOURCES.md"
    found, ref = {}, ""
    for line in path.read_text().splitlines() if path.is_file() else []:
        if line.startswith("## "):
            ref = ""
        elif match := re.match(r"Ref `([^`]+)`", line):
            ref = match[1]
        elif ref and (match := re.match(r"\| (\S+\.yaml) \|", line)):
            found[match[1]] = ref
    return found
