"""`durable new`: lays out a user's project, from the template inside the installed package.

1. The build of the wheel assembles the template. pyproject.toml lists its files. A source tree has no template.
2. The project's folder has to be new or empty, so nothing is overwritten.
3. The project runs on the engine that laid it out. `requirements.txt` pins the engine's version, and says where pip
   finds it.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

TEMPLATE = Path(__file__).with_name("template")
PACKAGE = "durable-workflows"
WHEELS = "wheels"


class CannotLayOut(Exception):
    """No project was laid out. The message says why, as a sentence for a person."""


@dataclass(frozen=True)
class Origin:
    """Where pip finds this engine.

    lines: lines for requirements.txt. wheel: a wheel to copy into the project. note: a sentence for the user.
    """

    lines: tuple[str, ...]
    wheel: Path | None = None
    note: str | None = None


def lay_out(folder: Path) -> list[str]:
    """Write the project into `folder`. Returns notes for the user. Raises CannotLayOut."""
    try:
        installed = distribution(PACKAGE)
    except PackageNotFoundError:
        installed = None
    if installed is None or not TEMPLATE.is_dir():
        raise CannotLayOut(
            "this engine runs from its source tree, which has no template. Install the engine (pip install '.[dev]'), "
            "and call `durable new` again"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CannotLayOut(f"{folder} isn't an empty folder. Name a new or empty one: nothing is overwritten")
    origin = find_origin(installed)
    shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    (folder / "requirements.txt").write_text(_requirements(origin), "utf-8")
    if origin.wheel is not None:
        (folder / WHEELS).mkdir()
        shutil.copy(origin.wheel, folder / WHEELS)
    return [] if origin.note is None else [origin.note]


def find_origin(installed: Distribution) -> Origin:
    """Where this engine was installed from. pip records that, unless the engine came from an index."""
    pinned = f"{PACKAGE}=={installed.version}"
    written = json.loads(installed.read_text("direct_url.json") or "null")
    if written is None:
        return Origin((pinned,))
    address: str = written["url"]
    url = urlsplit(address)
    path = Path(url2pathname(url.path))
    is_local = url.scheme == "file"
    if is_local and path.suffix == ".whl" and path.is_file():
        return Origin((f"--find-links {WHEELS}", pinned), wheel=path)
    if "vcs_info" in written:
        address = f"{written['vcs_info']['vcs']}+{address}@{written['vcs_info']['commit_id']}"
    if not is_local:
        return Origin((f"{PACKAGE} @ {address}",))
    return Origin(
        (address,),
        note=f"requirements.txt names {path}, which is only on this machine. Before you deploy, build a wheel of the "
        f"engine and put it into {WHEELS}/. In requirements.txt, replace that line with two: --find-links {WHEELS}, "
        f"and {pinned}",
    )


def _requirements(origin: Origin) -> str:
    lines = (
        "# What the app needs in Azure, in the exact versions that the engine's tests passed with.",
        "-c constraints.txt",
        *origin.lines,
    )
    return "".join(f"{line}\n" for line in lines)
