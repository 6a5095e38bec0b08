"""The REST models of settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from admin_api.clusters.models import ConfigName, ConfigValue
from admin_api.http.models import Reason, RequestBody, View, ViewList


class ConfigView(View):
    """One setting of a topic, a broker, a group or a cluster, with its effective value and source."""

    name: str = Field(description="Kafka's", examples=["min.insync.replicas"])
    value: str | None = Field(
        description=(
            "what is configured, or else the default; null: none, as of a throttle. A minimum in sync "
            "above the replication factor applies capped: the topic shows both"
        ),
        examples=["2"],
    )
    in_words: str | None = Field(
        description="of milliseconds that are a second or more: the same with units", examples=["7 d"]
    )
    source: str = Field(
        description="`topic`, `broker`, `group`: set for it alone; `cluster`: for the cluster; `default`: "
        "not set",
        examples=["topic"],
    )
    default: str | None = Field(
        description="what applies when it is not set; of a cluster's min.insync.replicas null: a majority",
        examples=["2"],
    )
    cluster_config: str | None = Field(
        description="the name under which the cluster has a default for it; null: none",
        examples=["min.insync.replicas"],
    )
    is_read_only: bool = Field(description="in this release it can have no other value")
    note: str | None = Field(
        description="what becomes of its value where nothing acts upon it; null: it is acted upon",
        examples=[None],
    )


class ConfigList(ViewList[ConfigView]): ...


class SetConfig(RequestBody):
    """A value for one setting. Milliseconds may have units, such as `7 d` or `1 h 30 min`; what is stored and
    shown is their number, as Kafka has it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"value": "2", "reason": "orders are money"}]})

    value: ConfigValue
    reason: Reason | None = None


class AlterConfigs(RequestBody):
    """Values for some settings; null unsets one. Settings that are not named stay as they are."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "configs": {"min.insync.replicas": "2", "retention.ms": None},
                    "reason": "orders are money",
                }
            ]
        }
    )

    configs: Annotated[
        dict[ConfigName, ConfigValue | None],
        Field(min_length=1, max_length=100, description="Kafka's dotted names; null: unset"),
    ]
    reason: Reason | None = None


class ConfigsAltered(View):
    """The named settings after the change."""

    items: list[ConfigView]
