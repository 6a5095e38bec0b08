"""The brokers on a host or in a rack, and a summary of the effects of losing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from admin_api.problem import FieldProblem, ProblemError
from admin_api.resilience.models import ResilienceSummary, worst_loss_view
from controller.core.image import ClusterImage
from controller.core.resilience import worst_loss


def brokers_lost(image: ClusterImage, terms: Sequence[str]) -> tuple[int, ...]:
    """Return the ids of all brokers that the terms name, ascending. Raise ProblemError for a term that names
    no broker: it is more likely a typing error than a question."""
    lost: dict[int, None] = {}
    unknown: list[FieldProblem] = []
    for term in terms:
        found = [b for b, name in _named(image, term.partition(":")[0]).items() if name == _canonical(term)]
        if not found:
            unknown.append(FieldProblem(parameter="lose", message=f"{term}: no registered broker is that"))
        lost |= dict.fromkeys(found)
    if unknown:
        raise ProblemError("unknown_broker", f"lose: {unknown[0].message}", errors=tuple(unknown))
    return tuple(sorted(lost))


def summary(image: ClusterImage) -> ResilienceSummary:
    """Return the summary. Hosts and racks are included only if brokers share them: otherwise the summary of
    brokers already covers them."""
    return ResilienceSummary(
        broker=worst_loss_view(worst_loss(image, _named(image, "broker"))),
        host=worst_loss_view(worst_loss(image, _shared(_named(image, "host")))),
        rack=worst_loss_view(worst_loss(image, _shared(_named(image, "rack")))),
    )


def _canonical(term: str) -> str:
    kind, _, name = term.partition(":")
    return f"broker:{int(name)}" if kind == "broker" else term


def _named(image: ClusterImage, kind: str) -> dict[int, str]:
    """Return, by broker, the term that names the broker, its host or its rack. Brokers without a rack have no
    rack term."""
    brokers = image.brokers.values()
    match kind:
        case "broker":
            return {b.broker_id: f"broker:{b.broker_id}" for b in brokers}
        case "host":
            return {b.broker_id: f"host:{b.host}" for b in brokers}
        case _:
            return {b.broker_id: f"rack:{b.rack}" for b in brokers if b.rack is not None}


def _shared(named: Mapping[int, str]) -> Mapping[int, str]:
    return named if len(set(named.values())) < len(named) else {}
