"""Rows of ACLs, users and quotas survive their encoding, and can be read by a person."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.records import SecurityRecord
from controller.shell.kept_fields import WrittenByNewer
from controller.shell.security_rows import encode_security, folder_of, read_security, security_path
from springtide.contract.security import QuotaEntity
from tests.kit.controller.security import SHA_256, acls_record, group_record, quotas_record, user_record

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)
RATES = st.floats(min_value=0.5, max_value=2.0**63, allow_nan=False)
RECORDS: st.SearchStrategy[SecurityRecord] = st.one_of(
    st.builds(lambda user: user_record(user, SHA_256), NAMES),
    st.builds(lambda group_id: group_record(group_id, interval="5"), NAMES),
    st.builds(
        lambda user, client_id, rate: quotas_record(
            QuotaEntity(user=user, client_id=client_id), request_percentage=rate
        ),
        NAMES,
        st.none() | NAMES,
        RATES,
    ),
)


@given(RECORDS, st.integers(min_value=0, max_value=2**53))
def test_a_row_is_read_back_as_it_was(record: SecurityRecord, version: int) -> None:
    assert read_security("/x", folder_of(record), encode_security(record, version)) == (record, version)


def test_a_row_of_acls_has_kafkas_words() -> None:
    record = acls_record("orders", "DENY bob@10.0.0.1 WRITE")
    row = json.loads(encode_security(record, 7))
    assert row["acls"] == {
        "resource_type": "TOPIC",
        "pattern_type": "LITERAL",
        "resource_name": "orders",
        "bindings": [["User:bob", "10.0.0.1", "WRITE", "DENY"]],
    }
    assert (row["version"], row["change"]["actor"]) == (7, "ann")
    assert read_security("/x", "acls", json.dumps(row).encode()) == (record, 7)
    assert security_path("prod", record) == "/clusters/prod/acls/topic:literal:orders"


def test_a_word_that_is_not_known_is_reported() -> None:
    data = encode_security(acls_record("a", "ALLOW alice@* READ"), 1).replace(b'"READ"', b'"GUESS"')
    with pytest.raises(WrittenByNewer, match="GUESS"):
        read_security("/x", "acls", data)
