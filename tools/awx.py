# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what AWX has of this project as a file for `awx import` (awxkit), from the same list as playbooks/awx.yml.

usage: awx.py --scm-url URL --source-path PATH [--organization NAME] [--scm-branch NAME] [--image IMAGE] [--output-dir DIR]
              [--groups NAME,NAME...] [--slices NUMBER] [--forks NUMBER] > awx.json
       awx --conf.host https://awx.example.com --conf.token TOKEN import < awx.json

The form is that of `awx export` of awxkit 24: objects name each other by natural keys.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import typing as t
from pathlib import Path

import yaml

OBJECTS = Path(__file__).resolve().parents[1] / "playbooks" / "vars" / "awx.yml"

Json = dict[str, t.Any]


class _Loader(yaml.SafeLoader):
    """Takes what Ansible must not template as the text that it is."""


_Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(t.cast(yaml.ScalarNode, node)))


def objects() -> Json:
    """What the playbook loops over."""
    return t.cast(Json, yaml.load(OBJECTS.read_text(encoding="utf-8"), Loader=_Loader)["awx_objects"])  # a SafeLoader


def _few(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,2}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 999")
    return int(text)


def _groups(text: str) -> list[str]:
    return [name for name in map(str.strip, text.split(",")) if name]


class _Keys:
    """Natural keys: by them AWX finds what it has."""

    def __init__(self, organization: str) -> None:
        self.organization: Json = {"name": organization, "type": "organization"}

    def of(self, kind: str, name: str) -> Json:
        return {"organization": self.organization, "name": name, "type": kind}

    @staticmethod
    def environment(name: str) -> Json:
        return {"name": name, "type": "execution_environment"}

    def node(self, workflow: str, identifier: str) -> Json:
        key = self.of("workflow_job_template", workflow)
        return {"workflow_job_template": key, "identifier": identifier, "type": "workflow_job_template_node"}


def _job_template(entry: Json, what: Json, keys: _Keys) -> Json:
    key = keys.of("job_template", entry["name"])
    slices = entry.get("job_slice_count", 1)
    # slices would overwrite each other's files
    directory = {"rdma_output_dir": what["output_dir"]} if what.get("output_dir") and slices == 1 else {}
    related: Json = {
        "schedules": [
            {
                "name": each["name"],
                "description": each["description"],
                "rrule": each["rrule"],
                "extra_data": each["extra_data"],
                "enabled": True,
                "natural_key": {"unified_job_template": key, "name": each["name"], "type": "schedule"},
            }
            for each in what["schedules"]
            if each["job_template"] == entry["name"]
        ],
    }
    if entry["survey"]:
        spec = [what["questions"][name] for name in entry["survey"]]
        related["survey_spec"] = {"name": "", "description": "", "spec": spec}
    return {
        "name": entry["name"],
        "description": entry["description"],
        "job_type": "run",
        "inventory": keys.of("inventory", what["inventory"]["name"]),
        "project": keys.of("project", what["project"]["name"]),
        "playbook": entry["playbook"],
        "execution_environment": keys.environment(what["execution_environment"]["name"]),
        "job_slice_count": slices,
        **({"forks": what["forks"]} if what.get("forks") else {}),
        "extra_vars": json.dumps({**entry.get("extra_vars", {}), **directory}),
        "use_fact_cache": True,
        "ask_credential_on_launch": True,
        "ask_variables_on_launch": True,
        "survey_enabled": bool(entry["survey"]),
        "related": {name: value for name, value in related.items() if value},
        "natural_key": key,
    }


