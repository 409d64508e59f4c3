"""The two rules by which .funcignore is read, each as a function from the file's text to what a path's fate is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from pathspec import GitIgnoreSpec

Rule = Callable[[str, Iterable[str]], set[str]]
"""From the text of .funcignore and the paths of all files, those that are packed."""

NEVER_PUBLISHED = {".funcignore", ".gitignore", "local.settings.json", "project.lock.json"}
NEVER_ENTERED = {".git", ".vscode"}


def as_core_tools(text: str, paths: Iterable[str]) -> set[str]:
    """`func azure functionapp publish`: a pattern is anchored at the top and ends at the end of a word. `*` stands for
    one character or more, `**` for several parts. A pattern with `!` always wins.
    (https://github.com/Azure/azure-functions-core-tools, GitIgnoreParser.cs and FileSystemHelpers.cs)"""
    lines = [line.strip() for line in text.split("\n")]
    patterns = [line for line in lines if line and not line.startswith("#")]
    left_out = _one_of(pattern for pattern in patterns if not pattern.startswith("!"))
    kept = _one_of(pattern[1:] for pattern in patterns if pattern.startswith("!"))

    def is_packed(path: str) -> bool:
        *folders, name = path.split("/")
        if name.lower() in NEVER_PUBLISHED or not NEVER_ENTERED.isdisjoint(folders):
            return False
        return kept.match(path) is not None or left_out.match(path) is None

    return {path for path in paths if is_packed(path)}


def _one_of(patterns: Iterable[str]) -> re.Pattern[str]:
    parts = {"**": ".+", "*": "[^/]+"}
    whole = [
        "".join(parts.get(part) or re.escape(part) for part in re.split(r"(\*\*|\*)", pattern.removeprefix("/")))
        for pattern in patterns
    ]
    return re.compile(rf"(?:{'|'.join(whole)})\b" if whole else r"(?!)", re.ASCII)


def as_gitignore(text: str, paths: Iterable[str]) -> set[str]:
    """azd, and the action as far as this file goes: a .gitignore."""
    spec = GitIgnoreSpec.from_lines(text.splitlines())
    return {path for path in paths if not spec.match_file(path)}


def as_npm(folder: Path) -> Rule:
    """azure/functions-action itself: the npm package `ignore` in that folder's node_modules, called as the action does.
    (https://github.com/Azure/functions-action, src/utils/funcignore.ts)"""
    node = shutil.which("node")
    assert node is not None, "NPM_IGNORE_DIR is set, and there is no node"
    program = (
        "const ignore = require('ignore');"
        "const {text, paths} = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        r"const rule = ignore().add(text.split('\n').filter(line => line.trim() !== ''));"
        "process.stdout.write(JSON.stringify(paths.filter(path => !rule.ignores(path))));"
    )

    def packed(text: str, paths: Iterable[str]) -> set[str]:
        asked = json.dumps({"text": text, "paths": list(paths)})
        ran = subprocess.run([node, "-e", program], input=asked, cwd=folder, capture_output=True, text=True, check=True)
        return set(json.loads(ran.stdout))

    return packed
