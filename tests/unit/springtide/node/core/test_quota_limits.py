"""Which entity's quota holds, by Kafka's order of precedence."""

from __future__ import annotations

import pytest

from springtide.contract.security import DEFAULT_ENTITY, EntityQuotas, QuotaEntity
from springtide.node.core.quota_limits import Limit, Limits, QuotaName

RATE = QuotaName.PRODUCER_BYTE_RATE

#: From the most specific on: (user, client id) of the entity, and who shares its quota.
PRECEDENCE = [
    (("alice", "app"), ("alice", "app")),
    (("alice", DEFAULT_ENTITY), ("alice", "app")),
    (("alice", None), ("alice", None)),
    ((DEFAULT_ENTITY, "app"), ("alice", "app")),
    ((DEFAULT_ENTITY, DEFAULT_ENTITY), ("alice", "app")),
    ((DEFAULT_ENTITY, None), ("alice", None)),
    ((None, "app"), (None, "app")),
    ((None, DEFAULT_ENTITY), (None, "app")),
]


def limits(*entities: tuple[str | None, str | None]) -> Limits:
    """Quotas of these entities; the value of each is its place in PRECEDENCE plus 1."""
    places = {entity: place + 1.0 for place, (entity, _) in enumerate(PRECEDENCE)}
    named = [QuotaEntity(user=user, client_id=client_id) for user, client_id in entities]
    return Limits(
        {
            entity: EntityQuotas(entity=entity, quotas={RATE: places[entity.user, entity.client_id]})
            for entity in named
        }
    )


@pytest.mark.parametrize("place", range(len(PRECEDENCE)))
def test_the_most_specific_entity_with_the_quota_wins(place: int) -> None:
    from_here_on = [entity for entity, _ in reversed(PRECEDENCE[place:])]
    expected = Limit(PRECEDENCE[place][1], place + 1.0)
    assert limits(*from_here_on).of_client(RATE, "alice", "app") == expected


def test_an_entity_without_this_quota_leaves_it_to_a_less_specific_one() -> None:
    alice, every_user = QuotaEntity(user="alice"), QuotaEntity(user=DEFAULT_ENTITY)
    found = Limits(
        {
            alice: EntityQuotas(entity=alice, quotas={QuotaName.CONSUMER_BYTE_RATE: 5.0}),
            every_user: EntityQuotas(entity=every_user, quotas={RATE: 7.0}),
        }
    )
    assert found.of_client(RATE, "alice", "app") == Limit(("alice", None), 7.0)
    assert found.of_client(QuotaName.CONSUMER_BYTE_RATE, "bob", "app") is None


def test_quotas_of_others_do_not_hold() -> None:
    others = limits(("alice", "app"), ("alice", DEFAULT_ENTITY), ("alice", None), (None, "app"))
    assert others.of_client(RATE, "bob", "other") is None
    assert others.of_client(RATE, "bob", "app") == Limit((None, "app"), 7.0)


def test_an_address_has_its_own_rate_or_that_of_each() -> None:
    one, each = QuotaEntity(ip="10.0.0.1"), QuotaEntity(ip=DEFAULT_ENTITY)
    name = QuotaName.CONNECTION_CREATION_RATE
    own = {one: EntityQuotas(entity=one, quotas={name: 3.0})}
    found = Limits({**own, each: EntityQuotas(entity=each, quotas={name: 1.0})})
    assert found.of_address("10.0.0.1") == Limit(("10.0.0.1", None), 3.0)
    assert found.of_address("10.0.0.2") == Limit(("10.0.0.2", None), 1.0)
    assert Limits(own).of_address("10.0.0.2") is None
