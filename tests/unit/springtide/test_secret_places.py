"""Files with secrets: which modes are accepted, and what an operator is told of others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from springtide.secret_places import SecretExposed, check_secret_file, has_password
from tests.kit.secret_file import write_secret

ANOTHER_GROUP = 54_321


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_secret(tmp_path / "secret", "s3cret")


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o440, 0o640, 0o700])
def test_a_file_of_the_process_or_of_its_group_is_accepted(file: Path, mode: int) -> None:
    file.chmod(mode)
    check_secret_file(file)


@pytest.mark.parametrize(
    ("mode", "who"),
    [(0o644, "every user of this host"), (0o604, "every user"), (0o602, "every user"), (0o660, "its group")],
)
def test_a_file_that_others_can_get_at_is_refused_with_what_mends_it(file: Path, mode: int, who: str) -> None:
    file.chmod(mode)
    with pytest.raises(SecretExposed, match=who) as refused:
        check_secret_file(file)
    assert str(refused.value).endswith(f"get at it (mode {mode:04o}): chmod 600 {file}")
    file.chmod(0o600)
    check_secret_file(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_group_is_one_that_the_process_belongs_to(file: Path) -> None:
    file.chmod(0o440)
    os.chown(file, 1, os.getegid())
    check_secret_file(file)  # A Kubernetes secret, with the pod's fsGroup.
    file.chmod(0o444)
    with pytest.raises(SecretExposed, match=f"chmod 640 {file}"):
        check_secret_file(file)
    os.chown(file, -1, ANOTHER_GROUP)
    file.chmod(0o440)
    with pytest.raises(SecretExposed, match="its group can get at it"):
        check_secret_file(file)


def test_the_mode_that_counts_is_the_files_not_the_links(file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    check_secret_file(link)
    file.chmod(0o644)
    with pytest.raises(SecretExposed, match="link"):
        check_secret_file(link)


def test_pipes_and_what_is_not_there_are_left_to_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe").chmod(0o666)
    check_secret_file(tmp_path / "pipe")
    check_secret_file(tmp_path / "absent")


def test_the_password_of_a_url_is_seen_wherever_it_stands() -> None:
    for url in (
        "postgresql+psycopg://springtide:s3cret@db/springtide",
        "postgresql+psycopg://db/springtide?user=springtide&password=s3cret",
        "postgresql://db/springtide?sslpassword=s3cret",
    ):
        assert has_password(url)
    for url in ("", "sqlite:///audit.db", "postgresql+psycopg://springtide@db/springtide", "http://[::1"):
        assert not has_password(url)
