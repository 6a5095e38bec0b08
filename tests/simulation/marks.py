"""Reachability marks: moments that the simulation must come to, or its green means little.

A mark is a place in the space of schedules that a bug was once found in, here or in Kafka's history, or that
a rule was written for. A run counts how often it came to each. A sweep that is large enough and never came to
one has lost the ability to find what lies there: that is a failure of the sweep, as a violation is.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping

COMMON, RARE = 300, 3_000
"""Seeds of a sweep from which on a mark must have been reached."""

WATCHED = sys.maxsize
"""Counted and shown, and not demanded: drawn faults alone have not come there in some hundred seeds."""

DECLARED: dict[str, int] = {
    # Elections and the in-sync set, as the controller decides them.
    "isr.shrunk": COMMON,
    "isr.expanded": COMMON,
    "isr.single": COMMON,
    "isr.below.minimum": COMMON,
    "elr.filled": COMMON,
    "elr.emptied": COMMON,
    "elr.dropped.after.unclean.restart": COMMON,
    "election.from.isr": COMMON,
    "election.from.elr": COMMON,
    "election.while.a.promise.is.pending": RARE,
    "election.while.producers.wait": COMMON,
    "election.after.proof.of.death": COMMON,
    "election.after.silence": COMMON,
    "election.of.preferred.leader": COMMON,
    "election.for.controlled.shutdown": COMMON,
    "leader.epoch.raised.for.the.same.leader": WATCHED,
    "leaderless": COMMON,
    "leaderless.with.elr": COMMON,
    "unclean.restart": COMMON,
    "seal.stored": COMMON,
    "seal.opened": COMMON,
    "election.of.a.sealed.log": WATCHED,
    "log.lost": WATCHED,
    # Processes of two releases: an operator raises the level, or is told what stands in the way.
    "upgrade.finalized": WATCHED,
    "upgrade.refused": WATCHED,
    "controller.does.not.stand": WATCHED,
    # Logs are made beside the stream.
    "creation.overtaken.by.a.newer.state": COMMON,
    "creation.given.up.in.hand": RARE,
    "creation.cut.short": COMMON,
    "controller.write.in.parts": COMMON,
    # Promises (proposals) and their answers.
    "proposal.accepted": COMMON,
    "proposal.outdated": COMMON,
    "proposal.ineligible": RARE,
    "proposal.fenced": RARE,
    "proposal.answered.after.the.leadership": RARE,
    "report.unanswered": COMMON,
    "promise.pending.at.crash": RARE,
    # A broker applies the metadata stream.
    "state.coalesced": COMMON,
    "state.repeated": COMMON,
    "update.full": COMMON,
    "update.of.another.incarnation": WATCHED,
    "update.of.an.earlier.controller": WATCHED,
    "update.out.of.order": WATCHED,
    "leader.becomes.follower": COMMON,
    "follower.becomes.leader": COMMON,
    "leader.leads.on.in.a.new.epoch": RARE,
    # Fetching.
    "fetch.fenced.by.leader.epoch": COMMON,
    "fetch.ahead.of.the.leader's.state": RARE,
    "fetch.by.an.earlier.incarnation": RARE,
    "fetch.from.no.leader": COMMON,
    "fetch.of.an.unknown.partition": RARE,
    "fetch.diverges": COMMON,
    "fetch.by.outsider.at.epoch.start": COMMON,
    "join.asked.at.epoch.start": COMMON,
    "fetched.in.an.earlier.epoch": COMMON,
    "fetched.twice": WATCHED,
    "truncation.with.suffix.aside": COMMON,
    "truncation.without.suffix": COMMON,
    "truncation.called.off": RARE,
    "divergence.reported": COMMON,
    "storage.error": WATCHED,
    # A host that was put back.
    "host.finds.out": WATCHED,
    "host.cannot.find.out": WATCHED,
    # Bytes that rot at rest.
    "rot.found": RARE,
    "rot.took.a.seat": RARE,
    "rot.mended": RARE,
    "rot.mended.as.a.follower": WATCHED,
    "rot.begins.a.log.anew": WATCHED,
    "rot.deleted.at.the.leader": WATCHED,
    "rot.refused.by.a.follower": WATCHED,
    # Compaction.
    "round.decided": COMMON,
    "round.applied": COMMON,
    "round.begins.a.log.anew": WATCHED,
    # Reading from followers.
    "read.from.follower": COMMON,
    "read.by.debugging": COMMON,
    "read.refused.by.follower": COMMON,
    "read.ahead.of.follower": COMMON,
    "read.fenced.by.follower": RARE,
    "read.ahead.of.the.follower's.state": COMMON,
    # Committing.
    "commit.at.minimum.isr": COMMON,
    "commit.alone": COMMON,
    "commit.with.a.promise.pending": COMMON,
    "commit.of.an.earlier.epoch's.records": COMMON,
    "commit.without.lease": COMMON,
    # Producing.
    "produce.refused.below.minimum": COMMON,
    "produce.refused.by.follower": COMMON,
    "produce.refused.without.lease": COMMON,
    "produce.timed.out": COMMON,
    "produce.overtaken.by.new.leader": COMMON,
    "produce.below.minimum.after.append": COMMON,
    "duplicate.answered.from.log": COMMON,
    "duplicate.waits.for.commit": COMMON,
    "retry.acknowledged.by.another.leader": COMMON,
    "acknowledged.after.a.lost.answer": COMMON,
    # Brokers' lives and sessions.
    "start.after.clean.shutdown": COMMON,
    "start.after.kill": COMMON,
    "start.after.power.cut": COMMON,
    "start.with.empty.disk": COMMON,
    "start.after.an.unanswered.registration": COMMON,
    "power.cut.takes.a.tail": COMMON,
    "crash.of.a.leader": COMMON,
    "crash.while.paused": RARE,
    "crash.while.writing.aside": RARE,
    "registered.again.in.one.life": WATCHED,
    "heartbeat.of.an.earlier.epoch": WATCHED,
    "lease.lost.by.a.leader": COMMON,
    "lease.stood.in.for": COMMON,
    # Controllers.
    "controller.takes.over": COMMON,
    "controller.takes.over.from.another": COMMON,
    "controllers.two.believe.to.lead": COMMON,
    "controller.silent.without.proof": COMMON,
    "controller.write.refused.by.epoch": WATCHED,
    "controller.write.of.an.expired.session": COMMON,
    "controller.lost.answer.was.applied": COMMON,
    "controller.lost.answer.was.not": WATCHED,
    "controller.resigns.mid.write": COMMON,
    "session.expired.while.paused": COMMON,
    "probe.proves.death": COMMON,
    "probe.finds.it.alive": COMMON,
    "probe.is.cut.off": COMMON,
    # Wall clocks.
    "clock.leap.told": COMMON,
    # Coordinators and their shard.
    "shard.refuses.and.undoes": COMMON,
    "shard.read.across.a.round": RARE,
    "shard.append.under.minimum": WATCHED,
    "shard.turn.of.several": COMMON,
    "shard.closed.fenced": COMMON,
    "shard.closed.broken": WATCHED,
    "shard.closed.cut": WATCHED,
    "shard.closed.released": COMMON,
    "shard.moved.once.level": COMMON,
    "shard.writer.given": COMMON,
    "shard.taken.from.the.dead": COMMON,
    "shard.tells.that.metadata.went.back": WATCHED,
    "coordinator.forgotten": COMMON,
    "coordinator.stopped": COMMON,
    # Transactions, in sweeps of their family alone.
    "transaction.commit": WATCHED,
    "transaction.abort": WATCHED,
    "transaction.left": WATCHED,
    "transaction.given.up": WATCHED,
    "transaction.verified": WATCHED,
    "transaction.marker.sent.again": WATCHED,
    "transaction.new.producer.id": WATCHED,
    "transaction.message.late": WATCHED,
    "transaction.killed.between.steps": WATCHED,
    "transaction.deleted.while.open": WATCHED,
    "transaction.open.at.a.round": WATCHED,
    # What operators do.
    "deletion.done": COMMON,
    "minimum.in.force": COMMON,
    "move.throttled": COMMON,
    "replica.rests": COMMON,
    "fetch.hurried": COMMON,
    "move.called.off": COMMON,
    "topic.deleted.while.moving": RARE,
    "broker.forgotten.and.back": RARE,
}
"""Every mark, with the size of a sweep that must reach it."""


class Marks:
    """Counts what one run came to."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def reached(self, mark: str) -> None:
        """Raises KeyError for a mark that is not declared: a typing error must not be a mark of its own."""
        if mark not in DECLARED:
            raise KeyError(mark)
        self.counts[mark] += 1


def missed(counts: Mapping[str, int], *, seeds: int) -> list[str]:
    """Marks that a sweep of so many seeds should have come to and has not."""
    return [mark for mark, wanted in DECLARED.items() if seeds >= wanted and not counts.get(mark)]
