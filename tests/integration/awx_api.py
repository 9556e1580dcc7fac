# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of AWX's API with which objects are made, in memory: what the modules of awx.awx and the command awx ask for.

AWX itself cannot be run here. Which fields an object has, the argument specifications of the modules say: whoever sends another one is
refused. Objects name each other by ids, lists are filtered, relations are made, as in AWX 24.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
import typing as t
from urllib.parse import parse_qsl, urlsplit

Json = dict[str, t.Any]

# endpoint: what its objects are called
KINDS = {
    "organizations": "organization",
    "execution_environments": "execution_environment",
    "credential_types": "credential_type",
    "projects": "project",
    "inventories": "inventory",
    "inventory_sources": "inventory_source",
    "job_templates": "job_template",
    "workflow_job_templates": "workflow_job_template",
    "workflow_job_template_nodes": "workflow_job_template_node",
    "workflow_approval_templates": "workflow_approval_template",
    "schedules": "schedule",
}
# Of which there is nothing, and the command asks for all.
OTHERS = (
    *("users", "teams", "credentials", "notification_templates", "applications", "labels"),
    *("hosts", "groups", "roles", "instances", "instance_groups", "jobs"),
    *(
        "workflow_jobs",
        "project_updates",
        "inventory_updates",
        "ad_hoc_commands",
        "system_job_templates",
        "system_jobs",
    ),
    *(
        "notifications",
        "tokens",
        "workflow_approvals",
        "workflow_job_nodes",
        "credential_input_sources",
        "activity_stream",
    ),
    *("unified_jobs",),
)
# What an object may name by its id, and where that lies.
FOREIGN = {
    "organization": ("organizations",),
    "project": ("projects",),
    "source_project": ("projects",),
    "inventory": ("inventories",),
    "execution_environment": ("execution_environments",),
    "workflow_job_template": ("workflow_job_templates",),
    "unified_job_template": ("job_templates", "projects", "inventory_sources", "workflow_approval_templates"),
}
# What is of the organization of something that it names, whatever is said.
INHERITED = {"job_templates": ("project", "projects"), "inventory_sources": ("inventory", "inventories")}
# Below an object: objects that belong to it, by the field that names it; others that it is related to.
CHILDREN = {
    "schedules": ("schedules", "unified_job_template"),
    "workflow_nodes": ("workflow_job_template_nodes", "workflow_job_template"),
}
RELATIONS = ("success_nodes", "failure_nodes", "always_nodes", "credentials", "labels", "instance_groups")
RELATED = {
    "job_templates": ("survey_spec", "schedules", "credentials", "labels", "instance_groups"),
    "workflow_job_templates": ("survey_spec", "schedules", "workflow_nodes", "labels"),
    "workflow_job_template_nodes": ("create_approval_template", *RELATIONS),
}


# What the answer to a question may be, by its type; a default is one, or an empty text.
ANSWERS = {"text": str, "textarea": str, "multiplechoice": str, "multiselect": str, "integer": int, "float": float}


def survey_problems(survey: Json) -> list[str]:
    """What AWX refuses of a survey, and an answer that it gives a job though nobody has."""
    if not all(
        isinstance(survey.get(key), kind) for key, kind in (("name", str), ("description", str), ("spec", list))
    ):
        return ["a survey has a name, a description and a spec"]
    wrong = [] if survey["spec"] else ["a survey has questions"]
    names = [question.get("variable") for question in survey["spec"]]
    wrong += [f"{name} is asked for twice" for name in {each for each in names if names.count(each) > 1}]
    for question in survey["spec"]:
        name, kind, default = question.get("variable"), question.get("type"), question.get("default", "")
        if kind not in ANSWERS or not all(isinstance(question.get(key), str) for key in ("variable", "question_name")):
            wrong.append(f"{name} needs a known type, a question and a variable")
            continue
        if not isinstance(question.get("required"), bool):
            wrong.append(f"{name} is required or not")
        if default != "" and not isinstance(default, ANSWERS[kind]):
            wrong.append(f"the default of {name} is of another type")
        if not all(isinstance(question.get(key, 0), int) for key in ("min", "max")):
            wrong.append(f"the bounds of {name} are numbers")
        elif kind == "text" and not question.get("required") and default == "" and question.get("min", 0) < 1:
            wrong.append(f"{name} gives a job an empty text where nobody answers: its least length is 1")
        if kind.startswith("multi"):
            given = str(default).splitlines()
            if not question.get("choices") or set(given) - set(question["choices"]):
                wrong.append(f"{name} needs choices, of which its default is")
            if kind == "multiplechoice" and len(given) > 1:
                wrong.append(f"{name} has one default at most")
    return wrong


