# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which images objects pull: what a mirror has to have. Private. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["DRIVER_SECTION", "image_list", "images_of"]

# Its operator adds to the tag what each node has.
DRIVER_SECTION = "ofedDriver"


def images_of(value: t.Any, repository: t.Optional[str] = None) -> t.Iterator[str]:
    """Images in objects, however deep they are: of containers, and of what an operator is told by image, repository and version.

    repository: where images lie that do not say it themselves; an operator's resource has it in `global`.
    """
    if isinstance(value, t.Mapping):
        common = value.get("global")
        if isinstance(common, t.Mapping) and common.get("repository"):
            repository = str(common["repository"])
        if value.get("image") and value.get("version"):
            yield f"{value.get('repository') or repository}/{value['image']}:{value['version']}"
        for key, item in value.items():
            if key in ("containers", "initContainers") and isinstance(item, list):
                yield from (str(each["image"]) for each in item if isinstance(each, t.Mapping) and each.get("image"))
            yield from images_of(item, repository)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from images_of(item, repository)


def _has(value: t.Any, key: str) -> bool:
    if isinstance(value, t.Mapping):
        return key in value or any(_has(item, key) for item in value.values())
    return isinstance(value, (list, tuple)) and any(_has(item, key) for item in value)


def image_list(objects: t.Sequence[t.Any], charts: t.Sequence[str] = ()) -> str:
    """The text of images.txt: an image a line, and what no list can know as comments. charts: what is installed beside the objects."""
    lines = sorted(set(images_of(objects)))
    notes = []
    if _has(objects, DRIVER_SECTION):
        notes.append("# The operator adds the distribution and architecture of each node to the tag of the driver.")
    notes += [f"# What the chart {chart} pulls itself is not here: helm template {chart}" for chart in charts]
    return "".join(f"{line}\n" for line in [*notes, *lines])
