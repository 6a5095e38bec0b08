"""Known users by their secrets, and unknown ones that can't be told from them."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from springtide.contract.security import ScramSecret, UserSecrets, key_of_unknown_users
from springtide.node.core import known_users
from springtide.node.core.known_users import KnownUsers, VerifiedPasswords, credential_of, is_current
from springtide.security.sasl.credentials import ScramCredential, ScramMechanism, credential_from_password
from tests.kit.springtide.users import scram_secret, user, users

SHA_256, SHA_512 = known_users.SCRAM_MECHANISMS
PEOPLE = users(alice="secret", bob="other")
KNOWN = KnownUsers(PEOPLE, "cluster")


def test_a_user_is_found_by_name_and_mechanism() -> None:
    only_512 = KnownUsers({"carol": user("carol", "x", mechanisms=(SHA_512,))}, "cluster")
    assert only_512.secret("carol", SHA_512) == scram_secret("x", SHA_512)
    assert only_512.secret("carol", SHA_256) is None
    assert only_512.secret("alice", SHA_512) is None


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_password_fits_its_own_user_s_secret_only(mechanism: ScramMechanism) -> None:
    known = KnownUsers({"alice": user("alice", "secret", mechanisms=(mechanism,)), **users(bob="other")}, "c")
    assert known.secret_of_password("alice", "secret") == scram_secret("secret", mechanism)
    assert known.secret_of_password("alice", "other") is None
    assert known.secret_of_password("stranger", "secret") is None


def test_a_secret_whose_numbers_are_out_of_bounds_is_none() -> None:
    broken = ScramSecret(mechanism=SHA_256, iterations=1, salt=b"", stored_key=b"", server_key=b"")
    known = KnownUsers({"alice": UserSecrets(user="alice", scram=(broken,))}, "cluster")
    assert credential_of(broken) is None
    assert known.secret_of_password("alice", "secret") is None


def test_unknown_users_salts_are_the_same_on_all_nodes_and_of_another_cluster_are_not() -> None:
    shuffled = dict(reversed(PEOPLE.items()))
    assert KnownUsers(shuffled, "cluster").fake_salt_key == KNOWN.fake_salt_key
    assert KnownUsers(PEOPLE, "another").fake_salt_key != KNOWN.fake_salt_key


def test_the_key_of_unknown_users_salts_can_not_be_computed_without_a_secret() -> None:
    others = {name: user(name, f"{name}'s other") for name in PEOPLE}
    assert KnownUsers(others, "cluster").fake_salt_key != KNOWN.fake_salt_key


def test_unknown_users_salts_stay_while_users_come_and_go_once_the_cluster_has_a_key_of_its_own() -> None:
    key = key_of_unknown_users(b"k" * 32)
    fake = KnownUsers(PEOPLE, "cluster", key).fake_salt_key
    for people in (
        {},
        users(alice="changed", bob="other"),
        users(bob="other"),
        users(carol="new", **{"bob": "x"}),
    ):
        assert KnownUsers(people, "cluster", key).fake_salt_key == fake
    assert KnownUsers(PEOPLE, "another", key).fake_salt_key != fake
    assert KnownUsers(PEOPLE, "cluster", key_of_unknown_users(b"x" * 32)).fake_salt_key != fake
    assert KnownUsers(PEOPLE, "cluster", key).secret("<unknown>", SHA_256) is None


def test_without_such_a_key_unknown_users_salts_seldom_change_when_users_do() -> None:
    many = {f"user{number}": UserSecrets(user="", scram=(secret_number(number),)) for number in range(100)}
    before = KnownUsers(many, "cluster").fake_salt_key
    changes = sum(
        KnownUsers(many | {name: UserSecrets(user="", scram=(secret_number(-1),))}, "cluster").fake_salt_key
        != before
        for name in [*many, *(f"new{number}" for number in range(100))]
    )
    assert 1 <= changes <= 10


def secret_number(number: int) -> ScramSecret:
    key = number.to_bytes(4, signed=True)
    return ScramSecret(mechanism=SHA_256, iterations=4096, salt=b"s", stored_key=key, server_key=key)


def test_unknown_users_have_iterations_as_often_as_known_ones_do() -> None:
    people = {
        f"user{number}": UserSecrets(
            user="", scram=(scram_secret("x", iterations=8192 if number % 4 else 4096),)
        )
        for number in range(8)
    }
    known = KnownUsers(people, "cluster")
    told = [known.fake_iterations(SHA_256, f"stranger{number}") for number in range(1000)]
    assert told == [known.fake_iterations(SHA_256, f"stranger{number}") for number in range(1000)]
    assert 700 < Counter(told)[8192] < 800 and {*told} == {4096, 8192}
    assert known.fake_iterations(SHA_512, "stranger") == 4096


def test_a_password_that_was_right_is_not_derived_again_until_the_secret_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    derived: list[str] = []

    def derive(mechanism: ScramMechanism, password: str, *, salt: bytes, iterations: int) -> ScramCredential:
        derived.append(password)
        return credential_from_password(mechanism, password, salt=salt, iterations=iterations)

    monkeypatch.setattr(known_users, "credential_from_password", derive)
    passwords = VerifiedPasswords(b"key of the process")
    for password in ("secret", "secret", "wrong", "wrong", "secret"):
        found = passwords.secret(KNOWN, "alice", password)
        assert (found is not None) is (password == "secret")
    assert derived == ["secret", "wrong", "wrong"]
    changed = KnownUsers(users(alice="changed"), "cluster")
    assert passwords.secret(changed, "alice", "secret") is None
    assert passwords.secret(changed, "alice", "changed") is not None
    assert derived[3:] == ["secret", "changed"]


def test_what_is_kept_of_passwords_is_bounded_by_the_users_there_are() -> None:
    passwords = VerifiedPasswords(b"key of the process")
    for number in range(9):
        name = f"user{number}"
        assert passwords.secret(KnownUsers(users(**{name: "x"}), "c"), name, "x") is not None
    assert len(passwords._digests) <= 2


def test_the_time_of_an_unknown_user_is_that_of_a_known_one() -> None:
    def seconds(name: str) -> float:
        taken = []
        for _ in range(9):
            started = time.process_time()
            KNOWN.secret_of_password(name, "guess")
            taken.append(time.process_time() - started)
        return min(taken)

    assert 0.5 < seconds("alice") / seconds("stranger") < 2


def test_a_secret_is_current_while_its_user_has_it() -> None:
    secret = scram_secret("secret")
    assert is_current(PEOPLE, "alice", secret)
    assert not is_current(PEOPLE, "bob", secret)
    assert not is_current({}, "alice", secret)
