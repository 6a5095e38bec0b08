"""The figures, for people, and for the proof's table."""

from __future__ import annotations

from tests.hostile.sweep import Result
from tests.proof.part import Figure, Part, save

NAME = "rest"
CODES_SHOWN = 60


def print_report(result: Result) -> int:
    """Exit status."""
    part = part_of(result)
    save(part)
    tally = result.tally
    for name, figure in part.figures.items():
        print(f"{name}: {figure:,}" if isinstance(figure, int) else f"{name}: {figure}")
    print("answers: " + ", ".join(f"{status}: {count:,}" for status, count in sorted(tally.statuses.items())))
    codes = ", ".join(f"{code} {count:,}" for code, count in tally.codes.most_common(CODES_SHOWN))
    print(f"refusals: {codes}")
    never = [label for label in result.labels if tally.asked[label] and not tally.accepted[label]]
    print(f"never accepted: {', '.join(never) or 'none'}")
    for finding in tally.findings.found.values():
        print(f"\n{finding.label}: {finding.title} ({finding.count} times)")
        print(f"    {finding.detail}\n    {finding.example}")
        print(f'    again: python -m tests.hostile --seed {result.seed} --only "{finding.label}"')
    for line in result.broken:
        print(f"\nbroken: {line}")
    print(f"\n{'holds' if part.is_ok else 'DOES NOT HOLD'} in {result.seconds:.0f} s")
    return 0 if part.is_ok else 1


def part_of(result: Result) -> Part:
    tally = result.tally
    figures: dict[str, Figure] = {
        "operations": len(result.labels),
        "cases": tally.cases,
        "cases the document allows": tally.positive,
        "cases it does not": tally.negative,
        "answers 2xx": sum(count for status, count in tally.statuses.items() if 200 <= status < 300),
        "answers 4xx": sum(count for status, count in tally.statuses.items() if 400 <= status < 500),
        "answers 5xx": sum(count for status, count in tally.statuses.items() if status >= 500),
        "kinds of refusal": len(tally.codes),
        "operations accepted at least once": sum(1 for label in result.labels if tally.accepted[label]),
        "worlds": tally.worlds,
        "requests held against the audit": tally.rows,
    }
    failures = [
        f"{finding.label}: {finding.title}: {finding.detail}"[:500]
        for finding in tally.findings.found.values()
    ]
    return Part(name=NAME, seconds=result.seconds, figures=figures, failures=[*failures, *result.broken])
