# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation tells users to type and to write works: commands, inventories, and the plans that it shows of them."""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import json
import re
import shlex
import typing as t
import warnings
from pathlib import Path

import pytest
import yaml
from ansible.cli.doc import DocCLI
from ansible.cli.galaxy import GalaxyCLI
from ansible.cli.playbook import PlaybookCLI
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible_builder.cli import parse_args as ansible_builder_arguments
from pip._internal.commands import create_command

from ansible_collections.fabric.rdma.plugins.filter.rdma_selectors import rdma_selectors
from ansible_collections.fabric.rdma.plugins.filter.rdma_table import rdma_table
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import VARIABLES, problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._inventory import inventory_problems
from ansible_collections.fabric.rdma.tests.unit.test_demo_inventory import CAPTURES, HOSTS

ROOT = Path(__file__).resolve().parents[2]
PAPERS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "roles/*/README.md", "tests/**/*.md")
    for path in ROOT.glob(pattern)
)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
# A file of an inventory begins with its name.
NAMED = re.compile(r"# ((?:group_vars|host_vars)/([\w-]+)\.yml|hosts\.yml)\n")
# Where an inventory of a stranger lies, and what a user has made before.
GIVEN = ("inventories/mine", "inventory", "ci.yml")


class Block(t.NamedTuple):
    language: str
    text: str


def blocks(paper: str, *languages: str) -> list[Block]:
    return [Block(*each) for each in FENCE.findall((ROOT / paper).read_text()) if each[0] in languages]


def papers_with(*languages: str) -> list[str]:
    return [paper for paper in PAPERS if blocks(paper, *languages)]


# --- commands ------------------------------------------------------------------------------------------------------


@functools.cache
def variables() -> frozenset[str]:
    """All that an extra variable may be called."""
    names = set(VARIABLES)
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            names |= set(entry.get("options") or {})
    for path in ROOT.glob("playbooks/**/*.yml"):
        names |= set(
            re.findall(r"\b((?:rdma|awx|compare|lab|report|verify|doctor|plan|discover)_[a-z_]+)\b", path.read_text())
        )
    return frozenset(names)


def extra_variables(text: str) -> dict[str, t.Any]:
    if text.startswith("{"):
        return t.cast("dict[str, t.Any]", json.loads(text))
    return {name: yaml.safe_load(value) for name, _equals, value in (each.partition("=") for each in shlex.split(text))}


def _playbook(words: list[str]) -> list[str]:
    cli = PlaybookCLI(words)
    cli.init_parser()
    given = cli.parser.parse_args(words[1:])
    wrong = []
    for name in given.args:
        path = (
            ROOT / "playbooks" / f"{name.removeprefix('fabric.rdma.')}.yml"
            if name.startswith("fabric.")
            else ROOT / name
        )
        if not path.is_file():
            wrong.append(f"there is no playbook {name}")
    for source in given.inventory or []:
        if source not in GIVEN and not (ROOT / source).exists():
            wrong.append(f"there is no inventory {source}")
    for text in given.extra_vars:
        for name, value in extra_variables(text).items():
            if name not in variables():
                wrong.append(f"there is no variable {name}")
            elif name in VARIABLES and value != "...":
                wrong += problems(name, value)
    return wrong


def _make(words: list[str]) -> list[str]:
    targets = re.findall(r"^([a-z-]+):.*?## ", (ROOT / "Makefile").read_text(), re.M)
    asked = [word for word in words[1:] if "=" not in word]
    return [f"there is no target {word}" for word in asked if word not in targets]


def _galaxy(words: list[str]) -> list[str]:
    cli = GalaxyCLI(words)
    cli.init_parser()
    cli.parser.parse_args(words[1:])
    return []


def _doc(words: list[str]) -> list[str]:
    cli = DocCLI(words)
    cli.init_parser()
    given = cli.parser.parse_args(words[1:])
    places = {"module": "plugins/modules/{}.py", "filter": "plugins/filter/{}.py", "role": "roles/{}/tasks"}
    names = [name.removeprefix("fabric.rdma.") for name in given.args if "<" not in name]
    return [
        f"there is no {given.type} {name}" for name in names if not (ROOT / places[given.type].format(name)).exists()
    ]


