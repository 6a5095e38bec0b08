"""A cluster as the controller shows it, and the words in which it is described."""

from __future__ import annotations

from controller.audit.change import Entity, Snapshot, partition_id
from controller.core.acls import acls_about
from controller.core.alarms import alarm_order, explain_replicas
from controller.core.effects import CRITICAL_ALARMS, GROUP_ALARMS, Alarm
from controller.core.events import Process
from controller.core.hosts import hosts_of
from controller.core.image import ClusterImage
from controller.core.kept_topics import kept_bytes
from controller.core.lag_book import KnownLag, LagRow
from controller.core.last_hour import (
    SAMPLE_MS,
    ClusterSample,
    GroupSample,
    LastHour,
    MemberSample,
    TopicSample,
)
from controller.core.loss import CandidateLoss, LossPreview
from controller.core.names import entity_name, group_name, user_name
from controller.core.preflight import CheckState, PreflightCheck
from controller.core.reassignment_progress import ReassignmentProgress, TargetProgress
from controller.core.records import BrokerRegistration, Change, CoordinatorRegistration
from controller.core.resilience import Condition, PartitionLoss, WorstLoss, lose, tally, worst_loss
from controller.core.upgrade import blockers_of, target_of
from controller.core.workers import brokers_of, ids_of, status_of, workers_of
from controller.shell.engine import Engine
from controller.shell.known_cluster import KnownCluster
