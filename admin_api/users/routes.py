"""/clusters/{cluster}/users"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from admin_api.http.answers import AGE_HEADERS, ETAG_HEADERS, LOCATION_HEADERS, done, show
from admin_api.http.models import ClusterPath, ReasonQuery
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, WRITE_PROBLEMS, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.users import service
from admin_api.users.models import PutUser, UserList, UserView
from admin_api.users.service import UserPath

router = APIRouter(route_class=StrictRoute, tags=["Users"])


@router.get(
    "/clusters/{cluster}/users",
    operation_id="listUsers",
    summary="List users",
    response_model=UserList,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found")},
)
async def list_users(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    paging: Paged,
    prefix: Annotated[
        str | None,
        Query(min_length=1, max_length=249, description="only users whose names begin with this"),
    ] = None,
) -> Response:
    """List the users that can log in with a password, without their secrets. Requires the role operator."""
    view = services.engine.cluster(cluster)
    users, token = paging.page_of(
        (user for user in view.image.users if prefix is None or user.startswith(prefix)),
        service.order_of,
        name="users",
        kinds=(str, str),
    )
    items = [service.user_view(view, view.image.users[user]) for user in users]
    return show(request, UserList(items=items, next_page_token=token), view=view)


@router.get(
    "/clusters/{cluster}/users/{user:whole}",
    operation_id="getUser",
    summary="Look at a user",
    response_model=UserView,
    responses={
        200: {"headers": AGE_HEADERS | ETAG_HEADERS},
        **problems("cluster_not_found", "user_not_found"),
    },
)
async def get_user(request: Request, services: Serving, cluster: ClusterPath, user: UserPath) -> Response:
    """Show by which mechanisms a user may log in; salts and keys are never shown. Requires the role
    operator."""
    view = services.engine.cluster(cluster)
    shown = service.user_view(view, service.find_user(view, cluster, user))
    return show(request, shown, view=view, version=service.version_of(view, user))


@router.put(
    "/clusters/{cluster}/users/{user:whole}",
    operation_id="putUser",
    summary="Create a user, or set its password",
    response_model=UserView,
    responses={
        200: {
            "description": "The user was there; or, of a dry run, as it would be",
            "headers": ETAG_HEADERS,
        },
        201: {
            "model": UserView,
            "description": "The user is new",
            "headers": {"Location": LOCATION_HEADERS["Location"]} | ETAG_HEADERS,
        },
        **problems(
            "cluster_not_found",
            "invalid_user",
            "invalid_credential",
            "too_many_users",
            "audit_unavailable",
            *CONDITION_PROBLEMS,
            *WRITE_PROBLEMS,
        ),
    },
)
async def put_user(body: PutUser, change: service.Changing) -> Response:
    """Store a salted hash of the password, which is itself kept nowhere: not in the audit, and not under an
    Idempotency-Key, which changes nothing here because a repetition is safe. Requires the role admin."""
    asked = await change.asked(
        action="put_user",
        body={"user": change.user} | body.model_dump(mode="json", exclude={"password"}),
        reason=body.reason,
        is_operation=False,
    )
    return await change.write.without_key().carry_out(asked, partial(service.put_user, change, body=body))


@router.delete(
    "/clusters/{cluster}/users/{user:whole}",
    operation_id="deleteUser",
    summary="Delete a user",
    response_model=UserView,
    responses=done(
        "Done: the user as it was; of a dry run, it would be",
        "cluster_not_found",
        "user_not_found",
        *CONDITION_PROBLEMS,
    ),
)
async def delete_user(change: service.Changing, reason: ReasonQuery = None) -> Response:
    """Delete a user: it can't log in any more, and its ACLs and quotas stay. Requires the role admin."""
    return await change.carry_out("delete_user", service.delete_user, {"user": change.user}, reason)
