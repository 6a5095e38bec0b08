"""Metadata as every node answers it; who comes to a coordinator as a member finds coordinators in it."""

from __future__ import annotations

from coordinator.handlers.context import CoordinatorContext
from springtide.node.core.listed_coordinators import comes_as_member
from springtide.node.handlers import metadata
from springtide.node.handlers.context import Request
from springtide.wire.messages import MetadataRequest


def handle(context: CoordinatorContext, request: Request, message: MetadataRequest) -> None:
    connection = request.answer.connection
    if comes_as_member(connection.software):
        connection.may_be_members = True
    metadata.handle(context, request, message)
