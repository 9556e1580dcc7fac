# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation tells users to type and to write works: commands, inventories, and the plans that it shows of them."""

from __future__ import annotations

import ast
import configparser
import functools
import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

from ansible_collections.fabric.rdma.plugins.filter.rdma_selectors import rdma_selectors
from ansible_collections.fabric.rdma.plugins.filter.rdma_table import rdma_table
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import VARIABLES, problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import diagnose
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.words import findings_text
from ansible_collections.fabric.rdma.plugins.plugin_utils._inventory import inventory_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import SYSTEMS
from ansible_collections.fabric.rdma.tests.unit.documentation import (
    BEHIND_A_GAP,
    CHECKS,
    CORE,
    ELSEWHERE,
    FENCE,
    LIKEWISE,
    PAPERS,
    ROOT,
    Block,
    blocks,
    commands,
    extra_variables,
    inventory_files,
    papers_with,
    parts_of,
    planned_groups,
    program_of,
    rows_of,
    sentences,
    tables,
    target_of,
    variables,
    wishes_of,
    wrong_with,
)
from ansible_collections.fabric.rdma.tests.unit.kubeconfigs import typed
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor.samples import a_log, material
from ansible_collections.fabric.rdma.tests.unit.test_demo_inventory import CAPTURES, HOSTS


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
    lines = [line for block in blocks(paper, "console") for line in commands(block)]
    assert [f"{line}: {each}" for line in lines for each in wrong_with(line)] == []


def test_a_command_in_a_sentence_can_be_typed() -> None:
    found = [(paper, span) for paper in PAPERS for span in sentences(paper)]
    assert len(found) > 50
    wrong = {f"{paper}: {span}": wrong_with(span) for paper, span in found if not re.search(r"\.\.\.|<\w+>", span)}
    assert {span: each for span, each in wrong.items() if each} == {}
    # a program that no page names any more would be forgotten
    named = {program_of(words) for _paper, span in found for words in parts_of(span)}
    assert set(ELSEWHERE) <= named


def names_in(node: ast.AST) -> set[str]:
    """What it uses: functions, fixtures, constants, methods."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    found |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return found | {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}


@functools.cache
def doer(by: str) -> str:
    """The text of a test with what it uses of its file, or of playbooks."""
    path, _colons, test = by.partition("::")
    if not test:
        return "\n".join((ROOT / each).read_text() for each in by.split(", "))
    text = (ROOT / path).read_text()
    parts: dict[str, ast.AST] = {}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            parts[node.name] = node
        elif isinstance(node, ast.Assign):
            parts |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    assert test in parts, by
    ahead, used = [test], set[str]()
    while ahead:
        name = ahead.pop()
        used.add(name)
        ahead += [each for each in names_in(parts[name]) & set(parts) if each not in used]
    return "\n".join(ast.get_source_segment(text, parts[name]) or "" for name in sorted(used))


def marks(command: str) -> set[str]:
    """What whoever does it in another form has, too: the program's own verb or playbook, each option, and each variable."""
    found = set()
    for words in parts_of(command):
        program, *rest = words
        if words[:2] == ["kubectl", "config"]:
            # the test types the lines of the page
            return {"docs/security.md", "kubectl config"}
        options = [word.partition("=")[0] for word in rest if word.startswith("--")]
        if program == "python":
            # it takes the variables of the playbook
            options = [f"awx_{option[2:].replace('-', '_')}" for option in options]
        # where a run takes its inventory from, and how long a token is good, is up to the reader
        found |= {word for word in options if word != "--duration"}
        for option, value in itertools.pairwise(rest):
            given = extra_variables(value) if option == "-e" else {}
            found |= {*given, *(key for each in given.values() if isinstance(each, dict) for key in each)}
        if program == "ansible-playbook":
            found.add(Path(rest[0]).name.removeprefix("fabric.rdma."))
        elif program in ("ansible-galaxy", "kubectl"):
            found |= {word for word in rest[:2] if re.fullmatch("[a-z]+", word)} - {"collection"}
        elif program in ("sh", "ssh"):
            found.add(f'"{program}"')
        else:
            found.add(
                {"cd": "air-gap.md", "tar": "air-gap.md"}.get(
                    program, Path(rest[0]).name if program == "python" else program
                )
            )
    return found


