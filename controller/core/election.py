"""Leader election. Called whenever a broker loses or regains trust, and when a preferred leader may return.

A leader is elected cleanly from the ISR, in assignment order; when no member of the ISR can lead, from the
ELR, alone in its ISR (sound because an ISR below the minimum commits nothing: KIP-966). Otherwise the
partition stays without a leader and an operator is told why (3.3, no replica may lead); unless a sealed log
proves that it is whole (3.9, after total power loss), or the topic opted into an unclean election (3.5,
unclean election). Only a registered, unfenced broker that is not shutting down is ever elected (S38, the only
candidate is dead).

Restarts: a new incarnation is first fenced like a dead broker, however the old one stopped. A process crash
leaves the page cache, so where the ISR falls below the minimum, the broker's seats turn into ELR seats and
are not lost; but it does not stay in the ISR as if it had not been away: every leader sees a higher partition
epoch without it, and takes it back only through a fetch of the new broker epoch (I8, broker epochs fence
incarnations; I9, joining takes the epoch start).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from controller.core.assignment import first_leader
from controller.core.configs import is_unclean_election_allowed
from controller.core.draft import Draft
from controller.core.image import ClusterImage
from controller.core.isr import NOBODY, advance, with_unclean_leader
from controller.core.loss import LogEnds, sealed_candidate
from controller.core.records import Cause, Change
from springtide.contract.lag_report import ReplicaLogEnd
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState


def settle(
    state: PartitionState,
    *,
    live: Collection[int],
    eligible: Collection[int],
    demoted: Collection[int] = (),
    leaving: int = NOBODY,
    excluded: int = NOBODY,
    confirmed: Collection[int] = (),
    unproven: Collection[int] = (),
) -> PartitionState | None:
    """Return the state once brokers that are not live, leave, or are excluded have lost their seats; None if
    nothing changes.

    live: unfenced brokers; eligible: those that may also be elected; demoted: those of them that lead only
    what no other broker may. A valid leader stays (3.1, clean election). confirmed: see `advance`. unproven:
    of the ELR, those that keep their seats and may not lead (yet).
    """
    out = (leaving, excluded)
    isr = tuple([b for b in state.isr if b in live and b not in out])
    leader = state.leader
    if leader not in isr:
        leader = first_leader(isr, eligible, demoted)
        if leader == NO_LEADER:
            leader = first_leader(
                (b for b in state.elr if b != excluded and b not in unproven), eligible, demoted
            )
            if leader != NO_LEADER:
                isr = (leader,)
    return advance(state, isr=isr, leader=leader, excluded=excluded, confirmed=confirmed)


def live_brokers(image: ClusterImage) -> frozenset[int]:
    """Return the live brokers' ids, for membership tests only; never iterate over them."""
    return frozenset(b.broker_id for b in image.brokers.values() if b.admitted and not b.fenced)


def eligible_ids(image: ClusterImage) -> frozenset[int]:
    """Return the ids of brokers that may lead, for membership tests only; never iterate over them."""
    return frozenset(b.broker_id for b in image.brokers.values() if b.is_eligible)


#: Partitions of a topic that are elected one after the other. The shell writes so many rows as one
#: (shell/rows.py): elected by single numbers, topic after topic, they would be written many times.
SLICE: Final = 100


def seats_in_order(image: ClusterImage, broker_id: int) -> list[PartitionKey]:
    """Return the partitions in which the broker leads or has a seat. Those that it leads come first: clients
    wait for them; and of those that it leads, and of the others, the ones that were there before the ones
    that are being created, and by partition number: no topic waits for a larger one. A topic's partitions of
    one slice stay together, because they are stored together.
    """
    led = image.leader_of.get(broker_id, {})
    seats = image.seats_of.get(broker_id, {})

    def turn(key: PartitionKey) -> tuple[bool, int, PartitionKey]:
        return key in image.unconfirmed_new, key[1] // SLICE, key

    return [*sorted(led, key=turn), *sorted((key for key in seats if key not in led), key=turn)]


