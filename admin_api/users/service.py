"""Showing, setting and deleting users. A password becomes a salted secret here, and goes no further."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Unpack
from urllib.parse import quote

from fastapi import Depends, Path

from admin_api.http.all_or_none import Part, submit_whole
from admin_api.http.answers import Answer
from admin_api.http.conditions import IfMatch
from admin_api.http.models import ClusterPath, last_change
from admin_api.http.problems import ProblemError
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Attempt, ChangeFields, RowChange, Write
from admin_api.users.models import MECHANISMS, CredentialView, PutUser, UserView
from controller.face.cluster import Entity, KnownCluster, user_name
from controller.face.commands import AlterUsers, UsersAltered, UserToAlter
from springtide.contract.security import ScramSecret, UserSecrets
from springtide.security.sasl.credentials import (
    ScramCredential,
    ScramMechanism,
    credential_from_password,
    salt_from,
)

#: Random bytes from which a salt is made.
SALT_BYTES = 17
#: Of the key of unknown users' salts.
SALT_KEY_BYTES = 32
#: How much of a name is in a page's token.
_ORDER_CHARS = 40

UserPath = Annotated[
    str,
    Path(description="the user's name, percent-encoded: a slash is %2F", examples=["billing"], min_length=1),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChange(RowChange):
    """A request to change one user."""

    user: str

    async def asked(self, **fields: Unpack[ChangeFields]) -> Asked:
        return Asked(cluster=self.cluster, entity=Entity.USER, entity_id=user_name(self.user), **fields)


async def user_change(
    *,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    user: UserPath,
) -> UserChange:
    return UserChange(services=services, write=write, condition=condition, cluster=cluster, user=user)


Changing = Annotated[UserChange, Depends(user_change)]


async def put_user(change: UserChange, attempt: Attempt, *, body: PutUser) -> Answer:
    """Set the user's password. Answer 201 for a new user, 200 for one that was there."""
    services = change.services
    mechanisms = [mechanism for mechanism in MECHANISMS if mechanism.value in body.mechanisms]
    salts = [salt_from(services.random_bytes(SALT_BYTES)) for _ in mechanisms]
    secrets = await services.database.compute(partial(_secrets, mechanisms, salts, body))
    before = change.view.image.users.get(change.user)
    _check_settled(change, before)
    kept = [] if before is None else [secret.mechanism for secret in before.scram]
    asked = UserToAlter(
        user=change.user,
        upsertions=secrets,
        deletions=tuple(mechanism for mechanism in kept if mechanism not in mechanisms),
    )
    after = await _alter(change, attempt, asked)
    if attempt.dry_run:
        return Answer.of(200, user_view(change.view, after))
    path = f"/clusters/{change.cluster}/users/{quote(change.user, safe='')}"
    return Answer.of(
        201 if before is None else 200,
        user_view(change.view, after),
        version=version_of(change.view, change.user),
        **({"Location": path} if before is None else {}),
    )


def _secrets(mechanisms: list[ScramMechanism], salts: list[bytes], body: PutUser) -> tuple[ScramSecret, ...]:
    """Return a secret for each mechanism. Takes some tens of milliseconds."""
    password = body.password.get_secret_value()
    return tuple(
        secret_of(
            mechanism,
            credential_from_password(mechanism, password, salt=salt, iterations=body.iterations),
        )
        for mechanism, salt in zip(mechanisms, salts, strict=True)
    )


def secret_of(mechanism: ScramMechanism, credential: ScramCredential) -> ScramSecret:
    return ScramSecret(
        mechanism=mechanism.value,
        iterations=credential.iterations,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
    )


async def delete_user(change: UserChange, attempt: Attempt) -> Answer:
    """Delete the user and answer 200 with the user as it was. Raises user_not_found."""
    before = find_user(change.view, change.cluster, change.user)
    _check_settled(change, before)
    shown = user_view(change.view, before)
    mechanisms = tuple(secret.mechanism for secret in before.scram)
    await _alter(change, attempt, UserToAlter(user=change.user, deletions=mechanisms))
    return Answer.of(200, shown)


async def _alter(change: UserChange, attempt: Attempt, asked: UserToAlter) -> UserSecrets:
    salt_key = change.services.random_bytes(SALT_KEY_BYTES)
    event = AlterUsers(**attempt.event, users=(asked,), salt_key=salt_key)

    def parts(done: UsersAltered) -> list[Part]:
        return [("/user", one.refusal) for one in done.users]

    done = await submit_whole(change.services.engine, change.cluster, event, UsersAltered, parts)
    return done.users[0].secrets


def _check_settled(change: UserChange, known: UserSecrets | None) -> None:
    decided = change.view.decided.users.get(change.user)
    version = version_of(change.view, change.user)
    change.check_settled(known, decided, version=version, what=f"user {change.user!r}")


def order_of(user: str) -> tuple[str, str]:
    """Return where a user stands in lists: by the beginning of its name, which is all that a page's token has
    room for."""
    return user[:_ORDER_CHARS], hashlib.sha256(user.encode()).hexdigest()[:32]


def find_user(view: KnownCluster, cluster: str, user: str) -> UserSecrets:
    """Return the user's secrets. Raises user_not_found."""
    secrets = view.image.users.get(user)
    if secrets is None:
        raise ProblemError("user_not_found", f"cluster {cluster!r} has no user {user[:100]!r}")
    return secrets


def version_of(view: KnownCluster, user: str) -> str:
    return str(view.version_of(Entity.USER, user_name(user)))


def user_view(view: KnownCluster, secrets: UserSecrets) -> UserView:
    return UserView(
        user=secrets.user,
        mechanisms=[
            CredentialView(mechanism=secret.mechanism, iterations=secret.iterations)
            for secret in secrets.scram
        ],
        last_change=last_change(view.last_change(Entity.USER, user_name(secrets.user))),
    )
