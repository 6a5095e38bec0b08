"""Transactions: all of one is read or nothing of it, not before its commit, and no two read each other.

A transaction's sends have the outcome of its end, so what one key can tell is found by the other modules: an
aborted record that was read is g1a, a committed one that is missing is lost-acked, and so on. Here is what
needs the whole transaction:

- *torn-transaction*: nobody knows whether it was committed, one of its records was read, so it was, and
  another of them is nowhere; or of what it wrote to one partition, an unclean election has cut a part.
- *precommitted-read*: a record was read by its own transaction, or before anybody asked for its commit.
- *g1c*: transactions that each read from the next, or come before it in one process, in a circle: the first
  must have been committed before the last, and the last before the first.
- *g0* and *g1c-by-writes*: circles in which one wrote behind another. Kafka does not isolate writes, so they
  are legal, and counted.

Readers are taken to be read_committed. The names and the rules are those of Jepsen's test of Kafka
(jepsen.tests.kafka), which lets the same be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from .history import NO_OFFSET, Function, HistoryError, Key, Outcome
from .index import Index
from .losses import is_excused
from .options import CheckOptions
from .verdict import Findings, Kind, Severity, show_key, show_value

SHOWN_MAX = 8
"""Transactions of a circle that are named."""

Edges = dict[str, dict[str, int]]
"""From each transaction to those that come after it, with the operation that shows it."""


@dataclass(slots=True)
class Transaction:
    """What belongs to one. Integers are indices of operations."""

    name: str
    end: int
    sends: list[int] = field(default_factory=list)
    polls: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Transactions:
    """All of a history, by name, in order of their ends. exposed: see CheckOptions.version_1."""

    by_name: Mapping[str, Transaction]
    exposed: frozenset[str]


def find_transactions(index: Index, options: CheckOptions) -> Transactions:
    """Raises HistoryError where a transaction has two ends or none, or a send another outcome."""
    found: dict[str, Transaction] = {}
    for number in index.order:
        operation = index.operations[number]
        if operation.f is Function.TRANSACTION:
            if operation.transaction in found:
                first = found[operation.transaction].end
                raise HistoryError(f"operations {first + 1} and {number + 1} end the same transaction")
            found[operation.transaction] = Transaction(operation.transaction, number)
    for number in index.order:
        operation = index.operations[number]
        if not operation.transaction or operation.f is Function.TRANSACTION:
            continue
        transaction = found.get(operation.transaction)
        if transaction is None:
            raise HistoryError(f"operation {number + 1}: {operation.transaction!r} has no end")
        if operation.f is Function.POLL:
            transaction.polls.append(number)
        elif operation.type is index.operations[transaction.end].type:
            transaction.sends.append(number)
        else:
            raise HistoryError(f"operation {number + 1} and the end of its transaction have two outcomes")
    return Transactions(found, frozenset(_exposed(index, found, options) if options.version_1 else ()))


def _exposed(index: Index, found: Mapping[str, Transaction], options: CheckOptions) -> Iterator[str]:
    faults = [operation for operation in index.operations if operation.f is Function.FAULT]
    for before, after in _in_one_process(index, found):
        end = index.operations[before.end]
        if not end.process.startswith(options.version_2) and any(
            fault.t_invoke_ns <= end.t_return_ns and end.t_invoke_ns <= fault.t_return_ns for fault in faults
        ):
            yield after.name


def _in_one_process(
    index: Index, found: Mapping[str, Transaction]
) -> Iterator[tuple[Transaction, Transaction]]:
    """Yield each transaction with the next of its process."""
    last: dict[str, Transaction] = {}
    for transaction in found.values():
        process = index.operations[transaction.end].process
        if process in last:
            yield last[process], transaction
        last[process] = transaction


def check_transactions(
    index: Index, transactions: Transactions, options: CheckOptions, findings: Findings
) -> None:
    if not transactions.by_name:
        return
    writers = {
        (key, value): index.operations[number].transaction
        for key, log in index.logs.items()
        for value, number in log.sent.items()
        if index.operations[number].transaction
    }
    for transaction in transactions.by_name.values():
        if index.operations[transaction.end].type is Outcome.INFO:
            severity = Severity.COUNTED if transaction.name in transactions.exposed else Severity.BAD
            _check_torn(index, transaction, options, severity, findings)
        if options.unclean and index.has_final_read:
            _check_halves(index, transaction, options, findings)
    _check_early(index, transactions, writers, findings)
    _check_circles(index, transactions, writers, findings)


def _check_torn(
    index: Index, transaction: Transaction, options: CheckOptions, severity: Severity, findings: Findings
) -> None:
    read: tuple[Key, int, str] | None = None
    missing: list[tuple[Key, int, str, int]] = []
    for number in transaction.sends:
        operation = index.operations[number]
        assert operation.key is not None
        log = index.logs[operation.key]
        for offset, value in operation.items:
            if value in log.places:
                read = read or (log.key, log.places[value], value)
            elif (
                log.key not in options.unclean
                and not is_excused(log, operation, offset, options)
                and (index.has_final_read or (offset != NO_OFFSET and log.was_passed(offset)))
            ):
                missing.append((log.key, offset, value, number))
    if read is None or not missing:
        return
    key, offset, value, number = missing[0]
    findings.add(
        Kind.TORN_TRANSACTION,
        f"{show_value(read[2])} of {transaction.name} was read at offset {read[1]} of {show_key(read[0])}, "
        f"so it was committed, and {len(missing)} of its records are nowhere, the first "
        f"{show_value(value)} of {show_key(key)}",
        key=key,
        severity=severity,
        offsets=[each[1] for each in missing if each[1] != NO_OFFSET],
        values=[each[2] for each in missing],
        about=(number, transaction.end, index.logs[read[0]].first_read[read[1]]),
    )


def _check_halves(index: Index, transaction: Transaction, options: CheckOptions, findings: Findings) -> None:
    """Where an unclean election cut a transaction and its marker, the rest of it is not read either."""
    values: dict[Key, list[str]] = {}
    for number in transaction.sends:
        key = index.operations[number].key
        if key in options.unclean:
            values.setdefault(key, []).extend(value for _, value in index.operations[number].items)
    for key, sent in values.items():
        gone = [value for value in sent if value not in index.logs[key].final_values]
        if 0 < len(gone) < len(sent):
            findings.add(
                Kind.TORN_TRANSACTION,
                f"{len(gone)} of the {len(sent)} records that {transaction.name} wrote to {show_key(key)} "
                f"are not there, and the others are read, the first that is gone {show_value(gone[0])}",
                key=key,
                values=gone,
                about=(transaction.end,),
            )


def _check_early(
    index: Index, transactions: Transactions, writers: Mapping[tuple[Key, str], str], findings: Findings
) -> None:
    """Find reads before the commit: by time, and by the transaction itself."""
    early: dict[tuple[Key, str], int] = {}
    for (key, value), name in writers.items():
        log, end = index.logs[key], index.operations[transactions.by_name[name].end]
        told = log.told_by(log.places.get(value, NO_OFFSET), value)
        by = index.operations[told]
        if end.type is not Outcome.FAIL and by.f is Function.POLL and by.t_return_ns < end.t_invoke_ns:
            early[key, value] = told
    for transaction in transactions.by_name.values():
        for number in transaction.polls:
            operation = index.operations[number]
            assert operation.key is not None or not operation.items
            for _, value in operation.items:
                place = (operation.key or ("", 0), value)
                if writers.get(place) == transaction.name:
                    early.setdefault(place, number)
    for (key, value), reader in early.items():
        name = writers[key, value]
        findings.add(
            Kind.PRECOMMITTED_READ,
            f"{show_value(value)} of {show_key(key)} was read before the commit of {name} was asked for",
            key=key,
            offsets=(index.logs[key].places[value],),
            values=(value,),
            about=(reader, transactions.by_name[name].end),
        )


# --- circles ------------------------------------------------------------------------------------------------


def _check_circles(
    index: Index, transactions: Transactions, writers: Mapping[tuple[Key, str], str], findings: Findings
) -> None:
    reads = _reads(index, transactions, writers)
    processes: Edges = {}
    for before, after in _in_one_process(index, transactions.by_name):
        processes.setdefault(before.name, {})[after.name] = after.end
    writes = _writes(index, writers)
    graphs = {
        Kind.G1C: (Severity.BAD, (reads, processes)),
        Kind.G0: (Severity.COUNTED, (writes,)),
        Kind.G1C_BY_WRITES: (Severity.COUNTED, (reads, writes)),
    }
    for kind, (severity, edges) in graphs.items():
        if _add_circles(kind, severity, edges, transactions, findings):
            break  # Its circles are in the graphs that follow, too.


def _reads(index: Index, transactions: Transactions, writers: Mapping[tuple[Key, str], str]) -> Edges:
    """From each transaction to the committed ones that read from it."""
    edges: Edges = {}
    for transaction in transactions.by_name.values():
        if index.operations[transaction.end].type is not Outcome.OK:
            continue
        for number in transaction.polls:
            operation = index.operations[number]
            for _, value in operation.items:
                writer = writers.get((operation.key or ("", 0), value), transaction.name)
                if writer != transaction.name:
                    edges.setdefault(writer, {}).setdefault(transaction.name, number)
    return edges


def _writes(index: Index, writers: Mapping[tuple[Key, str], str]) -> Edges:
    """From each transaction to those whose record stands next behind one of its own."""
    edges: Edges = {}
    for key, log in index.logs.items():
        ordered = [log.read[offset] for offset in sorted(log.read)]
        named = [(writers.get((key, value)), value) for value in ordered]
        for (before, _), (after, value) in pairwise([each for each in named if each[0]]):
            if before and after and before != after:
                edges.setdefault(before, {}).setdefault(after, log.sent[value])
    return edges


def _add_circles(
    kind: Kind,
    severity: Severity,
    graphs: tuple[Edges, ...],
    transactions: Transactions,
    findings: Findings,
) -> int:
    """Add one finding for each component that has a circle, by its shortest one; return how many."""
    union: Edges = {}
    for graph in graphs:
        for before, followers in graph.items():
            for after, number in followers.items():
                union.setdefault(before, {}).setdefault(after, number)
    circles = [_circle(union, component) for component in _components(union) if len(component) > 1]
    for circle in circles:
        numbers = [union[before][after] for before, after in pairwise([*circle, circle[0]])]
        shown = circle if len(circle) <= SHOWN_MAX else [*circle[:SHOWN_MAX], "..."]
        findings.add(
            kind,
            f"a circle of {len(circle)} transactions: {', '.join(shown)}",
            key=None,
            severity=severity,
            about=[*numbers, *(transactions.by_name[name].end for name in circle)],
        )
    return len(circles)


def _components(edges: Edges) -> list[list[str]]:
    """Return the strongly connected components (Tarjan, without recursion)."""
    found: list[list[str]] = []
    seen: dict[str, int] = {}
    low: dict[str, int] = {}
    open_nodes: list[str] = []
    is_open: set[str] = set()
    for root in edges:
        if root in seen:
            continue
        path = [(root, iter(edges[root]))]
        seen[root] = low[root] = len(seen)
        open_nodes.append(root)
        is_open.add(root)
        while path:
            node, followers = path[-1]
            child = next(followers, None)
            if child is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == seen[node]:
                    component = [open_nodes.pop()]
                    while component[-1] != node:
                        component.append(open_nodes.pop())
                    is_open.difference_update(component)
                    found.append(component)
            elif child not in seen:
                seen[child] = low[child] = len(seen)
                open_nodes.append(child)
                is_open.add(child)
                path.append((child, iter(edges.get(child, {}))))
            elif child in is_open:
                low[node] = min(low[node], seen[child])
    return found


def _circle(edges: Edges, component: list[str]) -> list[str]:
    """Return a shortest circle through the component's first transaction."""
    inside, start = set(component), component[0]
    came_from: dict[str, str] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for after in edges.get(node, {}):
            if after == start:
                circle = [node]
                while circle[-1] != start:
                    circle.append(came_from[circle[-1]])
                return circle[::-1]
            if after in inside and after not in came_from:
                came_from[after] = node
                queue.append(after)
    raise AssertionError(f"{component} has no circle")
