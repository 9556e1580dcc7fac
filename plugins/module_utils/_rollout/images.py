# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which images objects pull: what a mirror has to have. Private. Pure."""

from __future__ import annotations

import re
import typing as t

__all__ = ["DIGEST", "DRIVER_SECTION", "MOVING", "image_list", "images_of", "is_pinned", "tag_of"]

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Tags that some publishers move.
MOVING = ("latest", "stable")

# Its operator adds to the tag what each node has.
DRIVER_SECTION = "ofedDriver"


def tag_of(image: str) -> str:
    """The tag of an image, without its digest; "" where it has none."""
    # a colon before the last slash is the port of a registry
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def is_pinned(image: str, moving: t.Collection[str] = MOVING[:1]) -> bool:
    """Whether an image has a digest, or a tag other than those that a publisher moves from one release to the next."""
    return "@" in image or tag_of(image) not in ("", *moving)


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