def vacate_seats(
    draft: Draft,
    broker_id: int,
    change: Change,
    *,
    excluded: bool,
    created: Collection[PartitionKey] = (),
    keys: Iterable[PartitionKey] | None = None,
) -> list[PartitionKey]:
    """Take its ISR seat and leadership in these partitions, or in all, from a broker that is fenced in the
    image, and with `excluded` its ELR seats too. Return those that changed.

    created: partitions whose log the broker said it has made. There it is new no more: should it return
    without one, that is a loss (3.8, how a broker returns)."""
    image = draft.image
    live = live_brokers(image)
    eligible = eligible_ids(image)
    assert broker_id not in live
    out = broker_id if excluded else NOBODY
    changed = []
    for key in seats_in_order(image, broker_id) if keys is None else keys:
        state = image.partitions.get(key)
        if state is None:
            continue
        after = settle(
            state,
            live=live,
            eligible=eligible,
            demoted=image.demoted,
            excluded=out,
            confirmed=(broker_id,) if key in created else (),
            unproven=draft.unproven(state),
        )
        if after is not None:
            draft.write_partition(after, change)
        is_leaderless = image.partitions[key].leader == NO_LEADER
        if (is_leaderless and elect_uncleanly_if_allowed(draft, key)) or after is not None:
            changed.append(key)
    return changed


def vacate_seat(
    draft: Draft,
    key: PartitionKey,
    broker_id: int,
    change: Change,
    *,
    only_if_led: bool = False,
    has_log: bool = True,
) -> bool:
    """Take a replica that lost its log (LOG_MISSING, a failed disk) out of ISR and ELR; it may come back as a
    learner. Leadership moves; where it stays, it begins again, because the leader remembers how far this
    replica had come, and would ask for it again at once if a new leader epoch did not make it forget (I3,
    only this epoch's evidence counts).
    only_if_led: it keeps its seat if no other could lead without it. has_log: with what is left of its log it
    may still be elected uncleanly. Return whether it lost a seat."""
    image = draft.image
    state = image.partitions[key]
    if broker_id not in state.isr and broker_id not in state.elr:
        return False
    after = settle(
        state,
        live=live_brokers(image),
        eligible=eligible_ids(image),
        demoted=image.demoted,
        excluded=broker_id,
        unproven=draft.unproven(state, out=broker_id),
    )
    assert after is not None
    if only_if_led and after.leader == NO_LEADER:
        return False
    if after.leader == state.leader != NO_LEADER:
        after = msgspec.structs.replace(after, leader_epoch=after.leader_epoch + 1)
    draft.write_partition(after, change)
    if after.leader == NO_LEADER:
        elect_uncleanly_if_allowed(draft, key, without=NOBODY if has_log else broker_id)
    return True


def begin_anew(draft: Draft, key: PartitionKey, change: Change) -> None:
    """The same leader in a new leader epoch: it forgets its followers, and no proposal of it counts."""
    state = draft.image.partitions[key]
    after = msgspec.structs.replace(
        state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
    )
    draft.write_partition(after, change)


def elect_leaderless(draft: Draft, broker_id: int) -> None:
    """A broker became eligible: give partitions without a leader one, where it is theirs to lead."""
    replicas = draft.image.replicas_of.get(broker_id, {})
    keys = [key for key in draft.image.leaderless if key in replicas]
    _elect(draft, keys, reason=f"broker {broker_id} is back")


def elect_restored(draft: Draft, keys: Collection[PartitionKey]) -> None:
    """The partitions' topic, which was deleted, lives again: give them leaders."""
    _elect(draft, keys, reason="its topic was restored")


def elect_told(draft: Draft, keys: Iterable[PartitionKey], log_ends: LogEnds) -> None:
    """A log end that was told, or a broker that is trusted again, may be what an election waited for: with a
    seat, that the log reaches the floor (floor.py); without one, the proof of the seals (3.9, after total
    power loss)."""
    leaderless = [key for key in keys if key in draft.image.leaderless]
    _elect(draft, leaderless, reason="its log reaches all that is known to be committed", log_ends=log_ends)