# What a test does by the API that kubectl asks.
BY_THE_API = {"apply": "rbac.yml", "create": "/token"}


def test_what_does_a_command_has_its_options_and_variables_and_each_of_its_rows_is_needed() -> None:
    """A pattern that fits no command any more would be forgotten, and one that another takes all from."""
    rows = [row for paper in PAPERS for row in rows_of(paper)]
    assert {row.way for row in rows} == {"typed", "likewise", "not run"}
    lacking = {
        f"{row.by}: {mark}"
        for row in rows
        if row.way == "likewise"
        for mark in marks(row.command)
        # it reads the lines of the page itself
        if BY_THE_API.get(mark, mark) not in doer(row.by) and row.by != BEHIND_A_GAP
    }
    assert lacking == set()
    assert "air-gap.md" in doer(BEHIND_A_GAP)
    first = [
        next(pattern for pattern, _test in LIKEWISE if re.match(pattern, row.command))
        for row in rows
        if row.way == "likewise"
    ]
    assert set(first) == {pattern for pattern, _test in LIKEWISE}


def test_each_command_is_in_the_list_of_what_was_checked() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "checked.py")], capture_output=True, text=True, check=True
    )
    listed = [line.strip() for line in done.stdout.splitlines()]
    for paper in papers_with("console"):
        assert f"{paper}:" in done.stdout
        for row in rows_of(paper):
            assert f"{row.way:9} {row.command}" in listed, paper
            if row.way == "likewise":
                assert f"make {target_of(row.by)}: {row.by}" in listed, paper
    total = sum(len(commands(block)) for paper in PAPERS for block in blocks(paper, "console"))
    assert f" of {total} commands " in listed[-1]


def test_the_target_that_is_named_runs_the_test() -> None:
    makefile, tool = ((ROOT / name).read_text() for name in ("Makefile", "tools/molecule"))
    apart = re.findall(r"grep -vxE '([a-z|]+)'", tool)[0].split("|")
    named = {row.by for paper in PAPERS for row in rows_of(paper) if row.way == "likewise"}
    assert {target_of(by) for by in named} == {"integration", "kubernetes", "cluster", "molecule"}
    for by in named:
        target, folder = target_of(by), "/".join(by.split("/")[:2])
        (recipe,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.M)
        if f"SCENARIOS={target} " in recipe:
            tests = f"directory: ../../{folder}\n"
            scenario = (ROOT / "molecule" / target / "molecule.yml").read_text()
            assert folder == f"molecule/{target}" or tests in scenario, by
        elif target == "molecule":
            # all but those that have targets of their own
            assert Path(folder).name not in apart, by
        else:
            assert f" {folder} " in recipe, by


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ansible-playbook fabric.rdma.nothing -i inventories/mine", "there is no playbook fabric.rdma.nothing"),
        ("ansible-playbook fabric.rdma.site -i inventories/mine -e rdma_serail=1", "there is no variable rdma_serail"),
        ("ansible-playbook fabric.rdma.site --no-such-option", "does not take these arguments"),
        ("cd x && make nothing", "there is no target nothing"),
        ("kubectl aply -f docs/rbac.yml", "kubectl has no verb aply"),
        ("kubectl config set-clustr x", "kubectl config has no verb set-clustr"),
        ("kubectl config set-context x --clsuter y", "kubectl config set-context has no option --clsuter"),
        ('kubectl config set-credentials x --token "$(kubectl create tokn x)"', "Kubernetes has no kind tokn"),
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
        ("ansible-playbook fabric.rdma.site -i inventory -e verify_level=pod", "value of verify_level must be one of"),
        (
            """ansible-playbook fabric.rdma.uninstall -i inventory -e '{"rdma_uninstall_systems": ["device_plugn"]}'""",
            "there is no system device_plugn",
        ),
        ('make benchmark SIZES="--only sites --site 5000"', "does not take these arguments"),
        ('make benchmark SIZES="--only site --sizes 5000"', "does not take these arguments"),
        ("rdmactl start", "not a program that this test knows"),
        ("rdma resource shwo mr", "rdma is not known to take 'resource shwo mr'"),
        ("dmesg | grep -x aer", "reads no output"),
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


