"""The ways in which asking the engine can fail, apart from the machine's own refusals."""

from __future__ import annotations


class NotActive(Exception):
    """This controller is not the active one, or can't prove at this moment that it still is. Nothing was
    done. `active_url`: the controller to ask instead, if known."""

    def __init__(self, active_url: str | None) -> None:
        super().__init__("not the active controller")
        self.active_url = active_url


class UnknownCluster(Exception):
    def __init__(self, cluster: str) -> None:
        super().__init__(f"cluster {cluster!r} is not known")
        self.cluster = cluster


class UnreadableCluster(UnknownCluster):
    """There is a cluster of this name, and this controller can't serve it as its znodes are. why: continues
    the sentence, and says what to do."""

    def __init__(self, cluster: str, why: str) -> None:
        Exception.__init__(self, f"this controller can't serve cluster {cluster!r}: {why}")
        self.cluster = cluster


class ClusterExists(Exception):
    """`create_cluster` found the name taken."""

    def __init__(self, cluster: str) -> None:
        super().__init__(f"cluster {cluster!r} exists")
        self.cluster = cluster


class OutcomeUnknown(Exception):
    """The change may or may not have been made; ask again to learn which."""


class Overloaded(Exception):
    """More is waiting to be persisted than `UNPERSISTED_RECORDS_MAX` allows. Nothing was done; try again."""


class MetadataWentBack(Exception):
    """ZooKeeper lost what it once held of this cluster, and nothing is decided until an operator has
    recovered it. Nothing was done. `evidence`: how that is known."""

    def __init__(self, cluster: str, evidence: str) -> None:
        super().__init__(f"the metadata of cluster {cluster!r} went back: {evidence}")
        self.evidence = evidence


class NotInForce(Exception):
    """The change was made and is stored, but some may still act by the rule before it. members: which brokers
    and coordinators; empty if that can't be told, because this controller was replaced meanwhile."""

    def __init__(self, members: tuple[int, ...]) -> None:
        who = ", ".join(map(str, members)) or "some brokers or coordinators"
        super().__init__(f"the change is stored; {who} may not have applied it yet")
        self.members = members
