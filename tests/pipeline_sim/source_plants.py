"""Bugs for the simulation to find: each breaks one rule of the source about topics that are made again."""

from __future__ import annotations

from tests.pipeline_sim.source_simulation import SourcePlant

SOURCE_PLANTS: dict[str, SourcePlant] = {
    "offsets without a topic's id": SourcePlant(offsets_know_topics=False),
    "the start without a topic's id": SourcePlant(start_knows_topics=False),
    "plans go on at the old topic's offset": SourcePlant(plans_know_topics=False),
    "tasks ask by name": SourcePlant(tasks_know_topics=False),
    "ids are read after the ends": SourcePlant(ids_before_ends=False),
}
