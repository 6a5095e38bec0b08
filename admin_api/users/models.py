"""The REST models of users. A password is taken and never shown."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, SecretStr

from admin_api.http.models import LastChange, Reason, RequestBody, View, ViewList
from springtide.security.sasl.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism
from springtide.security.sasl.exchange import Mechanism

PASSWORD_CHARS_MAX = 1_000
MECHANISMS: Final[tuple[ScramMechanism, ...]] = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)

MechanismName = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


class PutUser(RequestBody):
    """A user's password from now on. The user can log in by these mechanisms and by PLAIN; secrets of
    other mechanisms go."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"password": "correct horse battery staple", "reason": "the new billing service"}]
        }
    )

    password: Annotated[SecretStr, Field(min_length=1, max_length=PASSWORD_CHARS_MAX)]
    mechanisms: Annotated[list[MechanismName], Field(min_length=1, max_length=len(MECHANISMS))] = Field(
        default=["SCRAM-SHA-256", "SCRAM-SHA-512"],
        description="by which the user may log in",
    )
    iterations: Annotated[int, Field(ge=ITERATIONS_MIN, le=ITERATIONS_MAX)] = Field(
        default=ITERATIONS_MIN,
        description="of the hash: more make it slower to guess a password from what is stored, and to log in",
    )
    reason: Reason | None = None


class CredentialView(View):
    """What is shown of the stored part of a password."""

    mechanism: str = Field(examples=["SCRAM-SHA-256"])
    iterations: int = Field(examples=[4096])


class UserView(View):
    """A user; its salts and keys are not shown."""

    user: str = Field(description="the name; ACLs call it `User:` and the name", examples=["billing"])
    mechanisms: list[CredentialView] = Field(description="by which it may log in, in addition to PLAIN")
    last_change: LastChange | None


class UserList(ViewList[UserView]): ...
