"""/operations/{operation_id}/receipt"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from admin_api.answers import show
from admin_api.operations.cancelling import find_operation
from admin_api.operations.routes import OperationPath
from admin_api.problem import problems
from admin_api.receipts.models import ReceiptView
from admin_api.receipts.service import receipt_of
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute

router = APIRouter(route_class=StrictRoute, tags=["Operations"])


@router.get(
    "/operations/{operation_id}/receipt",
    operation_id="getReceipt",
    summary="Show how safe an operation's partitions were while it ran",
    response_model=ReceiptView,
    responses=problems("operation_not_found", "audit_unavailable"),
)
async def get_receipt(request: Request, services: Serving, operation_id: OperationPath) -> Response:
    """Show an operation's safety receipt, from the audited changes of the in-sync sets: how close any
    partition of the operation came to refusing acks=all, in which minute, and which partitions refused it.
    The controller that was active at the time wrote the changes down, so the receipt of an operation of last
    year is as good as one of today, as far as the audit reaches."""
    row = await find_operation(services, operation_id)
    return show(request, await receipt_of(services, row))
