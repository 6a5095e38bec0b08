"""Names of what is stored for security: readable, different, and fit for a ZooKeeper path."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from controller.core.names import NAME_CHARS_MAX, entity_name, pattern_name, user_name
from springtide.contract.security import DEFAULT_ENTITY, QuotaEntity
from springtide.security.acls.model import PatternType, ResourceType

SAFE = set(string.ascii_letters + string.digits + "-._~%:=,!")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400)


def test_names_can_be_read() -> None:
    assert pattern_name((ResourceType.TOPIC, "orders", PatternType.LITERAL)) == "topic:literal:orders"
    assert (
        pattern_name((ResourceType.TRANSACTIONAL_ID, "a/b", PatternType.PREFIXED))
        == "transactional_id:prefixed:a%2Fb"
    )
    assert user_name("alice") == "alice"
    assert entity_name(QuotaEntity(user="alice", client_id="a,b=c")) == "user=alice,client-id=a%2Cb%3Dc"
    assert entity_name(QuotaEntity(ip=DEFAULT_ENTITY)) == "ip=%3Cdefault%3E"


def test_a_name_is_kept_whole_up_to_its_bound() -> None:
    for length in (NAME_CHARS_MAX, NAME_CHARS_MAX + 1):
        assert (user_name("x" * length) == "x" * length) is (length == NAME_CHARS_MAX)


def test_zookeepers_own_names_are_not_used() -> None:
    assert [user_name(name) for name in (".", "..", "...")] == ["%2E", "%2E%2E", "..."]


@given(TEXTS, TEXTS)
def test_names_are_short_and_safe_and_differ(one: str, other: str) -> None:
    names = [user_name(one), user_name(other)]
    assert all(0 < len(name) <= NAME_CHARS_MAX and set(name) <= SAFE for name in names)
    assert (names[0] == names[1]) == (one == other)


def test_a_crafted_name_is_not_that_of_a_long_one() -> None:
    assert user_name(user_name("x" * 300)) != user_name("x" * 300)


def test_entities_with_the_same_words_in_other_places_differ() -> None:
    entities = [QuotaEntity(user="a", client_id="b"), QuotaEntity(user="b", client_id="a")]
    entities += [QuotaEntity(user="a"), QuotaEntity(client_id="a"), QuotaEntity(user="a,client-id=b")]
    assert len({entity_name(entity) for entity in entities}) == len(entities)