def _workflow(what: Json, keys: _Keys) -> Json:
    workflow = what["workflow"]
    nodes = []
    for entry in workflow["nodes"]:
        related: Json = {}
        node: Json = {"identifier": entry["identifier"], "extra_data": entry.get("extra_data", {})}
        if "approval" in entry:
            told = {"name": entry["approval"], "description": entry["description"], "timeout": entry["timeout"]}
            related["create_approval_template"] = told
        else:
            node["unified_job_template"] = keys.of("job_template", entry["job_template"])
        for way in ("success_nodes", "failure_nodes"):
            if way in entry:
                related[way] = [keys.node(workflow["name"], name) for name in entry[way]]
        nodes.append({**node, "related": related, "natural_key": keys.node(workflow["name"], entry["identifier"])})
    return {
        "name": workflow["name"],
        "description": workflow["description"],
        "organization": keys.organization,
        "inventory": keys.of("inventory", what["inventory"]["name"]),
        "related": {"workflow_nodes": nodes},
        "natural_key": keys.of("workflow_job_template", workflow["name"]),
    }


def document(what: Json) -> Json:
    """The file, of the objects that the playbook makes."""
    keys = _Keys(what["organization"])
    own = {"organization": keys.organization}
    environment, project, inventory = what["execution_environment"], what["project"], what["inventory"]
    source, kind = what["inventory_source"], what["credential_type"]
    inventory_key = keys.of("inventory", inventory["name"])
    return {
        "execution_environments": [{**environment, **own, "natural_key": keys.environment(environment["name"])}],
        "credential_types": [
            {**kind, "natural_key": {"name": kind["name"], "kind": kind["kind"], "type": "credential_type"}}
        ],
        "projects": [{**project, **own, "natural_key": keys.of("project", project["name"])}],
        "inventory": [{**inventory, **own, "natural_key": inventory_key}],
        "inventory_sources": [
            {
                **source,
                "inventory": inventory_key,
                "source_project": keys.of("project", project["name"]),
                "natural_key": {**keys.of("inventory_source", source["name"]), "inventory": inventory_key},
            }
        ],
        "job_templates": [_job_template(entry, what, keys) for entry in what["job_templates"]],
        "workflow_job_templates": [_workflow(what, keys)],
    }


def main() -> None:
    """Writes it to the standard output."""
    what = objects()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--organization", default=what["organization"])
    parser.add_argument("--scm-url", required=True)
    parser.add_argument("--scm-branch", default=what["project"]["scm_branch"])
    parser.add_argument("--source-path", required=True)
    parser.add_argument("--image", default="")
    parser.add_argument("--output-dir", default="")
    parser.add_argument("--groups", type=_groups, default=[])
    parser.add_argument("--slices", type=_few, default=what["slices"])
    parser.add_argument("--forks", type=_few, help="of each job template; by default, AWX keeps what it has")
    given = parser.parse_args()
    if not given.scm_url.strip():
        parser.error("--scm-url says where your copy of the project is, with your inventory in it")
    if not given.source_path.strip():
        parser.error("--source-path says which file of the project is your inventory")
    if re.search(what["secret_address"], given.scm_url):
        parser.error(
            "--scm-url has a password or a token in it, or a user of an address with https: give the project a credential in AWX"
        )
    if given.output_dir and not given.output_dir.startswith("/"):
        parser.error(
            "--output-dir is an absolute path, of a directory that all execution nodes share, such as /srv/rdma"
        )
    for name, advice in what["advice"].items():
        if not getattr(given, name):
            sys.stderr.write(f"Without --{name.replace('_', '-')}: {advice}.\n")
    what["organization"], what["output_dir"], what["forks"] = given.organization, given.output_dir, given.forks
    what["project"].update(scm_url=given.scm_url, scm_branch=given.scm_branch)
    what["inventory_source"]["source_path"] = given.source_path
    environment = what["execution_environment"]
    environment["image"] = given.image or environment["image"]
    questions = what["questions"]
    questions["groups"]["choices"] = given.groups or questions["groups"]["choices"]
    for entry in what["job_templates"]:
        if "job_slice_count" in entry:
            entry["job_slice_count"] = given.slices
        if "rdma_slices" in entry.get("extra_vars", {}):
            entry["extra_vars"]["rdma_slices"] = given.slices
    json.dump(document(what), sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
