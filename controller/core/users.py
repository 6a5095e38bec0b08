"""Operators' requests about users: the secrets by which they log in (SCRAM; PLAIN is checked by them too).

The controller gets secrets, never passwords, and tells them to nodes only.
"""

from __future__ import annotations

from typing import Final, get_args

from controller.core.draft import Draft
from controller.core.events import (
    AlterUsers,
    Refusal,
    RefusalCode,
    UserAltered,
    UsersAltered,
    UserToAlter,
)
from controller.core.records import Cause, UserRecord
from controller.core.request_size import check_size
from controller.core.topics import operator_change
from springtide.contract.security import (
    DEFAULT_ENTITY,
    UNKNOWN_USERS,
    ScramSecret,
    UserSecrets,
    key_of_unknown_users,
)
from springtide.security.sasl.credentials import (
    CredentialInvalid,
    ScramMechanism,
    check_bounds,
    digest_bytes,
)

USERS_MAX: Final = 10_000
USER_LENGTH_MAX: Final = 255
#: Others are meant by these: each user, a client without a name, each other user, users that there are not.
RESERVED_USERS: Final = ("*", "ANONYMOUS", DEFAULT_ENTITY, UNKNOWN_USERS)
SCRAM_MECHANISMS: Final[tuple[ScramMechanism, ...]] = get_args(ScramMechanism)


def alter_users(draft: Draft, event: AlterUsers) -> UsersAltered | Refusal:
    refusal = check_size(len(event.users))
    if refusal is not None:
        return refusal
    image = draft.image
    change = operator_change(event, Cause.USER_ALTERED)
    count = len(image.users)
    done: dict[str, None] = {}
    outcomes = []
    for asked in event.users:
        before = image.users.get(asked.user) or UserSecrets(user=asked.user)
        after = _named_twice(asked.user) if asked.user in done else _altered(before, asked)
        if isinstance(after, UserSecrets) and after.scram and not before.scram and count >= USERS_MAX:
            after = Refusal(
                code=RefusalCode.TOO_MANY_USERS,
                field="user",
                detail=f"the cluster has {USERS_MAX} users already",
                limit=USERS_MAX,
            )
        done[asked.user] = None
        if isinstance(after, Refusal):
            outcomes.append(UserAltered(secrets=before, refusal=after))
            continue
        count += bool(after.scram) - bool(before.scram)
        outcomes.append(UserAltered(secrets=after))
        if after != before and not event.dry_run:
            if image.unknown_users is None and event.salt_key:
                draft.write(UserRecord(secrets=key_of_unknown_users(event.salt_key), change=change))
            draft.write(UserRecord(secrets=after, change=change))
    return UsersAltered(users=tuple(outcomes), dry_run=event.dry_run)


def _altered(before: UserSecrets, asked: UserToAlter) -> UserSecrets | Refusal:
    refusal = check_user(asked.user)
    if refusal is not None:
        return refusal
    named = [*asked.deletions, *(secret.mechanism for secret in asked.upsertions)]
    if len(set(named)) < len(named):
        return Refusal(
            code=RefusalCode.NAMED_TWICE, field="mechanism", detail="the request names a mechanism twice"
        )
    secrets = {secret.mechanism: secret for secret in before.scram}
    for mechanism in asked.deletions:
        if secrets.pop(mechanism, None) is None:
            return Refusal(
                code=RefusalCode.UNKNOWN_CREDENTIAL,
                field="mechanism",
                detail=f"the user has no password for {mechanism[:40]!r}",
            )
    if asked.upsertions and asked.user != asked.user.strip():
        return Refusal(
            code=RefusalCode.INVALID_USER, field="user", detail="a user's name begins or ends with a space"
        )
    for secret in asked.upsertions:
        refusal = _check_secret(secret)
        if refusal is not None:
            return refusal
        secrets[secret.mechanism] = secret
    return UserSecrets(user=asked.user, scram=tuple(secrets[name] for name in sorted(secrets)))


def check_user(user: str) -> Refusal | None:
    """Refuse a name that no user can have."""
    detail = None
    if not 0 < len(user) <= USER_LENGTH_MAX:
        detail = f"a user's name has 1 to {USER_LENGTH_MAX} characters, not {len(user)}"
    elif not user.isprintable():
        detail = "a user's name has a character that can't be printed"
    elif user in RESERVED_USERS:
        detail = f"{user} is no user's name: it stands for others"
    return None if detail is None else Refusal(code=RefusalCode.INVALID_USER, field="user", detail=detail)


def _check_secret(secret: ScramSecret) -> Refusal | None:
    mechanism = next((name for name in SCRAM_MECHANISMS if name == secret.mechanism), None)
    if mechanism is None:
        known = " or ".join(SCRAM_MECHANISMS)
        return _invalid("mechanism", f"the mechanism is not {known}: {secret.mechanism[:40]!r}")
    try:
        check_bounds(secret.salt, secret.iterations)
    except CredentialInvalid as error:
        return _invalid("iterations", str(error))
    sizes = {len(secret.stored_key), len(secret.server_key)}
    if sizes != {digest_bytes(mechanism)}:
        return _invalid("keys", f"keys of {mechanism} do not have {digest_bytes(mechanism)} bytes")
    return None


def _invalid(field: str, detail: str) -> Refusal:
    return Refusal(code=RefusalCode.INVALID_CREDENTIAL, field=field, detail=detail)


def _named_twice(user: str) -> Refusal:
    return Refusal(
        code=RefusalCode.NAMED_TWICE, field="user", detail=f"the request names user {user[:100]!r} twice"
    )
