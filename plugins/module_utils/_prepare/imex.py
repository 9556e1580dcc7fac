# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host's own nvidia-imex.service is to be masked or given back. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of

__all__ = ["imex_needs"]

Json = t.Dict[str, t.Any]


def _now(imex: t.Mapping[str, t.Any]) -> Json:
    state = {key: imex[key] for key in ("enabled", "masked", "remembered")}
    return {**state, "running": imex["service"] == "running"}


def imex_needs(facts: t.Mapping[str, t.Any], wish: t.Optional[t.Mapping[str, t.Any]]) -> Json:
    """{needed, reasons, action, before, was, drain}: what the role nvidia_imex has to do on a host.

    wish: rdma_compute_domain, whose host_imex is the consent: mask, restore or keep. action: mask, restore or None. before: what the
    service was before it was masked, {enabled, running}; to be remembered with mask, to be brought back with restore, None where it is gone.
    was: what a failure puts back, {enabled, running, masked, remembered}: also where a run before this one was killed in the middle.
    drain: whether Pods lose the channels that they use: the daemon ends, or a second one takes the fabric.
    """
    imex = (facts.get("nvidia") or {}).get("imex")
    consent = str((wish or {}).get("host_imex") or defaults_of("rdma_compute_domain", "host_imex"))
    found: Json = {"needed": False, "reasons": [], "action": None, "before": None, "was": None, "drain": False}
    if imex is None or consent == "keep":
        return found
    runs = imex["service"] == "running"
    if consent == "mask" and imex["service"] is not None and (runs or not imex["masked"]):
        reasons = [
            word
            for word, on in (
                ("nvidia-imex.service runs", runs),
                ("nvidia-imex.service starts at boot", imex["enabled"] and not imex["masked"]),
                ("nvidia-imex.service is not masked", not imex["masked"]),
            )
            if on
        ]
        # what a first run has remembered is what it was before us
        before = imex["remembered"] or {"enabled": imex["enabled"], "running": runs}
        found.update(needed=True, reasons=reasons, action="mask", before=before, drain=runs)
        found["was"] = _now(imex)
        # one that runs now and did not then was started by somebody since, not left so by a killed run of ours
        if imex["remembered"] is not None and not imex["masked"] and (before["running"] or not runs):
            found["was"] = {**before, "masked": False, "remembered": None}
    elif consent == "restore" and imex["remembered"] is not None:
        gone = imex["service"] is None
        reasons = [f"nvidia-imex.service was masked for the DRA driver{', and is gone since' if gone else ''}"]
        before = None if gone else imex["remembered"]
        drain = not gone and imex["remembered"]["running"] is not runs
        found.update(needed=True, reasons=reasons, action="restore", before=before, drain=drain)
        # unmasked and no more
        found["was"] = {**_now(imex), "masked": imex["masked"] or not (runs or imex["enabled"])}
    return found
