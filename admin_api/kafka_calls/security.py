"""AlterAcls (of CreateAcls and DeleteAcls), AlterUserScramCredentials and AlterClientQuotas. Each part of a
request is carried out or refused alone, as with Kafka."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, TypeVar

import msgspec

from admin_api.http.answers import Answer
from admin_api.http.problems import ProblemError, refusal_problem
from admin_api.http.writes import Asked, Attempt, submit
from admin_api.kafka_calls.calls import Calls, Kafka, failed, outcome_of_problem
from admin_api.users.service import SALT_KEY_BYTES, secret_of
from controller.face.cluster import Entity
from controller.face.commands import (
    AclsAltered,
    AlterAcls,
    AlterQuotas,
    AlterUsers,
    Event,
    QuotasAltered,
    Refusal,
    Reply,
    UsersAltered,
    UserToAlter,
)
from springtide.contract.administration import (
    AdminOutcome,
    AlterAclsCall,
    AlterQuotasCall,
    AlterScramCall,
    ScramUpsertion,
)
from springtide.contract.security import AUTHORIZER, ScramSecret, is_authorizer_on
from springtide.security.acls.model import AclBinding, AclFilter
from springtide.security.sasl.credentials import (
    CredentialInvalid,
    ScramMechanism,
    credential_from_salted_password,
)
from springtide.security.sasl.exchange import Mechanism

#: By their numbers in Kafka's protocol.
_MECHANISMS: dict[int, ScramMechanism] = {1: Mechanism.SCRAM_SHA_256, 2: Mechanism.SCRAM_SHA_512}

Decided = TypeVar("Decided", bound=Reply)


async def alter_acls(calls: Calls, call: AlterAclsCall) -> list[AdminOutcome]:
    count = len(call.create) + len(call.delete)
    if not is_authorizer_on(calls.services.engine.cluster(calls.cluster).image.configs):
        message = f"the cluster has no authorizer: its setting {AUTHORIZER} is empty"
        return [failed(Kafka.SECURITY_DISABLED, message)] * count
    body = {"added": [_shown(one) for one in call.create], "removed": [_shown(one) for one in call.delete]}
    done = await _decided(
        calls,
        Asked(cluster=calls.cluster, action="alter_acls", entity=Entity.ACLS, body=body),
        lambda attempt: AlterAcls(**attempt.event, added=call.create, removed=call.delete),
        AclsAltered,
        needs_admin=True,
    )
    if isinstance(done, AdminOutcome):
        return [done] * count
    removed = [
        AdminOutcome(bindings=one.bindings) if one.refusal is None else _outcome(one.refusal)
        for one in done.removed
    ]
    return [_outcome(one.refusal) for one in done.added] + removed


async def alter_users(calls: Calls, call: AlterScramCall) -> list[AdminOutcome]:
    """Return an outcome for each user. A user is changed whole or not at all (KIP-554)."""
    deletions: dict[str, list[int]] = defaultdict(list)
    upsertions: dict[str, list[ScramUpsertion]] = defaultdict(list)
    for deletion in call.deletions:
        deletions[deletion.user].append(deletion.mechanism)
    for upsertion in call.upsertions:
        upsertions[upsertion.user].append(upsertion)
    names = users_of(call)
    found = {user: _user_to_alter(user, deletions[user], upsertions[user]) for user in names}
    wanted = tuple(one for one in found.values() if isinstance(one, UserToAlter))
    outcomes = {user: one for user, one in found.items() if isinstance(one, AdminOutcome)}
    if wanted:
        body = {
            one.user: {"set": [secret.mechanism for secret in one.upsertions], "deleted": one.deletions}
            for one in wanted
        }
        salt_key = calls.services.random_bytes(SALT_KEY_BYTES)
        done = await _decided(
            calls,
            Asked(cluster=calls.cluster, action="alter_users", entity=Entity.USER, body={"users": body}),
            lambda attempt: AlterUsers(**attempt.event, users=wanted, salt_key=salt_key),
            UsersAltered,
            needs_admin=True,
        )
        for place, one in enumerate(wanted):
            outcomes[one.user] = (
                done if isinstance(done, AdminOutcome) else _outcome(done.users[place].refusal)
            )
    return [outcomes[user] for user in names]


def users_of(call: AlterScramCall) -> list[str]:
    """Return the users in the order of their first mention, deletions first."""
    deleted, upserted = (one.user for one in call.deletions), (one.user for one in call.upsertions)
    return list(dict.fromkeys((*deleted, *upserted)))


def _user_to_alter(
    user: str, deletions: Sequence[int], upsertions: Sequence[ScramUpsertion]
) -> UserToAlter | AdminOutcome:
    """Return the change of a user, or the outcome if a part of it can't be understood. deletions: of
    mechanisms, by their numbers."""
    unknown = {*deletions, *(one.mechanism for one in upsertions)} - _MECHANISMS.keys()
    if unknown:
        return failed(Kafka.UNSUPPORTED_SASL_MECHANISM, f"there is no SCRAM mechanism {min(unknown)}")
    try:
        secrets = tuple(_secret(one) for one in upsertions)
    except CredentialInvalid as error:
        return failed(Kafka.UNACCEPTABLE_CREDENTIAL, str(error))
    gone = tuple(_MECHANISMS[mechanism].value for mechanism in deletions)
    return UserToAlter(user=user, upsertions=secrets, deletions=gone)


def _secret(upsertion: ScramUpsertion) -> ScramSecret:
    mechanism = _MECHANISMS[upsertion.mechanism]
    credential = credential_from_salted_password(
        mechanism, upsertion.salted_password, salt=upsertion.salt, iterations=upsertion.iterations
    )
    return secret_of(mechanism, credential)


async def alter_quotas(calls: Calls, call: AlterQuotasCall) -> list[AdminOutcome]:
    body = {"entities": [msgspec.to_builtins(one) for one in call.entities]}
    done = await _decided(
        calls,
        Asked(cluster=calls.cluster, action="alter_quotas", entity=Entity.QUOTAS, body=body),
        lambda attempt: AlterQuotas(**attempt.event, changes=call.entities),
        QuotasAltered,
        dry_run=call.validate_only,
    )
    if isinstance(done, AdminOutcome):
        return [done] * len(call.entities)
    return [_outcome(one.refusal) for one in done.entities]


async def _decided(
    calls: Calls,
    asked: Asked,
    event: Callable[[Attempt], Event],
    decided: type[Decided],
    *,
    dry_run: bool = False,
    needs_admin: bool = False,
) -> Decided | AdminOutcome:
    """Return the core's answer to the event, or the outcome of each part if the whole was refused."""
    reply: Decided | None = None

    async def carry_out(attempt: Attempt) -> Answer:
        nonlocal reply
        reply = await submit(calls.services.engine, calls.cluster, event(attempt), decided)
        return Answer(200, b"{}")

    if needs_admin:
        try:
            calls.need_admin()
        except ProblemError as problem:
            return outcome_of_problem(problem)
    _, outcome = await calls.carry_out(asked, carry_out, dry_run=dry_run)
    return outcome if reply is None else reply


def _outcome(refusal: Refusal | None) -> AdminOutcome:
    return AdminOutcome() if refusal is None else outcome_of_problem(refusal_problem(refusal))


def _shown(one: AclBinding | AclFilter) -> dict[str, Any]:
    """Return the fields with the names of numbers."""
    return {
        name: value.name.lower() if isinstance(value, IntEnum) else value
        for name, value in msgspec.structs.asdict(one).items()
    }
