"""The drivers of the term being served: which clusters there are, and what steps each one's machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.shell.driver import ClusterDriver
from controller.shell.leadership import Leadership, Term
from controller.shell.outcomes import NotActive, UnknownCluster, UnreadableCluster


class Drivers:
    """Ask each time anew: a term may end between two questions.

    unreadable: why clusters can't be served; its owner changes it.
    unclean_elections, persisted_records: of this process, over all its terms.
    """

    def __init__(self, leadership: Leadership, unreadable: Mapping[str, str]) -> None:
        self._leadership = leadership
        self._unreadable = unreadable
        self._by_cluster: dict[str, ClusterDriver] = {}
        self._unclean_elections = 0
        self._persisted_records = 0
        #: The term being served: from the moment all its clusters are loaded.
        self.term: Term | None = None

    def __iter__(self) -> Iterator[ClusterDriver]:
        """Yield them ordered by cluster name."""
        for cluster in sorted(self._by_cluster):
            yield self._by_cluster[cluster]

    def __len__(self) -> int:
        return len(self._by_cluster)

    @property
    def is_active(self) -> bool:
        """Return whether a term is served whose authority can be proven."""
        return self.term is not None and self.term.has_authority

    @property
    def unclean_elections(self) -> int:
        return self._unclean_elections + sum(driver.unclean_elections for driver in self)

    @property
    def persisted_records(self) -> int:
        return self._persisted_records + sum(driver.persisted_records for driver in self)

    def of(self, cluster: str) -> ClusterDriver:
        """Return what steps the cluster's machine. Raise NotActive, UnknownCluster, UnreadableCluster."""
        if not self.is_active:
            raise NotActive(self._leadership.elsewhere)
        driver = self._by_cluster.get(cluster)
        if driver is None:
            raise self.unknown(cluster)
        return driver

    def unknown(self, cluster: str) -> UnknownCluster:
        """Return why a cluster is not here."""
        why = self._unreadable.get(cluster)
        return UnknownCluster(cluster) if why is None else UnreadableCluster(cluster, why)

    def get(self, cluster: str) -> ClusterDriver | None:
        """Return the same; None if this controller is not active or there is no such cluster."""
        return self._by_cluster.get(cluster)

    def went_back(self, cluster: str) -> str | None:
        """Return what `KnownCluster.went_back` says, also of a cluster that is not known here."""
        driver = self._by_cluster.get(cluster)
        if driver is not None:
            return driver.machine.went_back
        active = self._leadership.active
        return None if active is None else active.halted.get(cluster)

    def add(self, driver: ClusterDriver) -> None:
        self._by_cluster[driver.cluster] = driver

    def end(self) -> None:
        """The term is over."""
        self.term = None
        self._unclean_elections = self.unclean_elections
        self._persisted_records = self.persisted_records
        self._by_cluster = {}
