"""docs/site.py makes reference pages from the code: what it can't read there is missing on a page."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from controller.core.settings_table import CLUSTER_SETTINGS, TOPIC_SETTINGS
from dataplane.shell.metrics import BrokerCounters, collect_counters

ROOT = Path(__file__).parents[2]


def site_pages() -> ModuleType:
    spec = spec_from_file_location("site_pages", ROOT / "docs/site.py")
    assert spec is not None and spec.loader is not None
    site = module_from_spec(spec)
    spec.loader.exec_module(site)
    return site


def test_every_counter_of_a_broker_is_on_the_page_of_metrics() -> None:
    """It finds calls whose name and text are constants."""
    page = site_pages().metrics()
    names = {family.name for family in collect_counters(BrokerCounters(), now_us=1)}
    assert len(names) > 10
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_the_table_of_kafkas_apis_in_the_document_is_what_the_code_says() -> None:
    assert site_pages().kafka_api_table() in (ROOT / "docs/applications.md").read_text(encoding="utf-8")


def test_every_setting_is_on_the_page_of_configuration_with_what_becomes_of_it() -> None:
    page = site_pages().configuration()
    for name, setting in (TOPIC_SETTINGS | CLUSTER_SETTINGS).items():
        assert f"| `{name}` | {setting.standing.value} |" in page
        assert setting.hint is None or setting.hint.replace("|", "\\|") in page
    assert "| `compression.type` | kept, changes nothing |" in page
