# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host on which the modules of this collection are stand-ins: each says what it is told to say, and changes nothing.

node_file and kubernetes_info are the real ones: what a role writes, and what it finds in a cluster, is a part of what it does.
"""

from __future__ import annotations

import json
import shutil
import sys
import typing as t
from pathlib import Path

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather

if t.TYPE_CHECKING:
    from conftest import User

CAPTURES = Path(__file__).resolve().parents[1] / "captures"

REAL = ("kubernetes_info", "node_file")

# answers.json: {module: [what it returns, ..., the last one again and again]}
STAND_IN = """#!/usr/bin/python
# WANT_JSON
import json, os, pathlib, sys

# of one of several hosts
there = pathlib.Path("@THERE@", os.environ.get("STAND_IN", ""))
with open(sys.argv[1]) as handle:
    given = json.load(handle)
name = given["_ansible_module_name"].rpartition(".")[2]
arguments = {key: value for key, value in given.items() if not key.startswith("_ansible") and key != "facts"}
arguments["tmp"] = given["_ansible_remote_tmp"]
with open(there / "calls", "a") as handle:
    handle.write(json.dumps([name, arguments]) + "\\n")
answers = json.loads((there / "answers.json").read_text())
said = answers.get("%s %s" % (name, arguments.get("state")), answers.get(name, [{}]))
key = "%s %s" % (name, arguments.get("state"))
calls = [json.loads(line) for line in (there / "calls").read_text().splitlines()]
count = sum(1 for call in calls if call[0] == name and (key not in answers or call[1].get("state") == arguments.get("state")))
print(json.dumps({"changed": False, **said[min(count, len(said)) - 1]}))
"""

# A node whose Python is somebody else's. answers.json: {module: what it returns, "": what every other one does}; what is told as
# {"real": facts} is done, and facts are added to what it returns. What the node is sent besides modules is kept in the file seen, and
# what modules are told to write.
INTERPRETER = """#!@PYTHON@
import json, os, pathlib, re, subprocess, sys

module = re.search(r"AnsiballZ_(\\w+)[.]py", " ".join(sys.argv))
here = pathlib.Path(__file__).parent
answers = json.loads((here / "answers.json").read_text())
for directory in {pathlib.Path(word).parent for word in sys.argv if "AnsiballZ_" in word}:
    for path in directory.iterdir():
        if path.is_file():
            text = path.read_text()
            if path.name.startswith("AnsiballZ_"):
                text = " ".join(re.findall(r"content_base64\\W+([\\w+/=]+)", text))
            with open(here / "seen", "a") as seen:
                seen.write(text + "\\n")
answer = answers.get(module[1], answers.get("", {"real": {}})) if module else {"real": {}}
if answer == {"real": {}}:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
if "real" in answer:
    done = subprocess.run([sys.executable, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
    said = json.loads(done.stdout)
    answer = {**said, "ansible_facts": {**said.get("ansible_facts", {}), **answer["real"]}}
print(json.dumps({"changed": False, **answer}))
"""

INBOX = gather(open_tree(str(CAPTURES / "ib-v100-1.capture")))
WISH = {
    "ofed_method": "doca",
    "ofed_version": "2.9.1",
    "ofed_repository": "file:/srv/doca/",
    "ofed_key": "/srv/key.asc",
    "ofed_activate": "none",
}
BUILT = {"kernel": "6.1.0", "build_log": None, "problems": [], "driver": {"path": "updates/x.ko", "pending": False}}
BUILT["initramfs"] = {"stale": False, "rebuild": []}
RESTORED = {"found": True, "restored": ["doca-ofed is out"], "left": [], "complete": True}


class Node(t.NamedTuple):
    """One host, and what its stand-ins say."""

    user: User
    directory: Path
    answers: dict[str, list[dict[str, t.Any]]]

    def play(self, install: dict[str, t.Any], **variables: t.Any) -> str:
        """What a run of the role says, on one line; install: the task that stands for the installation."""
        (self.directory / "answers.json").write_text(json.dumps(self.answers))
        tasks = self.collection / "roles" / "ofed" / "tasks"
        (tasks / "doca.yml").write_text(json.dumps([install]))
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (self.directory / "hosts.json").write_text(json.dumps({"all": {"hosts": {"n1": local}}}))
        play = {
            "hosts": "all",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.include_role": {"name": "fabric.rdma.ofed"}}],
            # nothing of this machine is written
            "vars": {
                "__ofed_kept_log": str(self.directory / "kept.log"),
                "__ofed_staged_log": str(self.directory / "staged.log"),
                **WISH,
                **variables,
            },
        }
        (self.directory / "play.yml").write_text(json.dumps([play]))
        extra = json.dumps({name: value for name, value in play["vars"].items() if name.startswith("__")})
        arguments = ["-i", str(self.directory / "hosts.json"), "-e", extra, str(self.directory / "play.yml")]
        done = self.user.run("ansible-playbook", *arguments, check=False)
        return " ".join((done.stdout + done.stderr).split())

    @property
    def collection(self) -> Path:
        return self.user.collection

    def calls(self) -> list[str]:
        """Modules in the order in which they were called, with their states."""
        lines = (self.directory / "calls").read_text().splitlines()
        return [" ".join(filter(None, (name, given.get("state")))) for name, given in map(json.loads, lines)]


def interpreter(directory: Path, answers: dict[str, t.Any]) -> dict[str, str]:
    """How a host of the inventory is reached whose modules, also Ansible's own, say what they are told to say."""
    directory.mkdir(exist_ok=True)
    path = directory / "python"
    path.write_text(INTERPRETER.replace("@PYTHON@", sys.executable))
    path.chmod(0o755)
    (directory / "answers.json").write_text(json.dumps(answers))
    return {"ansible_connection": "local", "ansible_python_interpreter": str(path)}


def stand_in(user: User, directory: Path) -> Node:
    """The collection of a user, with stand-ins for its modules."""
    collections = directory / "collections"
    there = collections / "ansible_collections"
    shutil.copytree(user.collection, there / "fabric" / "rdma")
    for other in user.collection.parents[1].iterdir():
        if other.name != "fabric":
            (there / other.name).symlink_to(other)
    for module in (there / "fabric" / "rdma" / "plugins" / "modules").glob("*.py"):
        if module.stem in REAL:
            continue
        module.write_text(STAND_IN.replace("@THERE@", str(directory)))
    env = user.env | {"ANSIBLE_COLLECTIONS_PATH": str(collections)}
    answers: dict[str, list[dict[str, t.Any]]] = {
        "ib_facts": [{"ansible_facts": {"rdma": INBOX}}],
        "driver_gate": [{"blocked": [], "refusals": []}],
        "driver_packages checked": [{"no_way_back": []}],
        "driver_packages restored": [RESTORED],
        "driver_check": [BUILT],
    }
    return Node(user._replace(env=env, collections=collections), directory, answers)
