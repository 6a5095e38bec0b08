"""The REST models of quotas, under Kafka's names (KIP-546)."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from admin_api.http.models import LastChange, Reason, RequestBody, View, ViewList
from springtide.contract.security import DEFAULT_ENTITY, QuotaEntity

ENTITIES_PER_REQUEST_MAX = 100
QUOTAS_PER_ENTITY_MAX = 20
NAME_CHARS_MAX = 255

EntityName = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARS_MAX)]
QuotaName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class QuotasBody(RequestBody):
    """Quotas of one entity: of a user, a client id, both together, or an address."""

    user: EntityName | None = Field(
        default=None, description=f"without `User:`; `{DEFAULT_ENTITY}`: each that has none of its own"
    )
    client_id: EntityName | None = Field(default=None, description=f"or `{DEFAULT_ENTITY}`")
    ip: EntityName | None = Field(default=None, description=f"or `{DEFAULT_ENTITY}`; stands alone")
    quotas: Annotated[
        dict[QuotaName, Annotated[float, Field(allow_inf_nan=False)] | None],
        Field(
            min_length=1,
            max_length=QUOTAS_PER_ENTITY_MAX,
            description="values by Kafka's names, null to unset: `producer_byte_rate`, `consumer_byte_rate`, "
            "`request_percentage`, `controller_mutation_rate`; of an address `connection_creation_rate`",
        ),
    ]

    @model_validator(mode="after")
    def _names_an_entity(self) -> Self:
        if self.user is self.client_id is self.ip is None:
            raise ValueError("whose quotas: name user, client_id or ip")
        if any(value is not None for value in self.quotas.values()):
            for name in (self.user, self.client_id, self.ip):
                if name is not None and name != name.strip():
                    raise ValueError("the name of an entity must not begin or end with a space")
        return self

    def entity(self) -> QuotaEntity:
        return QuotaEntity(user=self.user, client_id=self.client_id, ip=self.ip)


class AlterQuotasBody(RequestBody):
    """Quotas to set and to unset. All are changed, or none."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "entities": [
                        {"user": "billing", "quotas": {"producer_byte_rate": 10_000_000}},
                        {"user": DEFAULT_ENTITY, "quotas": {"request_percentage": 200}},
                    ],
                    "reason": "billing floods the others",
                }
            ]
        }
    )

    entities: Annotated[list[QuotasBody], Field(min_length=1, max_length=ENTITIES_PER_REQUEST_MAX)]
    reason: Reason | None = None


class QuotasView(View):
    """The quotas of one entity."""

    user: str | None = Field(
        description=f"`{DEFAULT_ENTITY}`: each that has none of its own; null: not part of the entity",
        examples=["billing"],
    )
    client_id: str | None
    ip: str | None
    quotas: dict[str, float] = Field(examples=[{"producer_byte_rate": 10_000_000.0}])
    last_change: LastChange | None


class QuotasList(ViewList[QuotasView]): ...


class QuotasAlteredView(View):
    """The entities as they are now; of a dry run, as they would be."""

    items: list[QuotasView]
