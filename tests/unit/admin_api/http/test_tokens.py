from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from admin_api.http.tokens import TOKENS_MAX, Principal, Role, Tokens, TokensInvalid, load_tokens
from tests.kit.secret_file import write_secret

ALICE = "alice-0123456789-abcdef"
BROKER = "broker-0123456789-abcdef"


def given(text: str) -> Tokens:
    tokens = load_tokens(file=None, environment=text)
    assert tokens is not None
    return tokens


def test_a_file_and_the_environment_both_name_who_may_ask(tmp_path: Path) -> None:
    file = write_secret(tmp_path / "tokens", f"# operators\n\nalice  admin\t{ALICE}\n")
    digest = hashlib.sha256(BROKER.encode()).hexdigest()
    tokens = load_tokens(file=file, environment=f"brokers broker sha256:{digest.upper()}; ;")
    assert tokens is not None
    assert len(tokens) == 2
    assert tokens.holder_of(ALICE.encode()) == Principal("alice", Role.ADMIN)
    assert tokens.holder_of(BROKER.encode()) == Principal("brokers", Role.BROKER)
    for other in (
        b"",
        ALICE.encode()[:-1],
        ALICE.encode() + b"0",
        digest.encode(),
        b"sha256:" + digest.encode(),
    ):
        assert tokens.holder_of(other) is None


def test_no_secret_stays_in_memory() -> None:
    tokens = given(f"alice admin {ALICE}")
    assert ALICE not in repr(vars(tokens))


def test_a_name_may_have_two_tokens_while_one_replaces_the_other() -> None:
    tokens = given(f"alice admin {ALICE};alice admin {BROKER}")
    assert tokens.holder_of(ALICE.encode()) == tokens.holder_of(BROKER.encode())


def test_without_a_source_there_are_no_tokens_at_all() -> None:
    assert load_tokens(file=None, environment=None) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no token in it"),
        ("# alice admin", "has no token in it"),
        (f"alice {ALICE}", "line 1: has 2 words"),
        (f"alice admin {ALICE} ;alice admin {ALICE}", "line 2: this token is there already"),
        (f"alice root {ALICE}", "one of viewer, operator, admin, broker"),
        (f"alice Admin {ALICE}", "one of viewer"),
        ("alice admin short", "20 to 200"),
        ("alice admin cert:", "20 to 200"),
        ("a admin cert:alice;b viewer cert:Alice", "line 2: this certificate is there already"),
        (f"alice admin {ALICE}!", "20 to 200"),
        ("alice admin sha256:0123", "20 to 200"),
        (f"controller admin {ALICE}", "no word of ours"),
        (f"broker:1 broker {ALICE}", "the name must be"),
        (f"store broker: {ALICE}", "only broker has ids"),
        (f"store broker:1, {ALICE}", "only broker has ids"),
        (f"store broker:-1 {ALICE}", "only broker has ids"),
        (f"store broker:{','.join(['1'] * 101)} {ALICE}", "only broker has ids, 1 to 100"),
        (f"alice viewer:1 {ALICE}", "only broker has ids"),
        (f"{'a' * 65} admin {ALICE}", "the name must be"),
        (";".join(f"a admin token-{n:020}" for n in range(TOKENS_MAX + 1)), "there may be 1000"),
    ],
)
def test_tokens_that_cannot_be_used_are_refused_without_repeating_them(text: str, complaint: str) -> None:
    with pytest.raises(TokensInvalid, match=complaint) as caught:
        given(text)
    assert ALICE not in str(caught.value)


def test_a_certificate_is_known_by_one_of_its_names() -> None:
    tokens = given(
        f"alice admin cert:Alice@example.com;store1 broker cert:store1;store1 broker cert:s1;x viewer {ALICE}"
    )
    assert (len(tokens), tokens.names_certificates) == (4, True)
    assert tokens.holder_of_certificate(("alice@example.com",)) == Principal("alice", Role.ADMIN)
    assert tokens.holder_of_certificate(("other", "store1", "s1")) == Principal("store1", Role.BROKER)
    assert tokens.holder_of_certificate(("alice@example.com", "store1")) is None, "two holders"
    assert tokens.holder_of_certificate(("other",)) is tokens.holder_of_certificate(()) is None
    assert tokens.holder_of(b"alice@example.com") is None
    assert not given(f"alice admin {ALICE}").names_certificates


def test_a_broker_s_token_may_name_the_ids_that_it_is_for() -> None:
    tokens = given(f"store1 broker:1,1001 cert:store1;brokers broker {BROKER}")
    bound = Principal("store1", Role.BROKER, frozenset({1, 1001}))
    assert tokens.holder_of_certificate(("store1",)) == bound
    assert tokens.holder_of(BROKER.encode()) == Principal("brokers", Role.BROKER)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write_secret(tmp_path / "latin", "").write_bytes(b"\xff\xfe")
    write_secret(tmp_path / "shown", f"alice admin {ALICE}").chmod(0o644)
    for name, complaint in (
        ("absent", "No such file"),
        ("latin", "not UTF-8"),
        ("shown", "chmod 600"),
        (".", "directory"),
    ):
        with pytest.raises(TokensInvalid, match=complaint):
            load_tokens(file=tmp_path / name, environment=None)


def test_the_highest_role_of_a_name_is_found_but_for_those_of_brokers() -> None:
    lines = (f"alice viewer {ALICE}", "alice operator cert:alice.example.com", f"store broker {BROKER}")
    tokens = load_tokens(file=None, environment=";".join(lines))
    assert tokens is not None
    assert [tokens.role_of(name) for name in ("alice", "store", "bob")] == [Role.OPERATOR, None, None]


def test_a_token_for_a_broker_is_for_its_workers_too() -> None:
    bound = Principal("store5", Role.BROKER, frozenset({5, 1001}))
    may = [bound.may_speak_for(member_id) for member_id in (5, 1_000_005, 31_000_005, 1001, 1_000_006, 6)]
    assert may == [True, True, True, True, False, False]
    assert not Principal("store", Role.BROKER, frozenset({1_000_005})).may_speak_for(5)
    assert Principal("brokers", Role.BROKER).may_speak_for(1_000_006)
