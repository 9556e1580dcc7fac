#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mpi_traffic
short_description: Run nccl-tests or nvbandwidth as an MPIJob and judge what it prints
version_added: "0.1.0"
description:
  - Makes the objects of a manifest (one MPIJob, and the ComputeDomains and ResourceClaimTemplates that it needs), waits for the end of the
    job, reads the log of its launcher, and removes all of it.
  - Judges the figures, checks that NCCL used the transport that the job is meant to use (multi-node NVLink, RDMA or TCP), and explains what
    went wrong.
  - Needs the MPI Operator, and the rights to create, get, list and delete these objects, to list C(pods) and to get C(pods/log).
extends_documentation_fragment:
  - fabric.rdma.attributes.traffic
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.traffic
options:
  file:
    description:
      - The manifest, on the host that the task runs on.
      - The launcher has to run C(nvbandwidth) or a program of nccl-tests.
      - The role P(fabric.rdma.compute_domain#role) writes such manifests for its groups.
    type: path
    required: true
  min_gbs:
    description:
      - Floor in GB/s (10^9 bytes), of the best bus bandwidth of nccl-tests, or of the slowest link of nvbandwidth.
      - Without it, errors are judged, and the transport (nccl-tests) or links far below the median (nvbandwidth).
    type: float
  timeout:
    description: Seconds that the job may take, with the pull of its image.
    type: int
    default: 1800
seealso:
  - module: fabric.rdma.pod_traffic
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Prove multi-node NVLink
  fabric.rdma.mpi_traffic:
    file: /srv/rdma-output/systems/compute_domain/workloads/nccl-mnnvl-gb200.yaml
    min_gbs: 700
  delegate_to: localhost
  run_once: true
  register: nvlink

- name: Show the verdict
  ansible.builtin.debug:
    msg: "{{ nvlink.collective.verdict }}: {{ nvlink.collective.message }}"
"""

RETURN = r"""
collective:
  description:
    - C(name), C(tool) (C(nccl-tests) or C(nvbandwidth)), C(way) (C(mnnvl), C(rdma), C(tcp) or null), C(test), C(ranks), C(best_gbs),
      C(average_gbs) and C(lowest_gbs) in GB/s, C(size_bytes) of the best, C(transports) that NCCL used, C(floor_gbs), C(verdict)
      (C(pass), C(fail) or C(error)), C(message) and C(remedy).
  returned: success, not in check mode
  type: dict
  sample: {name: nccl-mnnvl-gb200, tool: nccl-tests, way: mnnvl, best_gbs: 846.82, verdict: pass, message: "846.8 GB/s >= 700 GB/s"}
msg:
  description: What would be run.
  returned: in check mode
  type: str
  sample: "MPIJob default/nccl-mnnvl-gb200 (nccl-tests over mnnvl) would be run"
removed:
  description: Objects that an earlier run had left.
  returned: success
  type: list
  elements: str
  sample: []
"""

import json
import typing as t
import uuid

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError, WishError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, library
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import connected
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    INVENTORY_LABEL,
    MANAGED_BY,
    TRAFFIC_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.interrupt import interrupt_on_signals, with_a_word
from ansible_collections.fabric.rdma.plugins.module_utils._verify.jobs import Job, checked_job, judge_job
from ansible_collections.fabric.rdma.plugins.module_utils._verify.jobs_run import remove_objects, run_job
from ansible_collections.fabric.rdma.plugins.module_utils._verify.leftovers import removal


def documents(path: str) -> list[t.Any]:
    """What a manifest has, as JSON has it, which is what goes to the API server. WishError where it cannot be read, or has something else."""
    yaml = library("yaml")
    loader: t.Any = type("Loader", (yaml.SafeLoader,), {})
    # a day that nobody has put into quotes is a text to Kubernetes
    loader.add_constructor("tag:yaml.org,2002:timestamp", lambda own, node: own.construct_scalar(node))
    try:
        with open(path, encoding="utf-8") as stream:
            found = list(yaml.load_all(stream, loader))
        return list(json.loads(json.dumps(found, allow_nan=False)))
    except OSError as exc:
        raise WishError(f"{path} cannot be read: {exc.strerror}") from exc
    # for some tags PyYAML raises whatever Python does
    except Exception as exc:
        why = " ".join(str(exc).split())[:500] or type(exc).__name__
        raise WishError(f"{path} is not YAML that Kubernetes could read: {why}") from exc


def run(module: AnsibleModule, job: Job, ours: str, run_id: str) -> dict[str, t.Any]:
    params = module.params
    removed: list[str] = []
    log, problem = "", None
    try:
        kube = connected(module)
        removed = remove_objects(kube, job, f"{ours},{TRAFFIC_LABEL},{TRAFFIC_LABEL}!={run_id}")
        try:
            log, problem = run_job(kube, job, params["timeout"])
        finally:
            remove_objects(kube, job, f"{ours},{TRAFFIC_LABEL}={run_id}")
    except FabricError as exc:
        if log or problem:
            module.warn(f"objects of this run may be left, the next one removes them: {exc}")
        problem = problem or (None if log else {"cause": str(exc), "remedy": ""})
    return {
        **removal(removed),
        "collective": judge_job(job, log, problem, params["min_gbs"]),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "file": {"type": "path", "required": True},
            "min_gbs": {"type": "float"},
            "inventory": {"type": "str", "default": "default"},
            "timeout": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    with_a_word(act, module)


def act(module: AnsibleModule) -> None:
    params, run_id = module.params, uuid.uuid4().hex[:8]
    owner = {"app.kubernetes.io/managed-by": MANAGED_BY, INVENTORY_LABEL: params["inventory"]}
    try:
        # who is no longer there to remove it does not keep it running
        job = checked_job(documents(params["file"]), {**owner, TRAFFIC_LABEL: run_id}, params["timeout"] + 300)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    if module.check_mode:
        over = f" over {job.way}" if job.way else ""
        words = f"MPIJob {job.namespace}/{job.name} ({job.tool}{over}) would be run"
        module.exit_json(changed=False, msg=words, removed=[])
    interrupt_on_signals()
    ours = ",".join(f"{key}={value}" for key, value in sorted(owner.items()))
    module.exit_json(**run(module, job, ours, run_id))


if __name__ == "__main__":
    main()