def _elect(
    draft: Draft, keys: Collection[PartitionKey], *, reason: str, log_ends: LogEnds | None = None
) -> None:
    if not keys:
        return
    image = draft.image
    live = live_brokers(image)
    eligible = eligible_ids(image)
    change = draft.change(Cause.LEADER_ELECTED, reason=reason)
    for key in keys:
        state = image.partitions[key]
        after = settle(
            state, live=live, eligible=eligible, demoted=image.demoted, unproven=draft.unproven(state)
        )
        if after is not None:
            draft.write_partition(after, change)
        if log_ends is not None and image.partitions[key].leader == NO_LEADER:
            _elect_sealed(draft, key, log_ends.of(image, image.partitions[key]))
        if image.partitions[key].leader == NO_LEADER:
            elect_uncleanly_if_allowed(draft, key)


def _elect_sealed(draft: Draft, key: PartitionKey, told: Mapping[int, ReplicaLogEnd]) -> None:
    """Elect the replica whose sealed log proves that it holds every committed record, when power loss has
    taken all seats (3.9, after total power loss). It leads alone; the others come back by fetching."""
    state = draft.image.partitions[key]
    candidate = sealed_candidate(draft.image, state, told)
    if candidate is None:
        return
    after = advance(state, isr=(candidate,), leader=candidate)
    assert after is not None
    reason = f"the sealed log of broker {candidate} holds all that was committed"
    draft.write_partition(after, draft.change(Cause.SEALED_LEADER_ELECTED, reason=reason))


def elect_uncleanly_if_allowed(draft: Draft, key: PartitionKey, *, without: int = NOBODY) -> bool:
    """A topic that prefers availability to its records said so in `unclean.leader.election.enable`. Only
    live candidates (S38, the only candidate is dead). Their logs are not known here, only this: who had a
    seat that was taken, because it could not prove its log, held every committed record at the time; who was
    behind did not (KIP-966). A live member of the ELR that has yet to tell of its log is waited for: it may
    be elected cleanly. without: a broker that has just said that its log is gone: it could only say so again,
    and again.
    """
    image = draft.image
    topic = image.topics.get(key[0])
    if topic is None or not is_unclean_election_allowed(topic.configs, image.configs):
        return False
    state = image.partitions[key]
    if draft.awaits_word(state):
        return False
    candidate = unclean_candidate(state, [b for b in state.replicas if b != without and image.is_eligible(b)])
    if candidate is None:
        return False
    draft.write_partition(
        with_unclean_leader(state, candidate),
        draft.change(Cause.UNCLEAN_LEADER_ELECTED, reason="unclean.leader.election.enable is true"),
    )
    draft.note(
        "unclean_leader_elected",
        f"{state.topic}-{state.partition}: broker {candidate} leads without proof of its log",
        topic=state.topic,
        partition=state.partition,
        broker=candidate,
    )
    return True


def unclean_candidate(state: PartitionState, eligible: Collection[int]) -> int | None:
    """Return the broker that would lead without proof of its log; None if none can."""
    # A learner that never was in sync comes last: its log may be all but empty.
    in_order = sorted(state.replicas, key=lambda b: b in state.adding_replicas)
    live = [b for b in in_order if b in eligible]
    if not live:
        return None
    had_seats = (b for seats in (state.elr, state.last_known_elr) for b in live if b in seats)
    return next(had_seats, live[0])


def elect_preferred(draft: Draft, key: PartitionKey, change: Change) -> None:
    """Move leadership back to the preferred replica, which can lead (3.6, preferred leaders)."""
    state = draft.image.partitions[key]
    after = advance(state, isr=state.isr, leader=state.preferred_leader)
    assert after is not None
    draft.write_partition(after, change)


def can_lead_preferred(image: ClusterImage, state: PartitionState) -> bool:
    preferred = state.preferred_leader
    return (
        state.leader not in (NO_LEADER, preferred)
        and preferred in state.isr
        and not state.adding_replicas
        and not state.removing_replicas
        and image.is_eligible(preferred)
        and preferred not in image.demoted
    )


