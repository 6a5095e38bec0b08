"""packaging/deb: what the package holds. `make deb` installs, runs and purges it."""

from __future__ import annotations

import re
import string
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
DEB = ROOT / "packaging/deb"
VALUES = {
    "ROOT": "/made",
    "VERSION": "1.2.3",
    "DEBIAN_RELEASE": "1",
    "MTIME": "x",
    "PYTHON": "3.13",
    "PYTHON_NEXT": "3.14",
}


def described() -> dict[str, Any]:
    text = string.Template((DEB / "nfpm.yaml").read_text(encoding="utf-8")).substitute(VALUES)
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_each_file_of_ours_that_it_names_exists() -> None:
    found = described()
    named = [one["src"] for one in found["contents"]] + [*found["overrides"]["deb"]["scripts"].values()]
    ours = [name for name in named if not name.startswith("/")]
    assert [name for name in ours if not (ROOT / name).is_file()] == []


def test_it_holds_every_unit_and_every_file_of_settings() -> None:
    held = {one["src"]: one for one in described()["contents"]}
    for unit in (ROOT / "packaging/systemd").iterdir():
        assert str(unit.relative_to(ROOT)) in held
    for file in (ROOT / "packaging/etc").iterdir():
        one = held[str(file.relative_to(ROOT))]
        assert (one["type"], one["dst"]) == ("config", f"/etc/springtide/{file.name}")
    assert held["packaging/etc/controller.toml"]["file_info"]["mode"] == 0o600  # may hold a password


def test_it_is_for_the_python_that_its_packages_were_made_for() -> None:
    assert {"python3 (>= 3.13~)", "python3 (<< 3.14~)"} <= set(described()["depends"])


def test_what_dpkg_runs_is_a_script_of_a_plain_shell() -> None:
    for name in ("postinst", "prerm", "postrm"):
        assert (
            (DEB / name).read_text().startswith("#!/bin/sh\nset -e\n" if name != "postrm" else "#!/bin/sh\n")
        )
        subprocess.run(["sh", "-n", DEB / name], check=True)


def test_what_make_calls_is_in_git() -> None:
    """The pattern `build` of .gitignore leaves out files of that name, too."""
    called = re.findall(r"packaging/\S+", (ROOT / "Makefile").read_text(encoding="utf-8"))
    listed = subprocess.run(
        ["git", "ls-files", "packaging"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert called
    assert set(called) <= set(listed.stdout.split())
