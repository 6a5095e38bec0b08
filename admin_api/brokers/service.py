"""Adding brokers through an operation, a preview of that, and showing brokers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from admin_api.brokers.models import (
    AddBroker,
    AddBrokers,
    BrokerPlan,
    BrokerSpec,
    BrokerView,
    CheckView,
    WorkerView,
)
from admin_api.http.answers import Answer
from admin_api.http.models import host_and_port, last_change, listener_views, timestamp
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.http.services import Services
from admin_api.http.writes import Attempt, opened
from admin_api.operations.models import accepted
from admin_api.plans.models import plan_view
from controller.face.cluster import (
    BrokerRegistration,
    CheckState,
    ClusterImage,
    Entity,
    KnownCluster,
    PreflightCheck,
    ids_of,
    kept_bytes,
    status_of,
    workers_of,
)
from controller.face.operations import (
    BrokerAdd,
    BrokerDrain,
    BrokerToAdd,
    OperationState,
    begin_broker_add,
    decode_work,
    endpoint_of,
    goals_of,
    mismatch,
)
from controller.face.plans import (
    BrokerSnapshot,
    Goal,
    Plan,
    Rates,
    Snapshot,
    make_plan,
    room_of,
    snapshot_of,
)

#: Of one broker, by number; one at least.
Workers = tuple[BrokerRegistration, ...]


def specs_of(body: AddBroker | AddBrokers) -> tuple[BrokerSpec, ...]:
    return tuple(body.brokers) if isinstance(body, AddBrokers) else (body,)


async def add_brokers(
    services: Services, cluster: str, body: AddBroker | AddBrokers, attempt: Attempt
) -> Answer:
    """Store the operation and answer 202 before any check has passed; the runner carries it out. Refuse only
    a request that cannot be carried out at all."""
    image = services.engine.cluster(cluster).image
    wanted = tuple(_wanted(spec) for spec in specs_of(body))
    _check_distinct(wanted)
    _check_ids_free(wanted, image.brokers)
    _check_replaced(wanted, image.brokers)
    target = body.rebalance.disk_target_permille
    spec = BrokerAdd(
        brokers=wanted,
        mode=body.rebalance.mode,
        disk_permille=msgspec.UNSET if target is None else target,
        moves=body.rebalance.options(),
    )
    if attempt.dry_run:
        return Answer.of(200, await preview_add(services, cluster, spec))
    for broker in wanted:
        check_not_busy(services, cluster, broker.broker_id, but=attempt.operation_id)
        if broker.replaces is not None:
            check_not_busy(services, cluster, broker.replaces, but=attempt.operation_id)
    row = opened(services, cluster, attempt, begin_broker_add(spec), OperationState.PREFLIGHT)
    await services.operations.start(row)
    return accepted(row)


def _wanted(spec: BrokerSpec) -> BrokerToAdd:
    host, port = host_and_port(spec.endpoint)
    return BrokerToAdd(broker_id=spec.broker_id, host=host, port=port, rack=spec.rack, replaces=spec.replaces)


def _check_distinct(wanted: Sequence[BrokerToAdd]) -> None:
    errors = []
    for index, broker in enumerate(wanted):
        for earlier in wanted[:index]:
            if earlier.broker_id == broker.broker_id:
                errors.append(FieldProblem(pointer=f"/brokers/{index}/broker_id", message="named twice"))
            if (earlier.host.lower(), earlier.port) == (broker.host.lower(), broker.port):
                errors.append(FieldProblem(pointer=f"/brokers/{index}/endpoint", message="named twice"))
    if errors:
        raise ProblemError("invalid_request", "a broker is named twice", errors=tuple(errors))


def _check_ids_free(wanted: Sequence[BrokerToAdd], brokers: dict[int, BrokerRegistration]) -> None:
    for broker in wanted:
        found = brokers.get(broker.broker_id)
        if found is not None and found.owner_id != broker.broker_id:
            raise _is_a_worker("broker_id_in_use", found)
        wrong = None if found is None else mismatch(broker, found)
        if wrong is not None:
            raise ProblemError("broker_id_in_use", wrong.detail, facts={"broker_id": broker.broker_id})


def _check_replaced(wanted: Sequence[BrokerToAdd], brokers: dict[int, BrokerRegistration]) -> None:
    """Check that each replaced broker exists and is not itself a replacement."""
    added = {broker.broker_id for broker in wanted}
    seen: set[int] = set()
    errors = []
    for index, broker in enumerate(wanted):
        old = broker.replaces
        if old is None:
            continue
        message = None
        if old in added:
            message = "it is to be added itself"
        elif old in seen:
            message = "two can't replace one"
        elif old not in brokers or not brokers[old].admitted:
            message = f"there is no broker {old} that could be replaced"
        elif brokers[old].owner_id != old:
            message = f"{old} is {brokers[old].name}: name broker {brokers[old].owner_id}"
        seen.add(old)
        if message is not None:
            pointer = "/replaces" if len(wanted) == 1 else f"/brokers/{index}/replaces"
            errors.append(FieldProblem(pointer=pointer, message=message))
    if errors:
        raise ProblemError("invalid_request", errors[0].message, errors=tuple(errors))


def check_not_busy(services: Services, cluster: str, broker_id: int, *, but: str) -> None:
    """Raise broker_operation_running if another operation adds, replaces or drains this broker."""
    for row in services.operations.running():
        if row.cluster != cluster or row.id == but or row.kind not in ("broker_add", "broker_drain"):
            continue
        spec = decode_work(row).spec
        busy: set[int | None] = set()
        what = "is draining"
        if isinstance(spec, BrokerAdd):
            what = "is adding"
            busy = {b.replaces for b in spec.brokers}
            busy.update(b.broker_id for b in spec.brokers)
            if broker_id in {b.replaces for b in spec.brokers}:
                what = "is replacing"
        elif isinstance(spec, BrokerDrain):
            busy = {spec.broker_id}
        if broker_id in busy:
            raise ProblemError(
                "broker_operation_running",
                f"operation {row.id} {what} broker {broker_id}",
                operation_id=row.id,
            )


def find_broker(view: KnownCluster, cluster: str, broker_id: int) -> BrokerRegistration:
    """Return the broker, or the first of its workers. Raise broker_not_found, also for a worker's own id."""
    workers = workers_of(view.image, broker_id)
    if workers:
        return workers[0]
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        raise ProblemError("broker_not_found", f"broker {broker_id} has not registered with {cluster!r}")
    raise _is_a_worker("broker_not_found", broker)


