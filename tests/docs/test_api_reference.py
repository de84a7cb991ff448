"""Every public name is in the API reference, as its docstring and signature have it.

The pages are built for real, by mkdocs with the settings of mkdocs.yml: what a name needs to be rendered (a docstring,
no module of its own name) is for mkdocstrings to say, not for this test.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs/reference/api"
SITE = """\
INHERIT: {root}/mkdocs.yml
docs_dir: {root}/docs/reference/api
site_dir: {site}
validation:
  links: {{not_found: ignore}}
nav: {nav}
"""


def public_names():
    """(room, name) of everything in an `__all__` of a room, without importing it."""
    for file in sorted((ROOT / "src/discreet").rglob("__init__.py")):
        room = ".".join(("discreet", *file.parent.relative_to(ROOT / "src/discreet").parts))
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
                yield from ((room, name) for name in ast.literal_eval(node.value))


def directives():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES.glob("*.md"))
    return re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)


def test_every_room_with_public_names_has_its_place():
    rooms = {room for room, _ in public_names()}
    assert len(rooms) > 20
    assert rooms <= set(directives())
    assert len(directives()) == len(set(directives()))


def test_every_public_name_is_rendered(tmp_path):
    config = tmp_path / "mkdocs.yml"
    nav = [page.name for page in sorted(PAGES.glob("*.md"))]
    config.write_text(SITE.format(root=ROOT, site=tmp_path / "site", nav=nav))
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", config],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    built = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html"))
    shown = set(re.findall(r'id="(discreet[\w.]*)"', built))
    alone = {one.rpartition(".")[2]: one for one in directives()}  # names that a module has, too
    missing = [
        f"{room}.{name}"
        for room, name in public_names()
        if f"{room}.{name}" not in shown and not (alone.get(name, "").startswith(room) and alone[name] in shown)
    ]
    assert not missing