def _python(words: list[str]) -> list[str]:
    paths = [word for word in words[1:] if "/" in word and not word.startswith(("-", "http", *GIVEN))]
    return [f"there is no file {path}" for path in paths if not (ROOT / path.partition("::")[0]).exists()]


def _pip(words: list[str]) -> list[str]:
    """By the parser of pip itself."""
    command = create_command(words[1])
    _options, packages = command.parser.parse_args(words[2:])
    files = [Path(after).name for word, after in itertools.pairwise(words) if word in ("-r", "--requirement")]
    return [f"there is no file {name}" for name in files if not (ROOT / name).is_file()] + [
        f"{name} is in no file of versions" for name in packages
    ]


def _builder(words: list[str]) -> list[str]:
    ansible_builder_arguments(words[1:])
    return []


def _awx(words: list[str]) -> list[str]:
    """By the parser of awxkit itself, as far as it goes without a server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        formats, resource = (importlib.import_module(f"awxkit.cli.{name}") for name in ("format", "resource"))
    parser = argparse.ArgumentParser("awx")
    formats.add_authentication_arguments(parser, {})
    _options, rest = parser.parse_known_args(words[1:])
    known = {command.name for command in resource.CustomCommand.registry.values()}
    return [] if len(rest) == 1 and rest[0] in known else [f"awx takes no {shlex.join(rest)}"]


@functools.cache
def _sources() -> str:
    """All that writes files of a run."""
    patterns = ("playbooks/**/*.yml", "roles/*/tasks/*.yml", "plugins/**/*.py")
    return "\n".join(path.read_text() for pattern in patterns for path in ROOT.glob(pattern))


def unknown_path(path: str) -> list[str]:
    """What is wrong with a file or directory that a reader is told to use: of the collection, of a run, or of the reader."""
    installed = "~/.ansible/collections/ansible_collections/fabric/rdma/"
    if path.startswith(installed):
        there = (ROOT / path.removeprefix(installed)).exists()
    elif path.startswith("rdma-output/rendered/"):
        _output, _rendered, group, *names = path.split("/")
        # as the plan of the demo's nodes calls its classes
        planned = json.loads((CAPTURES / "demo-plan.json").read_text())["groups"].get(group, {"classes": []})
        there = bool(planned["classes"]) and set(names) <= {f"{each['name']}-labels.sh" for each in planned["classes"]}
    elif path.startswith("rdma-output/"):
        name = path.removeprefix("rdma-output/")
        there = re.search(rf"[\s\"'/{{]{re.escape(name)}\b", _sources()) is not None
    else:
        there = path.startswith(GIVEN) or "/" not in path or (ROOT / path).exists() or path.startswith("ticket/")
    return [] if there else [f"there is no file {path}"]


def _cp(words: list[str]) -> list[str]:
    *sources, _target = [word for word in words[1:] if not word.startswith("-")]
    wrong = [f"cp has no option {word}" for word in words[1:] if word.startswith("-") and word not in ("-r", "-a")]
    return wrong + [each for source in sources for each in unknown_path(source)]


def _ssh(words: list[str]) -> list[str]:
    """To a node of the lab, with the configuration that the lab writes."""
    good = len(words) == 4 and words[1] == "-F" and words[2].endswith("ssh_config") and words[3].startswith("lab")
    return [] if good else [f"ssh {shlex.join(words[1:])} is not the way to a node of the lab"]


def _sh(words: list[str]) -> list[str]:
    return (
        []
        if len(words) == 2 and words[1].endswith(".sh") and not unknown_path(words[1])
        else [f"there is no script {words[1:]}"]
    )


def _cd(words: list[str]) -> list[str]:
    """Into the clone of the sources, or what ansible-galaxy has downloaded."""
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    known = ([f"{galaxy['namespace']}.{galaxy['name']}"], ["collections"])
    return [] if words[1:] in known else [f"there is no directory {words[1:]}"]


def _tar(words: list[str]) -> list[str]:
    """A file of the collection, out of its tarball of this version."""
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    tarball = "collections/{namespace}-{name}-{version}.tar.gz".format(**galaxy)
    good = words[1:3] == ["-xzf", tarball] and len(words) == 4 and (ROOT / words[3]).is_file()
    return [] if good else [f"tar {shlex.join(words[1:])} takes no file out of {tarball}"]


def _git(words: list[str]) -> list[str]:
    """A clone of wherever the reader has the sources."""
    good = (
        words[1:2] == ["clone"]
        and len(words) == 3
        and (words[2] == "..." or words[2].startswith("https://git.example.com/"))
    )
    return [] if good else [f"git {shlex.join(words[1:])} is not a clone of these sources"]


# Verb: what may follow it, kinds of objects that Kubernetes has, or that this collection makes.
KINDS = {
    "clusterpolicies.nvidia.com",
    "configmaps",
    "daemonset",
    "daemonsets",
    "deployments",
    "events",
    "lease",
    "leases",
    "namespaces",
    "node",
    "nodes",
    "pod",
    "pods",
    "serviceaccounts",
    "token",
}
VERBS: dict[str, set[str] | None] = {
    **dict.fromkeys(("annotate", "create", "delete", "describe", "get", "label"), KINDS),
    # a file, or a name of the reader
    **dict.fromkeys(("apply", "cordon", "drain", "logs", "uncordon")),
}
# Options, and whether a value follows.
KUBECTL = {"-n": True, "-A": False, "-o": True, "-l": True, "-f": True, "--duration": True, "--server-side": False}


def _kubectl(words: list[str]) -> list[str]:
    """Against lists of verbs, kinds and options: a kubectl is not on every machine."""
    wrong, plain, files, rest = [], [], [], iter(words[1:])
    for word in rest:
        if not word.startswith("-"):
            plain.append(word)
        elif word not in KUBECTL:
            wrong.append(f"kubectl has no option {word}")
        elif KUBECTL[word]:
            value = next(rest, "")
            files += [value] if word == "-f" and value != "-" else []
            if word == "-l" and not re.fullmatch(
                r"(app\.kubernetes\.io/managed-by=fabric\.rdma|rdma\.fabric/[a-z]+(=[\w.-]+)?)", value
            ):
                wrong.append(f"no object has a label {value}")
            if word == "-o" and value not in ("json", "yaml", "wide", "name"):
                wrong.append(f"kubectl has no output {value}")
    if not plain and not wrong:
        return []
    verb, *after = plain or [""]
    if verb not in VERBS:
        return [*wrong, f"kubectl has no verb {verb}"]
    kinds = VERBS[verb]
    if kinds is not None and (after or verb == "create"):
        wrong += [f"Kubernetes has no kind {each}" for each in (after or [""])[0].split(",") if each not in kinds]
    return wrong + [each for name in files for each in unknown_path(name)]


def _helm(words: list[str]) -> list[str]:
    """The reader's own chart."""
    return (
        [] if tuple(words[1:3]) in {("show", "crds"), ("pull",)} else [f"helm {shlex.join(words[1:])} is not checked"]
    )


