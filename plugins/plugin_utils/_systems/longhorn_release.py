# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which releases of Longhorn there are and what may follow what, and how tolerations are told to its settings. Private. Pure.

Follows longhorn-manager: upgrade/util/util.go, checkLHUpgradePath(), and types/setting.go, UnmarshalTolerations().
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import LONGHORN_IMAGES
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version, parsed

__all__ = ["RELEASE", "VARIABLE", "taint_toleration", "upgrade_path", "upgrade_warnings"]

VARIABLE = "rdma_longhorn"
# of Helm
RELEASE = "longhorn"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


# --- tolerations ------------------------------------------------------------------------------------------------------


def taint_toleration(tolerations: t.Iterable[t.Mapping[str, t.Any]]) -> tuple[str, list[str]]:
    """(the setting taint-toleration, what cannot be said in it). Its form is ``key=value:effect;key:effect``; no key stands for all."""
    parts, problems = [], []
    for number, each in enumerate(tolerations):
        where = f"{VARIABLE}.tolerations[{number}]"
        key, value, effect = (str(each.get(name) or "") for name in ("key", "value", "effect"))
        operator = each.get("operator") or "Equal"
        if operator in ("Lt", "Gt"):
            problems.append(
                f"{where}: Longhorn's setting taint-toleration cannot say operator {operator}; use Equal or Exists"
            )
        elif each.get("tolerationSeconds") is not None:
            problems.append(f"{where}: Longhorn's setting taint-toleration cannot say tolerationSeconds; take it out")
        elif not key and operator != "Exists":
            problems.append(f"{where} has no key, which only operator: Exists may leave out; name the key of the taint")
        elif operator == "Exists" and value:
            problems.append(
                f"{where} has operator: Exists and a value, which the API refuses; take the value out, or use Equal"
            )
        elif re.search(r"[=:;\s]", key + value):
            problems.append(f"{where}: a key or value of a taint has neither spaces nor any of = : ;")
        else:
            # none stands for all; written out, since up to 1.10 the chart puts the setting into YAML without quotes, where no text ends in a colon
            said = f"{key}{'=' + value if operator == 'Equal' else ''}"
            parts += [f"{said}:{each}" for each in ([effect] if effect else _EFFECTS)]
    return ";".join(parts), problems


# --- releases ---------------------------------------------------------------------------------------------------------


def upgrade_path(
    installed: t.Optional[t.Mapping[str, t.Any]], release: Version
) -> tuple[t.Optional[Version], list[str]]:
    """(the release that is there, None without one; why there is no way from it to the wished one). installed: {version, ...} of Helm."""
    if not installed:
        return None, []
    there = parsed(installed.get("version"))
    if there is None:
        return None, [
            f"Helm release {RELEASE} has version {installed.get('version')!s:.40}, which is not a complete release: nobody can tell whether "
            f"{release.text} may follow it; upgrade it by hand to a release first"
        ]
    if (there.line, there.patch) > (release.line, release.patch):
        return there, [
            f"Longhorn {there.text} is installed and {VARIABLE}.version is {release.text}, which is older: Longhorn never goes back; "
            f"set {there.text} or newer"
        ]
    if there.line[0] != release.line[0] or release.line[1] - there.line[1] > 1:
        step = (there.line[0], there.line[1] + 1)
        known = LONGHORN_IMAGES.get(step, (f"{step[0]}.{step[1]}.x",))[0].lstrip("v")
        return there, [
            f"Longhorn {there.text} is installed and {VARIABLE}.version is {release.text}: it goes up one minor release at a time; set "
            f"{known} first, wait until all volumes are healthy, then go on"
        ]
    return there, []


def upgrade_warnings(there: t.Optional[Version], release: Version, engine: str) -> t.Iterator[str]:
    if there is None or there == release:
        return
    if there.line < (1, 10) <= release.line:
        yield (
            "Longhorn 1.10 no longer has v1beta1 of its definitions: look before the upgrade that none was stored in it "
            "(`kubectl get crd -l app.kubernetes.io/name=longhorn -o custom-columns=N:.metadata.name,V:.status.storedVersions`)"
        )
    if engine == "v2":
        yield f"V2 volumes have to be detached while Longhorn goes from {there.text} to {release.text}: scale down what uses them"
