"""UpdateFeatures: refused in words, except where nothing is to be done (KIP-584, KIP-1022).

The one feature that can be finalized is the cluster's level. That can't be undone and takes the role admin,
which no Kafka client has: the controller is not asked. All updates of a request have one outcome, the first
that is refused, in each version, as in Kafka 4. Sarama looks at nothing else.
"""

from __future__ import annotations

from springtide.contract.administration import AdminOutcome
from springtide.kafka_features import refusal_of_update
from springtide.node.handlers.administer import code_of, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.security_refusals import refusal_of_client
from springtide.security.acls.model import Operation
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    UpdateFeaturesFeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpdateFeaturesUpdatableFeatureResult,
)


def handle(context: NodeContext, request: Request, message: UpdateFeaturesRequest) -> None:
    refused = refusal_of_client(request, Operation.ALTER)
    if refused is None and not context.is_view_complete():
        refused = AdminOutcome(error_code=ErrorCode.NOT_CONTROLLER, message="the level is not known here yet")
    if refused is not None:
        request.reply(UpdateFeaturesResponse(error_code=code_of(refused), error_message=message_of(refused)))
        return
    outcomes = [_outcome(context, update) for update in message.feature_updates]
    if failed := next((outcome for outcome in outcomes if outcome.error_code), None):
        request.reply(UpdateFeaturesResponse(error_code=code_of(failed), error_message=message_of(failed)))
        return
    done = [
        UpdateFeaturesUpdatableFeatureResult(feature=update.feature) for update in message.feature_updates
    ]
    request.reply(UpdateFeaturesResponse(results=tuple(done)))


def _outcome(context: NodeContext, update: UpdateFeaturesFeatureUpdateKey) -> AdminOutcome:
    refused = refusal_of_update(update.feature, update.max_version_level, context.level())
    if refused is None:
        return AdminOutcome()
    code = ErrorCode.FEATURE_UPDATE_FAILED if refused.is_possible else ErrorCode.INVALID_UPDATE_VERSION
    return AdminOutcome(error_code=code, message=refused.text)