def _is_a_worker(code: str, worker: BrokerRegistration) -> ProblemError:
    detail = f"{worker.broker_id} is {worker.name}, and what is done to a broker is done to all its workers"
    return ProblemError(code, detail, hint=f"name broker {worker.owner_id}")


def version_of(view: KnownCluster, broker_id: int) -> str:
    """Return the version of the broker's own row. Partitions on the broker have their own versions."""
    return str(view.version_of(Entity.BROKER, str(broker_id)))


def sort_value(view: KnownCluster, workers: Workers, sort: str) -> int:
    """Return the value that the list of brokers is ordered by, before the broker's id. What is not known
    comes below 0."""
    match sort.removeprefix("-"):
        case "replicas":
            return sum(len(view.image.replicas_of.get(worker.broker_id, ())) for worker in workers)
        case "leaders":
            return sum(len(view.image.leader_of.get(worker.broker_id, ())) for worker in workers)
        case "disk_free" | "disk_used" as wanted:
            disk = view.disk(workers[0].broker_id)
            if disk is None or not disk.total_bytes:
                return 0
            used_permyriad = 10_000 - 10_000 * disk.free_bytes // disk.total_bytes
            return 1 + (disk.free_bytes if wanted == "disk_free" else max(0, used_permyriad))
        case "bytes_in" | "bytes_out" as wanted:
            rates = rates_of(view, workers)
            return 0 if rates is None else 1 + getattr(rates, wanted)
        case _:
            return workers[0].owner_id


def rates_of(view: KnownCluster, workers: Workers) -> Rates | None:
    """Return what passes through a broker's workers together; None if it is not known of one of them."""
    found = [view.broker_rates(worker.broker_id) for worker in workers]
    known = [rates for rates in found if rates is not None]
    if len(known) < len(found):
        return None
    return Rates(sum(rates.bytes_in for rates in known), sum(rates.bytes_out for rates in known))


