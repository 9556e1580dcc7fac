# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation has a user type, how each command is checked, and which are typed in tests as they stand.

test_documentation.py uses the checks, tests/integration/test_typed.py types, and tools/checked.py lists.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import itertools
import json
import re
import shlex
import typing as t
import warnings
from pathlib import Path

import yaml
from ansible.cli.doc import DocCLI
from ansible.cli.galaxy import GalaxyCLI
from ansible.cli.playbook import PlaybookCLI
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_builder.cli import parse_args as ansible_builder_arguments
from pip._internal.commands import create_command

from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import VARIABLES, problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import SYSTEMS
from ansible_collections.fabric.rdma.tests.unit.test_demo_inventory import CAPTURES

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
def options() -> dict[str, t.Any]:
    """What roles take, each with its specification."""
    found: dict[str, t.Any] = {}
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["argument_specs"].values():
            found |= entry.get("options") or {}
    return found


def wrong_option(name: str, value: t.Any) -> list[str]:
    """What Ansible says of a value when the role begins."""
    return list(ArgumentSpecValidator({name: options()[name]}).validate({name: value}).error_messages)


@functools.cache
def variables() -> frozenset[str]:
    """All that an extra variable may be called."""
    names = {*VARIABLES, *options()}
    # what AWX gives to playbooks is theirs only if they read it
    for path in {*ROOT.glob("playbooks/**/*.yml")} - {ROOT / "playbooks" / "vars" / "awx.yml"}:
        names |= set(
            # a filter or a module is none
            re.findall(
                r"(?<!fabric\.rdma\.)\b((?:rdma|awx|compare|lab|report|verify|doctor|plan|discover)_[a-z_]+)\b",
                path.read_text(),
            )
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
                if name == "rdma_uninstall_systems":
                    wrong += [
                        f"there is no system {each}"
                        for each in value
                        if each not in {system.name for system in SYSTEMS}
                    ]
            elif name in options():
                wrong += wrong_option(name, value)
    return wrong


@functools.cache
def _benchmark() -> t.Any:
    """benchmarks/playbooks.py, which reads what SIZES has."""
    spec = importlib.util.spec_from_file_location("benchmark_of_a_page", ROOT / "benchmarks" / "playbooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _make(words: list[str]) -> list[str]:
    targets = re.findall(r"^([a-z-]+):.*?## ", (ROOT / "Makefile").read_text(), re.M)
    asked = [word for word in words[1:] if "=" not in word]
    for word in words[1:]:
        if word.startswith("SIZES="):
            _benchmark().arguments(shlex.split(word.removeprefix("SIZES=")))
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


# As docs/support.md has it; what lies in a directory of wheels needs no version.
CORE = "ansible-core>=2.17,<2.22"


def _pip(words: list[str]) -> list[str]:
    """By the parser of pip itself. A package that is named has the version that the tests have."""
    pinned = {line.strip() for file in ROOT.glob("requirements*.txt") for line in file.read_text().splitlines()}
    command = create_command(words[1])
    _options, packages = command.parser.parse_args(words[2:])
    files = [Path(after).name for word, after in itertools.pairwise(words) if word in ("-r", "--requirement")]
    return [f"there is no file {name}" for name in files if not (ROOT / name).is_file()] + [
        f"{name} is in no file of versions" for name in packages if name not in (CORE, "ansible-core", *pinned)
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


def _mkdir(words: list[str]) -> list[str]:
    """For what the reader will have."""
    return [] if words[1:2] == ["-p"] and words[2:] in (["inventories"], ["ticket"]) else [f"nobody needs {words[1:]}"]


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


# The same of kubectl config, which changes a file alone: what each of its verbs takes.
CONFIG: dict[str, set[str]] = {
    "set-cluster": {"--server", "--certificate-authority", "--embed-certs"},
    "set-credentials": {"--token"},
    "set-context": {"--cluster", "--user"},
    "use-context": set(),
    "view": set(),
}


def _kubectl_config(words: list[str]) -> list[str]:
    rest = [word for word, before in zip(words, ["", *words], strict=False) if "--kubeconfig" not in (word, before)]
    verb, *after = rest or [""]
    if verb not in CONFIG:
        return [f"kubectl config has no verb {verb}"]
    options = [word for word in after if word.startswith("--")]
    wrong = [f"kubectl config {verb} has no option {word}" for word in options if word not in CONFIG[verb]]
    # what another command prints, which is the value of an option
    return wrong + [each for word in after if word.startswith("$(") for each in wrong_with(word[2:-1])]


def _kubectl(words: list[str]) -> list[str]:
    """Against lists of verbs, kinds and options, which are the same on every machine: a kubectl is not."""
    if words[1:2] == ["config"]:
        return _kubectl_config(words[2:])
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
    wrong += [each for name in files for each in unknown_path(name)]
    return wrong


def _helm(words: list[str]) -> list[str]:
    """The reader's own chart."""
    return (
        [] if tuple(words[1:3]) in {("show", "crds"), ("pull",)} else [f"helm {shlex.join(words[1:])} is not checked"]
    )


def _grep(words: list[str]) -> list[str]:
    """A filter of what another prints."""
    good = re.fullmatch(r"(-i )?(-e \S+ )*(-e )?[^-\s]\S*", " ".join(words[1:]))
    return [] if good else [f"grep {shlex.join(words[1:])} reads no output"]


# What checks a command of a program, and what that is. A program without a row here is an error: whoever writes of a new one says here
# how it is checked.
OWN = "its own parser"
NAMES = "its own parser; playbooks, inventories and variables that it names"
CHECKED: dict[str, tuple[t.Callable[[list[str]], list[str]], str]] = {
    "ansible-builder": (
        _builder,
        "its own parser; tests/receptor/test_execution_environment.py creates what it builds from, and builds no image",
    ),
    "ansible-doc": (_doc, "its own parser; names of modules, filters and roles"),
    "ansible-galaxy": (_galaxy, OWN),
    "ansible-playbook": (_playbook, NAMES),
    "awx": (_awx, "the parser of awxkit, as far as it goes without a server"),
    "cd": (_cd, "names of directories"),
    "cp": (_cp, "names of files, options"),
    "git": (_git, "the form of a clone"),
    "grep": (_grep, "the form of a filter"),
    "helm": (_helm, "a list of verbs"),
    "kubectl": (_kubectl, "lists of verbs, kinds and options; its own parser, where there is one"),
    "make": (_make, "targets of the Makefile"),
    "mkdir": (_mkdir, "names of directories"),
    "pip": (_pip, "its own parser; names of files"),
    "python": (_python, "names of files"),
    "sh": (_sh, "names of files"),
    "ssh": (_ssh, "the form of a connection to the lab"),
    "tar": (_tar, "names of files"),
}
CHECKS = {name: check for name, (check, _what) in CHECKED.items()}
# Programs that pages name in sentences only, of nodes, fabrics and others that no test starts: what may follow each, as its manual has it.
ELSEWHERE = {
    "ansible": r"-m ping",
    "cat": r"/sys/class/infiniband/\*/ports/1/gids/0",
    "cluster.py": r"build|start|start DIRECTORY|stop",
    "containerd": r"config dump",
    "dmesg": r"",
    "ethtool": r"-i NETDEV",
    "go": r"env GOMODCACHE GOCACHE|clean -modcache -cache",
    "ibtracert": r"LID LID",
    "ibv_devinfo": r"-l",
    "lldpctl": r"-f json",
    "longhornctl": r"check preflight",
    "lspci": r"-vv -s PCI",
    "mlnx_qos": r"--(trust|pfc)",
    "mstflint": r"-d PCI burn",
    "rdma": r"system|resource show mr",
    "skopeo": r"inspect docker://IMAGE",
    "ulimit": r"-l",
}


def parts_of(command: str) -> list[list[str]]:
    """The words of each program that a line of a terminal starts, without variables, comments, and where output goes."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    parts: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("&|;"):
            parts.append([])
        else:
            parts[-1].append(word)
    found = []
    for words in parts:
        named = list(itertools.dropwhile(lambda word: re.fullmatch(r"[A-Z_]+=.*", word), words))
        # where output goes, and what is read, is the user's own
        if own := list(itertools.takewhile(lambda word: word not in (">", "<"), named)):
            found.append(own)
    return found


def program_of(words: list[str]) -> str:
    return words[0].rpartition("/")[2]


def wrong_with(command: str) -> list[str]:
    """What is wrong with a line of a terminal."""
    wrong = []
    for words in parts_of(command):
        check = CHECKS.get(program_of(words))
        if words[0] in ELSEWHERE:
            said = " ".join(words[1:])
            wrong += [] if re.fullmatch(ELSEWHERE[words[0]], said) else [f"{words[0]} is not known to take {said!r}"]
            continue
        if check is None and not (ROOT / words[0]).is_file():
            wrong.append(f"{words[0]} is not a program that this test knows")
            continue
        try:
            wrong += check(words) if check else []
        except SystemExit:
            wrong.append(f"{words[0]} does not take these arguments: {shlex.join(words)}")
    return wrong


def commands(block: Block) -> list[str]:
    """The lines of a block of a terminal, continued ones joined."""
    return [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


@functools.cache
def names_in_awx() -> frozenset[str]:
    """What looks like a command, and is the name of an object."""
    text = (ROOT / "playbooks" / "vars" / "awx.yml").read_text()
    return frozenset(re.findall(r"name: ((?:fabric\.)?rdma [a-z ]+)$", text, re.M))


def sentences(paper: str) -> list[str]:
    """Commands between the words of a page: all that begins with a word and goes on, but for settings, values and names."""
    spans = re.findall(
        r"(?<!`)`([a-z][\w.-]* [^`]+|[a-z][\w.-]*\n[^`]+)`(?!`)", FENCE.sub("", (ROOT / paper).read_text())
    )
    told = [" ".join(span.split()) for span in spans]
    return [span for span in told if " = " not in span and span not in names_in_awx()]


# --- what is typed ---------------------------------------------------------------------------------------------------

# Needs neither a cluster nor a node that answers, when all nodes are recorded ones.
WITHOUT_CLUSTER = {"discover", "doctor", "plan", "prepare", "report", "site", "wishes"}
TYPES = "tests/integration/test_typed.py"
# The same steps in another language (test_documentation.py compares them) are typed once.
SAME = {"docs/zh/quickstart.md": "docs/quickstart.md"}
INSTALLS = "tests/integration/test_installed.py"
BEHIND_A_GAP = f"{INSTALLS}::test_what_is_downloaded_for_an_air_gap_is_installed_behind_it"
AWX = "tests/integration/test_awx.py"
MANIFEST = "tests/cluster/test_rbac.py::test_the_manifest_suffices_and_has_nothing_too_much"
# What is done in another form: with addresses of this machine, other values of variables, or through the API that the program would have
# asked; and the test or the playbook of a scenario that does it, with each option and each variable (test_documentation.py). The first row
# that fits counts.
LIKEWISE: list[tuple[str, str]] = [
    (
        r"ansible-galaxy collection install (-r requirements\.yml --upgrade|\S+\.tar\.gz --force)$",
        f"{INSTALLS}::test_an_upgrade_and_the_way_back_take_the_version_that_is_named",
    ),
    (
        r"ansible-galaxy collection install -r requirements\.yml$",
        f"{INSTALLS}::test_a_git_address_in_requirements_installs_it",
    ),
    (r"ansible-galaxy collection (download|install .* --offline)|tar -xzf|cd collections$", BEHIND_A_GAP),
    (r"ansible-playbook playbooks/awx\.yml", f"{AWX}::test_what_a_site_says_counts_in_both"),
    (r"python tools/awx\.py", f"{AWX}::test_what_a_site_says_counts_in_both"),
    (r"awx .* import", f"{AWX}::test_playbook_and_import_make_the_same"),
    (
        r"ansible-playbook playbooks/lab\.yml.* lab_kubernetes=",
        "molecule/cluster/create.yml, inventories/cluster/group_vars/all.yml",
    ),
    (r"ansible-playbook playbooks/lab\.yml$", "molecule/default/create.yml"),
    (r"ansible-playbook playbooks/lab\.yml -e lab_state=absent", "molecule/default/destroy.yml"),
    (
        r"ansible-playbook playbooks/lab\.yml -e lab_state=status",
        "tests/integration/test_lab.py::test_a_node_comes_dies_comes_back_and_leaves_nothing",
    ),
    (
        r"ansible-playbook fabric\.rdma\.capture ",
        "tests/integration/test_capture.py::test_what_a_live_host_has_comes_as_it_was_asked_for",
    ),
    (
        r"ansible-playbook fabric\.rdma\.uninstall .*(--check|rdma_uninstall_groups)",
        "tests/cluster/test_uninstall.py::test_groups_go_one_after_the_other_and_others_stay",
    ),
    (
        r'ansible-playbook fabric\.rdma\.rollout .*"remove"',
        "tests/cluster/test_all_groups.py::test_what_is_gone_goes_and_what_is_not_ours_stays",
    ),
    (r"ansible-playbook fabric\.rdma\.(rollout|uninstall|cleanup_stale) ", MANIFEST),
    (
        r"ansible-playbook fabric\.rdma\.verify .*verify_level=pods",
        "molecule/cluster/tests/test_day_two.py::test_verify_measures_between_pods",
    ),
    (r"kubectl (apply -f \S+/rbac\.yml|create token|config )", MANIFEST),
    (
        r"sh \S+-labels\.sh",
        "tests/integration/test_planning.py::test_scripts_of_labels_run_and_leave_out_what_cannot_name_a_node",
    ),
    (r"ssh -F", "tests/integration/test_lab.py::test_a_node_comes_dies_comes_back_and_leaves_nothing"),
]


def typed(block: Block) -> list[str]:
    """Those of its commands that test_typed.py types as they stand."""
    found = []
    for line in commands(block):
        (words, *more) = parts_of(line)
        playbook = words[1].removeprefix("fabric.rdma.") if words[0] == "ansible-playbook" else ""
        if not more and (
            playbook in WITHOUT_CLUSTER or words[0] == "mkdir" or (words[0] == "cp" and not words[-1].startswith("/"))
        ):
            found.append(line)
    return found


class Row(t.NamedTuple):
    """A command of a page; way: typed, likewise or not run; by: the file that types it, the test that does it, or what looks at it."""

    command: str
    way: str
    by: str


def rows_of(paper: str) -> list[Row]:
    """Each command of the blocks of a page, and how far a test goes with it."""
    rows = []
    for block in blocks(paper, "console"):
        own = typed(block)
        for line in commands(block):
            plain = re.sub(r"\s+# .*", "", line).strip()
            other = next((test for pattern, test in LIKEWISE if re.match(pattern, plain)), None)
            if line in own:
                rows.append(Row(plain, "typed", TYPES))
            elif other:
                rows.append(Row(plain, "likewise", other))
            else:
                looks = {CHECKED[program_of(words)][1]: None for words in parts_of(line)}
                rows.append(Row(plain, "not run", ", ".join(looks)))
    return rows


def target_of(by: str) -> str:
    """The target of the Makefile that runs a test, or the playbook of a scenario."""
    top, name = by.split("/")[:2]
    if top == "tests":
        return {"cluster": "kubernetes"}.get(name, name)
    return name if f"SCENARIOS={name} " in (ROOT / "Makefile").read_text() else "molecule"


# --- what is written ------------------------------------------------------------------------------------------------


def inventory_files(paper: str) -> list[tuple[str, str, t.Any]]:
    """(path, group or host, content) of each file of an inventory that a paper shows."""
    found = []
    for block in blocks(paper, "yaml"):
        if match := NAMED.match(block.text):
            found.append((match[1], match[2] or "", yaml.safe_load(block.text)))
    return found


def wishes_of(paper: str) -> list[tuple[str, dict[str, t.Any]]]:
    """Each group of a paper with all that its hosts have: a file that comes again is another example."""
    files = inventory_files(paper)
    wide = next((content for path, _name, content in files if path == "group_vars/rdma.yml"), {})
    groups = [(name, content) for path, name, content in files if path.startswith("group_vars/") and name != "rdma"]
    return [(name, {**wide, **content, "rdma_groups": [name]}) for name, content in groups]


def planned_groups(paper: str) -> list[tuple[str, dict[str, t.Any]]]:
    """Those of them that are planned: the others have no name for what their Pods ask for."""
    return [(name, wishes) for name, wishes in wishes_of(paper) if "rdma_resource" in wishes]


def tables(paper: str) -> list[str]:
    """What a page shows of the output of plan and discover."""
    return [block.text.rstrip("\n") for block in blocks(paper, "text") if block.text.startswith(("CLASS ", "HOST "))]
