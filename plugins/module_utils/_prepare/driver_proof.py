# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is remembered of a change of the driver until the node has booted with it and proved it. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["due"]

Json = t.Dict[str, t.Any]


def due(params: t.Mapping[str, t.Any], boot_id: str, before: t.Optional[t.Mapping[str, t.Any]]) -> Json:
    """The proof that is due: {version, method, release, installed, boot_id, devices}.

    params: of the module driver_proof; its facts have the ports that are Active now. before: what is remembered, None when nothing is.
    A node whose driver is half changed has no port: what it had before the change is what it has to have again.
    """
    devices = params["facts"]["devices"]
    if before is not None and not devices:
        devices = before["devices"]
    return {
        "version": 1,
        "method": params["method"],
        "release": params["version"],
        "installed": params["installed"],
        "boot_id": boot_id,
        "devices": devices,
    }