def _grep(words: list[str]) -> list[str]:
    return [] if len(words) == 2 else [f"grep {shlex.join(words[1:])} reads no output"]


# A program without a row here is an error: whoever writes of a new one says here how it is checked.
CHECKS: dict[str, t.Callable[[list[str]], list[str]]] = {
    "ansible-builder": _builder,
    "ansible-doc": _doc,
    "ansible-galaxy": _galaxy,
    "ansible-playbook": _playbook,
    "awx": _awx,
    "cd": _cd,
    "cp": _cp,
    "git": _git,
    "grep": _grep,
    "helm": _helm,
    "kubectl": _kubectl,
    "make": _make,
    "pip": _pip,
    "python": _python,
    "sh": _sh,
    "ssh": _ssh,
    "tar": _tar,
}


def wrong_with(command: str) -> list[str]:
    """What is wrong with a line of a terminal."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    parts: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("&|;"):
            parts.append([])
        else:
            parts[-1].append(word)
    wrong = []
    for words in parts:
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        # where output goes, and what is read, is the user's own
        words = list(itertools.takewhile(lambda word: word not in (">", "<"), words))
        if not words:
            continue
        check = CHECKS.get(words[0].rpartition("/")[2])
        if check is None and not (ROOT / words[0]).is_file():
            wrong.append(f"{words[0]} is not a program that this test knows")
            continue
        try:
            wrong += check(words) if check else []
        except SystemExit:
            wrong.append(f"{words[0]} does not take these arguments: {shlex.join(words)}")
    return wrong


def test_no_command_hides_in_a_block_that_is_not_checked() -> None:
    """A block without a language would be one, and so would a command in what is shown as output."""
    wrong = []
    for paper in PAPERS:
        fences = re.findall(r"^ *```.*$", (ROOT / paper).read_text(), re.M)
        known = ("```console", "```text", "```yaml", "```{toctree}")
        wrong += [f"{paper}: {fence}" for fence in fences[::2] if fence not in known]
        wrong += [
            f"{paper}: {line}"
            for block in blocks(paper, "text")
            for line in block.text.splitlines()
            if re.match(rf"(\$ )?({'|'.join(CHECKS)}) [\w./-]", line)
        ]
    assert wrong == []


@pytest.mark.parametrize("paper", papers_with("console"))
def test_a_command_can_be_typed(paper: str) -> None:
    lines = [
        line
        for block in blocks(paper, "console")
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.strip()
    ]
    assert [f"{line}: {each}" for line in lines for each in wrong_with(line)] == []


def test_a_command_in_a_sentence_can_be_typed() -> None:
    found = [
        (paper, " ".join(span.split()))
        for paper in PAPERS
        for span in re.findall(
            rf"(?<!`)`((?:{'|'.join(CHECKS)}) [^`]+)`(?!`)", FENCE.sub("", (ROOT / paper).read_text())
        )
    ]
    assert len(found) > 50
    wrong = {f"{paper}: {span}": wrong_with(span) for paper, span in found if not re.search(r"\.\.\.|<\w+>", span)}
    assert {span: each for span, each in wrong.items() if each} == {}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ansible-playbook fabric.rdma.nothing -i inventories/mine", "there is no playbook fabric.rdma.nothing"),
        ("ansible-playbook fabric.rdma.site -i inventories/mine -e rdma_serail=1", "there is no variable rdma_serail"),
        ("ansible-playbook fabric.rdma.site --no-such-option", "does not take these arguments"),
        ("cd x && make nothing", "there is no target nothing"),
        ("kubectl aply -f docs/rbac.yml", "kubectl has no verb aply"),
        ("kubectl apply -f docs/nothing.yml", "there is no file docs/nothing.yml"),
        ("kubectl get nodes,pdos -A", "Kubernetes has no kind pdos"),
        ("kubectl get pods --al", "kubectl has no option --al"),
        ("kubectl get pods -l app=rdma", "no object has a label app=rdma"),
        ("kubectl get pods -o jsn", "kubectl has no output jsn"),
        ("kubectl apply -f rdma-output/rendered/ib-v1000", "there is no file rdma-output/rendered/ib-v1000"),
        ("sh rdma-output/rendered/ib-a100/nothing-labels.sh", "there is no script"),
        ("cp rdma-output/repot.json monday.json", "there is no file rdma-output/repot.json"),
        ("cp -r ~/.ansible/collections/ansible_collections/fabric/rdma/inventories/exmaple x", "there is no file"),
        ("pip install -r requirement.txt", "there is no file requirement.txt"),
        ("pip install --no-such-option", "does not take these arguments"),
        ("pip install requests", "requests is in no file of versions"),
        ("ansible-builder built", "does not take these arguments"),
        ("awx --conf.host https://awx.example.com imprt", "awx takes no imprt"),
        ("awx --conf.hots https://awx.example.com import", "awx takes no"),
        ("git clone https://git.example.com/rdma.git && cd fabric.rmda", "there is no directory"),
        ("git checkout main", "is not a clone of these sources"),
        ("tar -xzf collections/fabric-rdma-0.0.9.tar.gz requirements.txt", "takes no file out of"),
        ("ssh -F .lab/ssh_config a100-1", "is not the way to a node of the lab"),
        ("helm instal x", "helm instal x is not checked"),
        ("python tools/nothing.py", "there is no file tools/nothing.py"),
        ("ansible-doc -t module fabric.rdma.nothing", "there is no module nothing"),
        ("rdmactl start", "not a program that this test knows"),
    ],
)
def test_a_command_that_cannot_is_found(command: str, said: str) -> None:
    assert any(said in each for each in wrong_with(command))


# --- inventories ---------------------------------------------------------------------------------------------------


@functools.cache
def facts_of(group: str) -> dict[str, t.Any]:
    prefix = {"ib-v100": "ib-", "ib-a100": "ib-", "roce-rails": "roce-"}.get(group, "")
    return {host: gather(open_tree(str(CAPTURES / f"{prefix}{host}.capture"))) for host in HOSTS[group]}


def planned(group: str, wishes: dict[str, t.Any]) -> dict[str, t.Any]:
    """What the plan of a group's recorded nodes has for it."""
    keys = {
        "resource": "rdma_resource",
        "want": "rdma_want",
        "strategy": "rdma_selector_strategy",
        "rails": "rdma_rails",
    }
    entry = {"hosts": HOSTS[group], **{key: wishes[name] for key, name in keys.items() if name in wishes}}
    plan = rdma_selectors(facts_of(group), {group: {"strategy": "auto", "rails": False, **entry}})
    return t.cast("dict[str, t.Any]", plan["groups"][group])


