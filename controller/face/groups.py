"""Consumer groups, as their coordinators answer."""

from __future__ import annotations

from controller.shell.client_groups import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    ClientGroups,
    CommittedPlace,
    DeletionNotStored,
    DeletionRefused,
    GroupAbsent,
    GroupBusy,
    GroupDetail,
    GroupListing,
    GroupsUnavailable,
    LogPosition,
    MemberDetail,
    Place,
)