def hand_over_demoted(draft: Draft, broker_id: int, change: Change) -> int:
    """Move the leaderships of a demoted broker to brokers that are in sync and not demoted, as far as there
    are any. Return how many moved."""
    image = draft.image
    eligible = eligible_ids(image)
    count = 0
    for key in list(image.leader_of.get(broker_id, {})):
        state = image.partitions[key]
        successor = first_leader(state.isr, eligible, image.demoted)
        if successor == NO_LEADER or successor in image.demoted:
            continue
        after = advance(state, isr=state.isr, leader=successor)
        assert after is not None
        draft.write_partition(after, change)
        count += 1
    return count


def repair(draft: Draft) -> None:
    """Finish what a predecessor began: seats of brokers whose fencing was persisted and whose partitions'
    was not, and partitions whose leader can be elected by now (2.10, the controller's authority)."""
    image = draft.image
    change = draft.change(Cause.TAKEOVER_REPAIR)
    live = live_brokers(image)
    eligible = eligible_ids(image)
    for broker_id in sorted(image.seats_of):
        if broker_id not in live and _is_in_some_isr(image, broker_id):
            vacate_seats(draft, broker_id, change, excluded=False)
    for key in list(image.leaderless):
        state = image.partitions[key]
        after = settle(
            state, live=live, eligible=eligible, demoted=image.demoted, unproven=draft.unproven(state)
        )
        if after is not None:
            draft.write_partition(after, change)
        if image.partitions[key].leader == NO_LEADER:
            elect_uncleanly_if_allowed(draft, key)


def _is_in_some_isr(image: ClusterImage, broker_id: int) -> bool:
    """A predecessor that finished has left it seats in ELRs alone, which it keeps."""
    return any(broker_id in image.partitions[key].isr for key in image.seats_of[broker_id])


class ShutdownProgress:
    """The work that a controlled shutdown has left to do.

    waiting: partitions for which the broker should stay, because another replica may still join their ISR.
    below_min: those whose ISR it left below the minimum just now.
    """

    __slots__ = ("below_min", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.below_min = 0


def drain(
    draft: Draft, broker_id: int, *, may_return: Callable[[int], bool], force: bool
) -> ShutdownProgress:
    """One pass of a controlled shutdown (3.7, controlled shutdown): move leaderships within the ISR, then
    leave the ISRs.

    A seat is given up at once while |ISR| stays at the minimum. Where it would fall below, the broker leads
    no more but goes on following, so that acks=all works, until another replica joins; when none can
    (`may_return` is false for all outside the ISR), or with `force`, it moves to the ELR, and that is
    reported. The last member stays: it exits with a clean marker and returns with its seat.
    """
    image = draft.image
    left = ShutdownProgress()
    live = live_brokers(image)
    eligible = eligible_ids(image)
    change = draft.change(Cause.CONTROLLED_SHUTDOWN, reason=f"broker {broker_id} is shutting down")
    for key in list(image.seats_of.get(broker_id, {})):
        state = image.partitions[key]
        if broker_id not in state.isr:
            continue
        rest = tuple(b for b in state.isr if b != broker_id and b in live)
        hope = any(may_return(b) for b in state.replicas if b not in state.isr)
        successor = first_leader(rest, eligible, image.demoted)
        after: PartitionState | None = None
        if state.leader == broker_id and successor == NO_LEADER:
            left.waiting += hope
            continue
        if len(rest) >= state.min_insync_replicas or force or not hope:
            if len(rest) < state.min_insync_replicas:
                left.below_min += 1
            after = settle(
                state,
                live=live,
                eligible=eligible,
                demoted=image.demoted,
                leaving=broker_id,
                unproven=draft.unproven(state),
            )
        else:
            left.waiting += 1
            if state.leader == broker_id:
                after = advance(state, isr=state.isr, leader=successor)
        if after is not None:
            draft.write_partition(after, change)
    return left