def inventory_files(paper: str) -> list[tuple[str, str, t.Any]]:
    """(path, group or host, content) of each file of an inventory that a paper shows."""
    found = []
    for block in blocks(paper, "yaml"):
        if match := NAMED.match(block.text):
            found.append((match[1], match[2] or "", yaml.safe_load(block.text)))
    return found


INVENTORIES = [paper for paper in PAPERS if inventory_files(paper)]


def wishes_of(paper: str) -> list[tuple[str, dict[str, t.Any]]]:
    """Each group of a paper with all that its hosts have: a file that comes again is another example."""
    files = inventory_files(paper)
    wide = next((content for path, _name, content in files if path == "group_vars/rdma.yml"), {})
    groups = [(name, content) for path, name, content in files if path.startswith("group_vars/") and name != "rdma"]
    return [(name, {**wide, **content, "rdma_groups": [name]}) for name, content in groups]


@pytest.mark.parametrize("paper", papers_with("yaml"))
def test_what_is_to_be_written_is_yaml_and_knows_its_variables(paper: str) -> None:
    wrong = []
    for block in blocks(paper, "yaml"):
        for content in yaml.safe_load_all(block.text):
            own = (
                {key: value for key, value in content.items() if key.startswith("rdma_")}
                if isinstance(content, dict)
                else {}
            )
            wrong += [f"there is no variable {key}" for key in own if key not in variables()]
            wrong += [each for key, value in own.items() if key in VARIABLES for each in problems(key, value)]
    assert wrong == []