class Awx:
    """Its objects. fields: by endpoint, what its objects have."""

    def __init__(self, fields: t.Mapping[str, t.Collection[str]]) -> None:
        self.fields = fields
        self.objects: dict[str, dict[int, Json]] = {name: {} for name in (*KINDS, *OTHERS)}
        self.surveys: dict[tuple[str, int], Json] = {}
        self.relations: dict[tuple[str, int, str], list[int]] = {}
        self.writes: list[str] = []
        self._last = 0
        self._create("organizations", {"name": "Default"})

    # --- what it has, for tests

    def _named(self, endpoint: str, number: int) -> Json:
        own = self.objects[endpoint][number]
        if endpoint in INHERITED:
            own = {key: value for key, value in own.items() if key != "organization"}
        found: Json = {}
        for key, value in own.items():
            if key in FOREIGN and value is not None:
                value = next(
                    self.objects[place][value]["name"] for place in FOREIGN[key] if value in self.objects[place]
                )
            # as a text or as a dictionary, AWX keeps the same
            if key in ("extra_vars", "extra_data"):
                value = json.loads(value or "{}") if isinstance(value, str) else value
            if value not in (None, "", {}):
                found[key] = value
        if (endpoint, number) in self.surveys:
            found["survey"] = self.surveys[endpoint, number]
        for name in RELATIONS:
            if self.relations.get((endpoint, number, name)):
                nodes = self.objects["workflow_job_template_nodes"]
                found[name] = [nodes[other]["identifier"] for other in self.relations[endpoint, number, name]]
        return found

    def everything(self) -> Json:
        """{endpoint: [object]}, with names in the place of ids."""
        return {
            endpoint: sorted(
                (self._named(endpoint, number) for number in own), key=lambda each: json.dumps(each, sort_keys=True)
            )
            for endpoint, own in self.objects.items()
            if own
        }

    # --- its answers

    def _create(self, endpoint: str, data: Json) -> int:
        self._last += 1
        self.objects[endpoint][self._last] = dict(data)
        return self._last

    def page(self, endpoint: str, number: int) -> Json:
        own = self.objects[endpoint][number]
        if endpoint in INHERITED:
            by, place = INHERITED[endpoint]
            own = own | {"organization": self.objects[place][own[by]]["organization"]}
        base = f"/api/v2/{endpoint}/{number}/"
        related = {name: f"{base}{name}/" for name in RELATED.get(endpoint, ())}
        for key, places in FOREIGN.items():
            for place in places:
                if own.get(key) in self.objects[place]:
                    related[key] = f"/api/v2/{place}/{own[key]}/"
        states: Json = {
            "projects": {"status": "successful", "scm_revision": "0" * 40},
            "credential_types": {"managed": False},
        }
        links = {"url": base, "related": related, "summary_fields": {}}
        return {"id": number, "type": KINDS[endpoint], **links, **states.get(endpoint, {}), **own}

    def _check(self, endpoint: str, data: Json) -> None:
        unknown = set(data) - set(self.fields[endpoint]) - {"id"}
        if unknown:
            raise ValueError(f"{endpoint} has no {', '.join(sorted(unknown))}")
        for key in set(data) & set(FOREIGN):
            if data[key] is not None and not any(data[key] in self.objects[place] for place in FOREIGN[key]):
                raise ValueError(f"{endpoint}: {key} {data[key]!r} is not there")

    def _check_schedule(self, data: Json) -> None:
        """A rule with a beginning in a zone, and an answer to each question that has to be answered: here no default counts."""
        if not re.fullmatch(
            r"DTSTART(;TZID=[\w/]+:\d{8}T\d{6}|:\d{8}T\d{6}Z) RRULE:FREQ=\w+;INTERVAL=\d+", data["rrule"]
        ):
            raise ValueError(f"schedules: rrule {data['rrule']!r}")
        survey = self.surveys.get(("job_templates", data["unified_job_template"]), {"spec": []})
        needed = [question["variable"] for question in survey["spec"] if question["required"]]
        given = data.get("extra_data") or {}
        missing = set(needed) - set(json.loads(given) if isinstance(given, str) else given)
        if missing:
            raise ValueError(f"schedules: variables_needed_to_start: {', '.join(sorted(missing))}")

    def _list(self, endpoints: t.Iterable[str], asked: t.Mapping[str, str]) -> Json:
        results = []
        for endpoint in endpoints:
            for number in self.objects[endpoint]:
                page = self.page(endpoint, number)
                wanted = {re.sub(r"__(exact|iexact)$", "", key): value for key, value in asked.items()}
                if all(str(page.get(key)) == value for key, value in wanted.items()):
                    results.append(page)
        return {"count": len(results), "next": None, "previous": None, "results": results}

    def _options(self, endpoint: str) -> Json:
        kinds = {key: {"type": "id" if key in FOREIGN else "field"} for key in self.fields.get(endpoint, ())}
        return {"actions": {"POST": kinds, "PUT": kinds}, "search_fields": ["name"], "description": ""}

    def _below(self, method: str, endpoint: str, number: int, name: str, data: Json) -> tuple[int, Json | None]:
        """What lies below an object."""
        if name == "survey_spec":
            if method == "POST":
                if wrong := survey_problems(data):
                    raise ValueError(f"{endpoint}: {'; '.join(wrong)}")
                self.surveys[endpoint, number] = data
            return 200, self.surveys.get((endpoint, number), {})
        if name == "create_approval_template":
            if method == "OPTIONS":
                return 200, self._options("workflow_approval_templates")
            # a node that gets another one loses the one that it had (awx/main/signals.py, before a node is saved)
            node = self.objects[endpoint][number]
            self.objects["workflow_approval_templates"].pop(node.get("unified_job_template", 0), None)
            made = self._create("workflow_approval_templates", data)
            node["unified_job_template"] = made
            return 201, self.page("workflow_approval_templates", made)
        if name in CHILDREN:
            place, field = CHILDREN[name]
            if method == "GET":
                return 200, self._list([place], {field: str(number)})
            return self.answer(method, f"/api/v2/{place}/", {}, {**data, field: number} if method == "POST" else data)
        own = self.relations.setdefault((endpoint, number, name), [])
        if method == "GET":
            return 200, {
                "count": len(own),
                "next": None,
                "previous": None,
                "results": [self.page(endpoint, each) for each in own],
            }
        if method == "OPTIONS":
            return 200, {**self._options(endpoint), "actions": {"POST": {"id": {"type": "integer"}}}}
        own.append(data["id"])
        return 204, None

    def answer(self, method: str, path: str, asked: t.Mapping[str, str], data: Json) -> tuple[int, Json | None]:
        """(status, document). ValueError is a bad request, LookupError something that is not there."""
        parts = path.strip("/").split("/")
        # AWX takes it, and decides itself
        data = {key: value for key, value in data.items() if key not in ("managed", "type")}
        if method in ("POST", "PUT", "PATCH"):
            self.writes.append(f"{method} {path}")
        if path == "/api/":
            return 200, {"current_version": "/api/v2/", "available_versions": {"v2": "/api/v2/"}}
        if path == "/api/v2/":
            # in AWX's order: of two pages of one kind, the command takes the later one
            first = {name: f"/api/v2/{name}/" for name in ("ping", "config", "me", "unified_job_templates")}
            return 200, first | {
                "inventory" if name == "inventories" else name: f"/api/v2/{name}/" for name in self.objects
            }
        if parts[2] in ("ping", "me", "config"):
            me = {"id": 1, "type": "user", "username": "admin", "related": {}, "url": "/api/v2/users/1/"}
            return 200, {"version": "24.6.1", "count": 1, "results": [me], "next": None}
        if parts[2] == "unified_job_templates":
            return 200, self._list(FOREIGN["unified_job_template"][:3], asked)
        endpoint = parts[2]
        if len(parts) == 3:
            if method == "GET":
                return 200, self._list([endpoint], asked)
            if method == "OPTIONS":
                return 200, self._options(endpoint)
            self._check(endpoint, data)
            if endpoint == "schedules":
                self._check_schedule(data)
            return 201, self.page(endpoint, self._create(endpoint, data))
        number = int(parts[3])
        own = self.objects[endpoint][number]
        if len(parts) > 4:
            return self._below(method, endpoint, number, parts[4], data)
        if method in ("PUT", "PATCH"):
            self._check(endpoint, data)
            own.update({key: value for key, value in data.items() if key != "id"})
        return 200, self._options(endpoint) if method == "OPTIONS" else self.page(endpoint, number)


class Server(http.server.ThreadingHTTPServer):
    """Serves it on the loopback interface. refused: what was asked for in vain."""

    daemon_threads = True

    def __init__(self, awx: Awx) -> None:
        self.awx, self.lock = awx, threading.Lock()
        self.refused: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def _serve(self) -> None:
        there = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        paging = ("page_size", "page", "order_by")
        asked = {key: value for key, value in parse_qsl(there.query) if key not in paging}
        with self.server.lock:
            try:
                status, document = self.server.awx.answer(self.command, there.path, asked, json.loads(body or b"{}"))
            except ValueError as exc:
                status, document = 400, {"detail": str(exc)}
            except LookupError:
                status, document = 404, {"detail": "Not found."}
            if status >= 400:
                self.server.refused.append(f"{self.command} {self.path}: {document}")
        payload = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.send_header("Allow", "GET, POST, PUT, PATCH, OPTIONS")
        self.send_header("X-API-Product-Name", "AWX")
        self.send_header("X-API-Product-Version", "24.6.1")
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_POST = do_PUT = do_PATCH = do_OPTIONS = _serve

    def log_message(self, format: str, *args: t.Any) -> None:
        """Says nothing."""
