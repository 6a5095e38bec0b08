"""What becomes of requests about users."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.core import users as rules
from controller.core.events import AlterUsers, Refusal, RefusalCode, UserAltered, UsersAltered, UserToAlter
from controller.core.records import Cause, UserRecord
from springtide.contract.security import ScramSecret, UserSecrets
from tests.kit.controller.core_cluster import Cluster
from tests.kit.controller.security import SHA_256, SHA_512, has_secrets


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(brokers=())


def alter(cluster: Cluster, *users: UserToAlter, **fields: Any) -> tuple[UserAltered, ...]:
    return cluster.ask(AlterUsers(wall_ms=7, actor="ann", users=users, **fields), UsersAltered).users


def alice(*upsertions: ScramSecret, deletions: tuple[str, ...] = ()) -> UserToAlter:
    return UserToAlter(user="alice", upsertions=upsertions, deletions=deletions)


def code(outcome: UserAltered) -> RefusalCode | None:
    return None if outcome.refusal is None else outcome.refusal.code


def test_a_user_has_a_secret_for_each_mechanism(cluster: Cluster) -> None:
    alter(cluster, alice(SHA_512))
    after = UserSecrets(user="alice", scram=(SHA_256, SHA_512))
    assert alter(cluster, alice(SHA_256)) == (UserAltered(secrets=after),)
    (record,) = cluster.last.records
    assert isinstance(record, UserRecord)
    assert (record.secrets, record.change.cause) == (after, Cause.USER_ALTERED)
    assert cluster.image.users == {"alice": after}


def test_a_new_password_replaces_the_one_of_its_mechanism(cluster: Cluster) -> None:
    other = msgspec.structs.replace(SHA_256, stored_key=b"K" * 32)
    alter(cluster, alice(SHA_256))
    alter(cluster, alice(other))
    assert cluster.image.users["alice"].scram == (other,)
    alter(cluster, alice(other))
    assert cluster.last.records == ()


def test_a_user_without_a_secret_is_gone(cluster: Cluster) -> None:
    alter(cluster, alice(SHA_256, SHA_512))
    alter(cluster, alice(deletions=("SCRAM-SHA-512",)))
    assert cluster.image.users["alice"].scram == (SHA_256,)
    alter(cluster, alice(deletions=("SCRAM-SHA-256",)))
    assert cluster.image.users == {}
    cluster.fail_over()
    assert cluster.image.users == {}


def test_a_refused_user_stays_as_it_is_and_others_go_on(cluster: Cluster) -> None:
    alter(cluster, alice(SHA_256))
    carol = UserToAlter(user="carol", upsertions=(SHA_256,))
    outcomes = alter(cluster, alice(SHA_512, deletions=("SCRAM-SHA-512",)), carol)
    assert [code(outcome) for outcome in outcomes] == [RefusalCode.NAMED_TWICE, None]
    assert outcomes[0].secrets == UserSecrets(user="alice", scram=(SHA_256,))
    assert sorted(cluster.image.users) == ["alice", "carol"]


def test_a_password_that_is_not_there_can_not_be_deleted(cluster: Cluster) -> None:
    (outcome,) = alter(cluster, alice(deletions=("SCRAM-SHA-256",)))
    assert code(outcome) is RefusalCode.UNKNOWN_CREDENTIAL


def test_a_user_is_named_once_in_a_request(cluster: Cluster) -> None:
    outcomes = alter(cluster, alice(SHA_256), alice(SHA_512))
    assert [code(outcome) for outcome in outcomes] == [None, RefusalCode.NAMED_TWICE]
    assert cluster.image.users["alice"].scram == (SHA_256,)


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "PLAIN"},
        {"mechanism": "scram-sha-256"},
        {"iterations": 4095},
        {"iterations": 16385},
        {"salt": b""},
        {"salt": b"s" * 1025},
        {"stored_key": b"k" * 31},
        {"server_key": b"s" * 64},
    ],
)
def test_a_secret_that_breaks_a_bound_is_refused_and_not_repeated(
    cluster: Cluster, change: dict[str, Any]
) -> None:
    (outcome,) = alter(cluster, alice(msgspec.structs.replace(SHA_256, **change)))
    assert code(outcome) is RefusalCode.INVALID_CREDENTIAL
    assert outcome.refusal is not None
    assert not has_secrets(repr(outcome))


@pytest.mark.parametrize("name", ["", "a" * 256, "a\nb", "a\0", "\ud800", "*", "ANONYMOUS", "<default>"])
def test_a_name_that_no_user_can_have_is_refused(cluster: Cluster, name: str) -> None:
    (outcome,) = alter(cluster, UserToAlter(user=name, upsertions=(SHA_256,)))
    assert code(outcome) is RefusalCode.INVALID_USER


def test_a_dry_run_answers_the_same_and_writes_nothing(cluster: Cluster) -> None:
    (outcome,) = alter(cluster, alice(SHA_256), dry_run=True)
    assert outcome == UserAltered(secrets=UserSecrets(user="alice", scram=(SHA_256,)))
    assert cluster.last.records == ()
    assert cluster.image.users == {}


def test_users_and_requests_are_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "USERS_MAX", 2)
    users = [UserToAlter(user=name, upsertions=(SHA_256,)) for name in "abc"]
    for dry_run in (True, False):
        codes = [code(outcome) for outcome in alter(cluster, *users, dry_run=dry_run)]
        assert codes == [None, None, RefusalCode.TOO_MANY_USERS]
    delete = UserToAlter(user="a", deletions=("SCRAM-SHA-256",))
    assert [code(outcome) for outcome in alter(cluster, delete, users[2])] == [None, None]
    refusal = cluster.ask(AlterUsers(wall_ms=0, actor="ann", users=(delete,) * 1_001), Refusal)
    assert (refusal.code, refusal.limit) == (RefusalCode.TOO_MANY_CHANGES, 1_000)