@pytest.mark.parametrize("paper", INVENTORIES)
def test_an_inventory_has_no_wish_that_is_wrong(paper: str, tmp_path: Path) -> None:
    """By the check with which every playbook begins. Its hosts.yml is read by Ansible itself."""
    for name, wishes in wishes_of(paper):
        if "rdma_resource" not in wishes:
            continue
        hosts = HOSTS[name]
        found = inventory_problems(dict.fromkeys(hosts, wishes), {name: hosts, "rdma": hosts}, hosts, plans=True)
        assert found == [], f"{paper}, {name}"
    for path, _name, content in inventory_files(paper):
        if path != "hosts.yml":
            continue
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump(content))
        manager = InventoryManager(DataLoader(), [str(tmp_path / "hosts.yml")])
        asked = [name for _path, _own, each in inventory_files(paper) for name in (each or {}).get("rdma_groups", [])]
        assert asked
        assert [name for name in asked if not manager.get_hosts(name)] == []
        assert {host.name for name in asked for host in manager.get_hosts(name)} == {
            host.name for host in manager.get_hosts("rdma")
        }


@pytest.mark.parametrize("paper", INVENTORIES)
def test_an_inventory_can_be_planned_for_recorded_nodes_of_its_kind(paper: str) -> None:
    for name, wishes in wishes_of(paper):
        if "rdma_resource" in wishes:
            plan = planned(name, wishes)
            assert plan["errors"] == [], f"{paper}, {name}"
            assert {host for each in plan["classes"] for host in each["hosts"]} == set(HOSTS[name])