def broker_view(view: KnownCluster, broker: BrokerRegistration, workers: Workers | None = None) -> BrokerView:
    """Return what is shown of a broker. workers: if the caller has them."""
    image = view.image
    workers = workers or workers_of(image, broker.owner_id) or (broker,)
    shown = [_worker_view(view, worker) for worker in workers]
    replicas = sum(worker.replicas for worker in shown)
    disk = view.disk(broker.broker_id)
    connections, requests_per_s = view.load([worker.broker_id for worker in workers])
    rates = rates_of(view, workers)
    status = broker.status if len(workers) == 1 else status_of(workers)
    return BrokerView.of(
        broker,
        broker_id=broker.owner_id,
        state=status,
        drained=broker.draining and not replicas,
        endpoint=endpoint_of(broker),
        listeners=listener_views(broker),
        workers=[] if broker.worker_of is None else shown,
        log_dirs=tuple(d for worker in workers for d in worker.log_dir_ids),
        offline_log_dirs=tuple(d for worker in workers for d in worker.offline_log_dir_ids),
        disk_free_bytes=None if disk is None else disk.free_bytes,
        disk_total_bytes=None if disk is None else disk.total_bytes,
        deleted_topics_bytes=sum(kept_bytes(image, worker.broker_id) for worker in workers),
        connections=connections,
        requests_per_s=None if requests_per_s is None else round(requests_per_s, 1),
        bytes_in_per_s=None if rates is None else rates.bytes_in,
        bytes_out_per_s=None if rates is None else rates.bytes_out,
        registered_at=timestamp(broker.registered_at_ms),
        replicas=replicas,
        leaders=sum(worker.leaders for worker in shown),
        last_change=last_change(view.last_change(Entity.BROKER, str(broker.broker_id))),
    )


def _worker_view(view: KnownCluster, worker: BrokerRegistration) -> WorkerView:
    return WorkerView(
        worker=worker.worker_number,
        broker_id=worker.broker_id,
        state=worker.status,
        endpoint=endpoint_of(worker),
        replicas=len(view.image.replicas_of.get(worker.broker_id, ())),
        leaders=len(view.image.leader_of.get(worker.broker_id, ())),
    )


async def preview_add(services: Services, cluster: str, spec: BrokerAdd) -> BrokerPlan:
    """Return the plan as if the brokers had been added already. Raises NotActive, UnknownCluster."""
    engine = services.engine
    view = engine.cluster(cluster)
    image = view.image
    checks = view.preflight([broker.broker_id for broker in spec.brokers])
    goals = goals_of(spec, view.decided)
    known = await snapshot_of(engine, services.database, cluster)
    snapshot = _with_new(known, spec, view)
    plans = await services.database.compute(partial(_plan_all, snapshot, goals)) if goals else []
    return BrokerPlan(
        brokers=[broker.broker_id for broker in spec.brokers],
        moves=sum(plan.totals.moves for plan in plans),
        bytes=sum(plan.totals.bytes for plan in plans),
        warnings=_warnings(spec, image, checks),
        checks=[CheckView.of(check) for check in checks],
        plans=[plan_view(cluster, plan) for plan in plans],
    )


def _plan_all(snapshot: Snapshot, goals: tuple[Goal, ...]) -> list[Plan]:
    return [make_plan(snapshot, goal) for goal in goals]


def _with_new(snapshot: Snapshot, spec: BrokerAdd, view: KnownCluster) -> Snapshot:
    """Return the snapshot in which the added brokers take replicas and the replaced brokers take none."""
    image = view.decided
    old = [broker.replaces for broker in spec.brokers if broker.replaces is not None]
    replaced = {worker for broker_id in old for worker in ids_of(image, broker_id)}
    brokers = {
        found.broker_id: msgspec.structs.replace(found, receives=False, leaving=True)
        if found.broker_id in replaced
        else found
        for found in snapshot.brokers
    }
    for wanted in spec.brokers:
        for worker in ids_of(image, wanted.broker_id):
            if worker not in brokers:
                disk = view.disk(worker)
                brokers[worker] = BrokerSnapshot(
                    broker_id=worker,
                    host=wanted.host,
                    rack=wanted.rack,
                    room_bytes=None if disk is None else room_of(disk, image),
                    worker_of=wanted.broker_id,
                )
    return msgspec.structs.replace(snapshot, brokers=tuple(brokers[b] for b in sorted(brokers)))


def _warnings(spec: BrokerAdd, image: ClusterImage, checks: Sequence[PreflightCheck]) -> list[str]:
    missing = [
        f"broker {broker.broker_id} has not registered yet: start it at {endpoint_of(broker)}"
        for broker in spec.brokers
        if broker.broker_id not in image.brokers
    ]
    return missing + [check.detail for check in checks if check.state is not CheckState.PASSED]