INVENTORIES = [paper for paper in PAPERS if inventory_files(paper)]


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
    for name, wishes in planned_groups(paper):
        plan = planned(name, wishes)
        assert plan["errors"] == [], f"{paper}, {name}"
        assert {host for each in plan["classes"] for host in each["hosts"]} == set(HOSTS[name])


def test_every_kind_of_node_is_worked_through() -> None:
    assert {name for name, _wishes in wishes_of("docs/groups.md")} == set(HOSTS)


@pytest.mark.parametrize("paper", [paper for paper in PAPERS if tables(paper)])
def test_a_table_that_is_shown_is_what_a_run_prints(paper: str) -> None:
    """Of the recorded nodes, with the wishes that the same paper shows. What comes after its tables, a warning, may be left out."""
    printed = [str(rdma_table(planned(name, wishes))) for name, wishes in planned_groups(paper)]
    printed += [str(rdma_table(facts_of(name))) for name in HOSTS]
    assert [
        text
        for text in tables(paper)
        if not any(each.strip() == text or each.startswith(text + "\n\nwarning") for each in printed)
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


def diagnosed(block: str) -> str:
    """What the doctor would say of the hosts that a finding names, with what was seen there for their logs."""
    match = re.match(r"[A-Z]+ [\w-]+: group ([\w-]+), ([\w-]+-)(\d+)\.\.\2(\d+) \(\d hosts\)\n", block)
    assert match
    hosts = [f"{match[2]}{number}" for number in range(int(match[3]), int(match[4]) + 1)]
    seen = re.findall(r"^  seen   (\S+) (\S+): (.*)$", block, re.M)
    (pod,) = {pod for pod, _container, _line in seen}
    name = f"{pod} {seen[0][1]}"
    logs = [a_log(*(line for *_log, line in seen), host=host, pod=pod, name=name) for host in hosts]
    findings = diagnose(material(logs=logs, groups={match[1]: hosts}))
    return findings_text(findings, [], {"hosts": 1}).partition("\n\n")[2]


def test_a_finding_that_is_shown_is_what_the_doctor_says() -> None:
    """What it has seen is wrapped, and columns are shown with one blank between them."""
    found = [
        block.text for paper in PAPERS for block in blocks(paper, "text") if re.match("[A-Z]+ [a-z0-9-]+:", block.text)
    ]
    assert found
    for text in found:
        assert diagnosed(text).split() == text.split()


class Spoken(t.NamedTuple):
    """What a page has in every language."""

    blocks: list[Block]
    sections: list[tuple[int, int]]
    names: list[str]
    links: list[str]


def spoken_of(paper: str) -> Spoken:
    """Its blocks without comments, how many paragraphs and items each section has, all code between its blocks, and where its links lead."""
    text = (ROOT / paper).read_text()
    plain = [
        Block(each.language, "\n".join(re.sub(r"\s+# .*", "", line) for line in each.text.splitlines()))
        for each in blocks(paper, "yaml", "console", "text")
    ]
    prose = FENCE.sub("", text)
    sections = [
        (len(re.findall(r"\n\n(?![-#])\S", section)), len(re.findall(r"^- ", section, re.M)))
        for section in re.split(r"^#+ ", prose, flags=re.M)
    ]
    names = sorted(" ".join(span.split()) for span in set(re.findall(r"`([^`]+)`", prose)))
    links = [
        os.path.relpath((ROOT / paper).parent / target, ROOT).replace("docs/zh/", "docs/")
        for target in re.findall(r"\]\(([^)\s]+)", prose)
        if "://" not in target
    ]
    # each of them names the other one
    links = sorted(link.partition("#")[0] for link in links if link != "docs/quickstart.md")
    return Spoken(plain, sections, names, links)


def test_the_chinese_quick_start_says_what_the_english_one_says() -> None:
    """The same steps, the same blocks but for their comments, the same items, names and links; who changes one page changes the other."""
    english, chinese = spoken_of("docs/quickstart.md"), spoken_of("docs/zh/quickstart.md")
    assert len(english.blocks) > 8
    assert chinese.blocks == english.blocks
    assert chinese.names == english.names
    assert chinese.links == english.links
    assert chinese.sections == english.sections


# What comments promise, in both languages.
PROMISES = {
    "changes nothing": "不做任何更改",
    "what would change": "将会更改",
    "change it": "执行更改",
    "every node offers its resource": "每个节点都提供该资源",
    "discover, prepare, plan, verify, report": "发现、准备、规划、验证、报告",
    "of your kubeconfig": "kubeconfig 所指集群",
    "without type and version": "不写 type 和 version",
    "the Python of ansible-core": "ansible-core 所用的 Python",
}


def comments(paper: str) -> list[str]:
    """Those behind something."""
    return [
        comment
        for block in blocks(paper, "yaml", "console")
        for comment in re.findall(r"\S\s+# (.*)$", block.text, re.M)
    ]


def test_comments_of_the_chinese_quick_start_promise_what_those_of_the_english_one_do() -> None:
    pairs_of_comments = list(zip(comments("docs/quickstart.md"), comments("docs/zh/quickstart.md"), strict=True))
    for english, chinese in pairs_of_comments:
        own = [promise for promise in PROMISES if promise in english]
        assert own, english
        assert [PROMISES[promise] for promise in own] == [each for each in PROMISES.values() if each in chinese]
    assert all(any(promise in english for english, _chinese in pairs_of_comments) for promise in PROMISES)


@functools.cache
def anchors(path: Path) -> set[str]:
    """Those of the headings of a page, as GitHub and the pages of the documentation make them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line) for line in re.findall(r"^#+ (.+)$", text, re.M)]
    found: set[str] = set()
    for heading in headings:
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found.add(slug if slug not in found else f"{slug}-1")
    return found


def test_a_link_leads_to_a_file_and_to_a_heading_of_it() -> None:
    wrong, seen = [], 0
    for paper in PAPERS:
        place = (ROOT / paper).parent
        for link in re.findall(r"\]\(([^)\s]+)", FENCE.sub("", (ROOT / paper).read_text())):
            target, _hash, anchor = link.partition("#")
            if "://" in target:
                continue
            path = place / target if target else ROOT / paper
            seen += bool(anchor)
            if not path.exists() or (anchor and anchor not in anchors(path)):
                wrong.append(f"{paper}: {link}")
    assert wrong == []
    assert seen > 20


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


def test_the_picture_shows_the_report_as_it_is() -> None:
    """Of the same page a browser of another version may make another picture, so the page is compared."""
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "tools" / "screenshots.py")
    assert spec is not None
    assert spec.loader is not None
    screenshots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screenshots)
    page = screenshots.pictured()
    assert screenshots.made_of(page) == screenshots.DIGEST.read_text().strip(), "run `make picture`"
    for part in ("What to do", ".badge"):
        assert part in page.partition("</section>")[0]
        assert screenshots.made_of(page.replace(part, "other", 1)) != screenshots.made_of(page)


def test_the_readme_reads_in_two_minutes() -> None:
    """460 words, at 230 a minute; blocks and tables are looked at, not read."""
    prose = re.sub(r"^\|.*$|\]\([^)]*\)", " ", FENCE.sub("", (ROOT / "README.md").read_text()), flags=re.M)
    assert len(re.findall(r"\w[^\s]*", prose)) <= 460


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
    "where": "hosts",
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


def test_what_wishes_connects_to_is_what_pages_say() -> None:
    """No node; the cluster where the run is to change it, or is told where it is."""
    tasks = [task for play in yaml.safe_load((ROOT / "playbooks" / "wishes.yml").read_text()) for task in play["tasks"]]
    modules = {name: task for task in tasks for name in task if name.startswith("fabric.rdma.")}
    # an action, which asks the host nothing
    assert "_low_level_execute_command" not in (ROOT / "plugins" / "action" / "quiet_value.py").read_text()
    assert set(modules) == {"fabric.rdma.rollout_departures", "fabric.rdma.quiet_value"}
    asks = modules["fabric.rdma.rollout_departures"]
    assert asks["delegate_to"] == "localhost"
    assert "== 'apply'" in asks["when"]
    assert "rdma_rollout.kubeconfig" in asks["when"]
    for page in ("docs/inventory.md", "docs/variables.md", "docs/security.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert re.search(r"wishes[^.]*\bconnects to no (node|host)\b", text.replace("wishes.yml", "wishes")), page
        assert re.search(r"asks? the cluster\b", text), page


def test_the_systems_that_can_be_taken_out_are_all_named() -> None:
    (row,) = re.findall(
        r"^\| `rdma_uninstall_systems` .*: (.*) \|$", (ROOT / "docs" / "variables.md").read_text("utf-8"), re.MULTILINE
    )
    assert set(re.findall(r"`(\w+)`", row)) == {system.name for system in SYSTEMS}


def test_where_captures_go_is_what_the_page_says() -> None:
    (play,) = yaml.safe_load((ROOT / "playbooks" / "capture.yml").read_text())
    (fetch,) = [task for each in play["tasks"] for task in each.get("block", []) if "ansible.builtin.fetch" in task]
    where = fetch["ansible.builtin.fetch"]["dest"]
    suffixes = re.findall(r"'(capture|tar\.gz)'", play["vars"]["__capture_suffix"])
    assert where == "{{ __capture_output }}/captures/{{ inventory_hostname }}.{{ __capture_suffix }}"
    text = " ".join((ROOT / "docs" / "inventory.md").read_text().split())
    assert "`rdma-output/captures/HOST.{}` (without `rdma_capture_text`, `HOST.{}`)".format(*suffixes) in text


def test_rights_on_the_api_are_those_of_the_manifest() -> None:
    items = yaml.safe_load((ROOT / "docs" / "rbac.yml").read_text())["items"]
    granted = [
        [
            each["metadata"].get("namespace", "the cluster"),
            ", ".join(rule["resources"]),
            ", ".join(rule["verbs"]),
        ]
        for each in items
        if each["kind"] in ("Role", "ClusterRole")
        for rule in each["rules"]
    ]
    table = rows("docs/security.md", "| where | resources | verbs | why |")
    assert [row[:3] for row in table] == granted
    assert all(row[3] for row in table)


def test_versions_of_others_in_commands_are_those_that_are_pinned() -> None:
    pinned = (ROOT / "requirements-dev.txt").read_text()
    (client,) = re.findall(r"^awxkit==(\S+)$", pinned, re.M)
    assert f"ansible-galaxy collection install awx.awx:{client}\n" in (ROOT / "docs" / "awx.md").read_text()
    oldest, newest = re.findall(r"ansible-core (2\.\d+) to 2\.(\d+)", (ROOT / "docs" / "support.md").read_text())[0]
    assert f"ansible-core>={oldest},<2.{int(newest) + 1}" == CORE
    execution = yaml.safe_load((ROOT / "execution-environment.yml").read_text())["dependencies"]["ansible_core"]
    core = ".".join(execution["package_pip"].split("==")[1].split(".")[:2])
    assert f"or another one with ansible-core {core}. " in (ROOT / "docs" / "awx.md").read_text()


# The way back takes an earlier release.
NAMES_ANOTHER = {"docs/upgrade.md"}
# Files other than pages that name the release.
CALLED = ["execution-environment.yml", "playbooks/awx.yml", "playbooks/vars/awx.yml"]


def test_tarballs_and_images_are_called_by_the_release() -> None:
    """Whoever raises the version of galaxy.yml would leave pages that have users install the release before."""
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    named = [
        (paper, name, found)
        for paper in {*PAPERS, *CALLED} - NAMES_ANOTHER
        for name, found in re.findall(r"fabric-rdma(-ee:|-)(\d+\.\d+\.\d+)", (ROOT / paper).read_text())
    ]
    assert {name for _paper, name, _found in named} == {"-", "-ee:"}
    assert set(CALLED) < {paper for paper, _name, _found in named}
    assert [each for each in sorted(named) if each[2] != version] == []


def test_every_page_names_the_pythons_of_the_table() -> None:
    table = rows("docs/support.md", "| ansible-core | controller | nodes |")
    cores = [core for row in table for core in row[0].split(", ")]
    first, last = (int(core.split(".")[1]) for core in (cores[0], cores[-1]))
    assert cores == [f"2.{minor}" for minor in range(first, last + 1)]
    assert f"ansible-core>=2.{first},<2.{last + 1}" == CORE
    least = table[0][2]
    others = [row for row in table if row[2] != least]
    since, newer = others[0][0].split(", ")[0], others[0][2]
    assert {row[2] for row in others} == {newer}
    for paper in ("README.md", "docs/quickstart.md", "docs/security.md"):
        text = " ".join((ROOT / paper).read_text().split())
        assert re.search(rf"Python {least} or newer[a-z ]* \({newer} from ansible-core {since} on\)", text), paper
        assert re.findall(r"ansible-core 2\.(\d+) to 2\.(\d+)", text) in ([], [(str(first), str(last))]), paper
    chinese = (ROOT / "docs" / "zh" / "quickstart.md").read_text()
    assert f"ansible-core 2.{first} 至 2.{last}" in chinese
    assert re.search(rf"Python {least} 或更新版本.从 ansible-core {since} 起为 {newer}", chinese)


def test_the_collections_of_a_download_are_all_named() -> None:
    """docs/air-gap.md: those that galaxy.yml asks for, and what these need, here and where all versions are pinned."""
    own = yaml.safe_load((ROOT / "galaxy.yml").read_text())["dependencies"]
    pinned = yaml.safe_load((ROOT / "collections" / "requirements.yml").read_text())["collections"]
    there = ROOT / ".collections" / "ansible_collections"
    needed = {
        name
        for each in own
        for name in json.loads((there / each.replace(".", "/") / "MANIFEST.json").read_text())["collection_info"][
            "dependencies"
        ]
    }
    text = (ROOT / "docs" / "air-gap.md").read_text()
    named = needed | {each["name"] for each in pinned}
    assert named > set(own)
    assert [name for name in sorted(named) if f"`{name}`" not in text] == []


def rules_of(text: str, resource: str) -> list[list[str]]:
    """The verbs that rules on one line each give for a resource."""
    return [re.findall(r"\w+", verbs) for verbs in re.findall(rf"resources: \[{resource}\], verbs: \[(.*?)\]", text)]


def test_pods_that_measure_need_what_the_manifest_grants() -> None:
    """tests/cluster/test_rbac.py proves that it suffices."""
    readme, manifest = ((ROOT / path).read_text() for path in ("roles/verify_pod/README.md", "docs/rbac.yml"))
    for resource in ("pods", "pods/log"):
        (asked,) = rules_of(readme, resource)
        assert sorted(asked) in [sorted(verbs) for verbs in rules_of(manifest, resource)]
    assert "`create`, `list` and `delete` of `pods`" in " ".join((ROOT / "roles/verify/README.md").read_text().split())


def test_defaults_of_what_awx_gets_are_those_of_its_objects() -> None:
    what = DataLoader().load_from_file(str(ROOT / "playbooks" / "vars" / "awx.yml"))["awx_objects"]
    defaults = {
        "awx_organization": what["organization"],
        "awx_scm_branch": what["project"]["scm_branch"],
        "awx_image": what["execution_environment"]["image"],
        "awx_groups": ", ".join(what["questions"]["groups"]["choices"]),
        "awx_slices": str(what["slices"]),
    }
    assert {each["job_slice_count"] for each in what["job_templates"] if "job_slice_count" in each} == {what["slices"]}
    told = dict(map(tuple, rows("docs/awx.md", "| variable | default |")))
    used = set(re.findall(r"\bawx_(?!objects)\w+", (ROOT / "playbooks" / "awx.yml").read_text()))
    assert set(told) == used
    assert {name: told[name] for name in defaults} == defaults
    assert all(told[name].startswith("none: ") for name in used - set(defaults))


def test_settings_that_are_here_are_those_of_the_page() -> None:
    """What a large site is told to keep of ansible.cfg, such as the pipelining that the figures were measured with."""
    here = configparser.ConfigParser()
    here.read(ROOT / "ansible.cfg")
    told = [row[1] for row in rows("docs/large.md", "| where | what | why |") if row[1].endswith(", as here")]
    assert len(told) == 2
    for text in told:
        name, value = text.split()[0:3:2]
        for section in re.findall(r"\[(\w+)\]", text) or ["defaults"]:
            assert here[section][name] == value.rstrip(","), text


def named_in(what: t.Any) -> set[str]:
    """All names of objects, however deep."""
    if isinstance(what, dict):
        own = {what["name"]} if isinstance(what.get("name"), str) else set()
        return own | {name for each in what.values() for name in named_in(each)}
    return {name for each in what for name in named_in(each)} if isinstance(what, list) else set()


def test_whatever_a_page_calls_an_object_of_awx_is_its_name() -> None:
    what = DataLoader().load_from_file(str(ROOT / "playbooks" / "vars" / "awx.yml"))["awx_objects"]
    text = " ".join((ROOT / "docs" / "awx.md").read_text().split())
    told = set(re.findall(r"`((?:fabric\.)?rdma [a-z][a-z ]*)`", text)) | set(re.findall(r"\bname `([^`]+)`", text))
    assert {name for name in named_in(what) if "rdma" in name} <= told
    assert told <= named_in(what)


def test_the_kubeconfig_that_a_page_makes_leads_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("a certificate")
    page = [line for block in blocks("docs/security.md", "console") for line in commands(block)]
    lines = [line.replace("/etc/kubernetes/pki", str(tmp_path)) for line in page if line.startswith("kubectl config")]
    config = typed(lines)
    (context,) = [each["context"] for each in config["contexts"] if each["name"] == config["current-context"]]
    (user,) = [each["user"] for each in config["users"] if each["name"] == context["user"]]
    (cluster,) = [each["cluster"] for each in config["clusters"] if each["name"] == context["cluster"]]
    assert cluster["server"] == "https://api.example.com:6443"
    assert user["token"].startswith("$(kubectl create token ")
    (path,) = {line.split()[3] for line in lines}
    (wide,) = [
        content for name, _group, content in inventory_files("docs/security.md") if name == "group_vars/rdma.yml"
    ]
    assert wide["rdma_rollout"]["kubeconfig"] == path


def test_settings_of_awx_have_one_path() -> None:
    pages = [" ".join((ROOT / "docs" / name).read_text().split()) for name in ("awx.md", "air-gap.md")]
    told = [path for page in pages for path in re.findall(r"\*Settings, ([^*]+)\*", page)]
    assert len(told) == 3
    assert {path.partition(", ")[0] for path in told} == {"Jobs settings"}


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
        [
            *(ASKED[key], each["variable"], each["type"]),
            f"{each['min']}-{each['max']}" if each["type"] == "text" else "",
            *(each["default"], "yes" if each["required"] else ""),
        ]
        for key, each in what["questions"].items()
    ]
    assert rows("docs/awx.md", "| asks for | variable | type | length | default | required |") == questions
    nodes = [
        [
            each["identifier"],
            each.get("job_template", each.get("approval")) + pairs(each.get("extra_data")),
            *(", ".join(each.get(way, [])) for way in ("success_nodes", "failure_nodes")),
        ]
        for each in what["workflow"]["nodes"]
    ]
    assert rows("docs/awx.md", "| node | runs | on success | on failure |") == nodes
    text = " ".join((ROOT / "docs" / "awx.md").read_text().split())
    both = [f"`{each['name']}`" for each in what["job_templates"] if each.get("cluster")]
    assert f"{', '.join(both[:-1])} and {both[-1]} get both" in text
    project, source = what["project"], what["inventory_source"]
    assert f"address and branch (`{project['scm_branch']}`) of your copy" in text
    for seconds in (project["scm_update_cache_timeout"], source["update_cache_timeout"]):
        assert text.count(f"{seconds} seconds of *Cache Timeout*") == 2
    for each in what["schedules"]:
        hour = re.search(r"T(\d\d)(\d\d)", each["rrule"])
        assert hour
        assert f"`{each['name']}`, every day at {hour[1]}:{hour[2]}" in text
        assert all(f"answer its survey with `{answer}`" in text for answer in each["extra_data"].values())