def test_every_kind_of_node_is_worked_through() -> None:
    assert {name for name, _wishes in wishes_of("docs/groups.md")} == set(HOSTS)


@pytest.mark.parametrize(
    "paper", [paper for paper in PAPERS if re.search(r"^```text\n(?:CLASS|HOST) ", (ROOT / paper).read_text(), re.M)]
)
def test_a_table_that_is_shown_is_what_a_run_prints(paper: str) -> None:
    """Of the recorded nodes, with the wishes that the same paper shows. What comes after its tables, a warning, may be left out."""
    tables = [str(rdma_table(planned(name, wishes))) for name, wishes in wishes_of(paper) if "rdma_resource" in wishes]
    tables += [str(rdma_table(facts_of(name))) for name in HOSTS]
    shown = [block.text.rstrip("\n") for block in blocks(paper, "text") if block.text.startswith(("CLASS ", "HOST "))]
    assert [
        text
        for text in shown
        if not any(each.strip() == text or each.startswith(text + "\n\nwarning") for each in tables)
    ] == []


# Files and modules of the kernel.
NO_VARIABLES = {"rdma_cm", "rdma_ucm"}

# --- what else is promised -------------------------------------------------------------------------------------------


def test_a_remedy_names_variables_that_there_are() -> None:
    named = set()
    for paper in ("docs/troubleshooting.md", "docs/zh/troubleshooting.md"):
        # with a key or a value behind it, or alone between brackets and commas, which are wide ones in Chinese
        named |= set(
            re.findall(r"\b(rdma_[a-z_]+)(?:[.:]\s?(?=[a-z{])|(?=[^\x00-\x7f]|[),]))", (ROOT / paper).read_text())
        )
    named -= NO_VARIABLES
    assert len(named) > 5
    assert sorted(named - variables()) == []


# What remedies have kubectl do, with the first kind or name behind it.
KUBECTL_OF_REMEDIES = {
    *("describe daemonset", "get nodefeaturerules", "get nodes", "get pods"),
    *("logs POD", "rollout restart", "taint nodes", "uncordon NODE"),
}


@pytest.mark.parametrize("paper", ["docs/troubleshooting.md", "docs/zh/troubleshooting.md"])
def test_a_remedy_can_be_typed(paper: str) -> None:
    """It stands in a sentence, in no marks: a terminal shows it, too."""
    text = (ROOT / paper).read_text()
    playbooks = set(re.findall(r"ansible-playbook fabric\.rdma\.(\w+)", text))
    assert len(playbooks) > 3
    assert sorted(name for name in playbooks if not (ROOT / "playbooks" / f"{name}.yml").is_file()) == []
    asked = set(re.findall(r"kubectl(?: -n [\w-]+| -A)* ([a-z]+ [\w-]+)", text))
    assert asked == KUBECTL_OF_REMEDIES


def spoken_of(paper: str) -> tuple[list[Block], int, list[str]]:
    """What a page has in every language: its blocks without comments, how many sections, and the names of code between their blocks."""
    text = (ROOT / paper).read_text()
    plain = [
        Block(each.language, "\n".join(re.sub(r"\s+# .*", "", line) for line in each.text.splitlines()))
        for each in blocks(paper, "yaml", "console", "text")
    ]
    prose = FENCE.sub("", text)
    names = sorted(set(re.findall(r"`([^`\s]*[_./-][^`\s]*)`", prose)))
    return plain, len(re.findall(r"^## ", prose, re.M)), names


def test_the_chinese_quick_start_says_what_the_english_one_says() -> None:
    """The same steps, the same blocks but for their comments, and the same names; who changes one page changes the other."""
    english, chinese = spoken_of("docs/quickstart.md"), spoken_of("docs/zh/quickstart.md")
    assert len(english[0]) > 8
    assert chinese == english


def test_a_link_leads_to_a_file() -> None:
    wrong = []
    for paper in PAPERS:
        for target in re.findall(r"\]\(([^)#\s]+)", FENCE.sub("", (ROOT / paper).read_text())):
            if "://" not in target and not ((ROOT / paper).parent / target).exists():
                wrong.append(f"{paper}: {target}")
    assert wrong == []


def test_a_user_meets_no_placeholder_of_galaxy() -> None:
    text = (ROOT / "galaxy.yml").read_text()
    told = yaml.safe_load(text)
    assert "example" not in text
    # the one that make release fills in
    assert [key for key, value in told.items() if not value] == ["repository"]
    assert "s|^repository: .*|repository: $repository|" in (ROOT / "tools" / "release").read_text()


def test_the_picture_is_small() -> None:
    assert (ROOT / "docs" / "report.webp").stat().st_size < 200_000
    assert "docs/report.webp" in (ROOT / "README.md").read_text()


def test_each_page_is_in_the_table_of_contents_and_in_the_readme() -> None:
    pages = sorted(
        path.relative_to(ROOT).with_suffix("").as_posix()
        for path in ROOT.glob("docs/**/*.md")
        if "docsite" not in path.parts
    )
    index = (ROOT / "docs" / "docsite" / "index.md").read_text().split()
    assert [page for page in pages if page not in index] == []
    assert [page for page in pages if f"({page}.md)" not in (ROOT / "README.md").read_text()] == []


def test_tools_of_the_documentation_are_those_of_the_checkout() -> None:
    """antsibull-docs is in both environments: pages are made by one, and shown by the other."""
    pinned = [
        re.findall(r"^antsibull-docs==\S+$", (ROOT / name).read_text(), re.M)
        for name in ("requirements-dev.txt", "docs/docsite/requirements.txt")
    ]
    assert pinned[0] == pinned[1]
    assert len(pinned[0]) == 1


# What a table of docs/awx.md calls the questions of a survey.
ASKED = {
    "hosts": "hosts",
    "groups": "groups",
    "waves": "waves",
    "away": "how many may be out of service",
    "method": "apply or render",
}


def rows(paper: str, heading: str) -> list[list[str]]:
    """The cells of the table with this first line, without the marks of code."""
    lines = (ROOT / paper).read_text().split(f"{heading}\n", 1)[1].splitlines()[1:]
    table = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in table]


def pairs(values: dict[str, t.Any] | None) -> str:
    """Variables as a page names them, behind what they go with."""
    told = ", ".join(f"{name}: {json.dumps(value).strip(chr(34))}" for name, value in (values or {}).items())
    return f", with {told}" if told else ""


def test_rights_on_nodes_are_said_of_every_playbook() -> None:
    named = [name for row in rows("docs/security.md", "| playbook | rights | changes |") for name in row[0].split(", ")]
    assert sorted(named) == sorted(path.stem for path in ROOT.glob("playbooks/*.yml"))


def test_who_clicks_makes_what_the_playbook_for_awx_makes() -> None:
    what = DataLoader().load_from_file(str(ROOT / "playbooks" / "vars" / "awx.yml"))["awx_objects"]
    templates = [
        [
            each["name"],
            Path(each["playbook"]).name + pairs(each.get("extra_vars")),
            str(each.get("job_slice_count", "")),
            ", ".join(ASKED[name] for name in each["survey"]),
        ]
        for each in what["job_templates"]
    ]
    assert rows("docs/awx.md", "| template | playbook | slices | asks for |") == templates
    questions = [
        [ASKED[key], each["variable"], each["type"], each["default"], "yes" if each["required"] else ""]
        for key, each in what["questions"].items()
    ]
    assert rows("docs/awx.md", "| asks for | variable | type | default | required |") == questions
    nodes = [
        [each["identifier"], each.get("job_template", each.get("approval")) + pairs(each.get("extra_data"))]
        for each in what["workflow"]["nodes"]
    ]
    assert rows("docs/awx.md", "| node | runs |") == nodes
    text = " ".join((ROOT / "docs" / "awx.md").read_text().split())
    for each in what["schedules"]:
        hour = re.search(r"T(\d\d)(\d\d)", each["rrule"])
        assert hour
        assert f"`{each['name']}`, every day at {hour[1]}:{hour[2]}" in text
        assert all(f"answer its survey with `{answer}`" in text for answer in each["extra_data"].values())
