"""Users, ACLs, quotas and the question why, on the operator's page."""

from __future__ import annotations

import pytest

from tests.kit.admin_api.canned import CannedController
from tests.kit.chromium import DESK, Browser, until
from tests.kit.console import do_it, fill, look, open_action

pytestmark = pytest.mark.timeout(600)

PHONE = 375
HOSTILE = '<img src="/x" onerror="document.title=1">'
ACLS = "/clusters/prod/acls"


def address(browser: Browser) -> str:
    return str(browser.driver.execute_script("return location.hash"))


def choose(browser: Browser, field: str, text: str) -> None:
    """Type into a filter, and leave it."""
    from selenium.webdriver.common.keys import Keys

    browser.driver.find_element("id", f"filter-{field}").send_keys(text, Keys.TAB)


def test_users_are_listed_with_their_mechanisms_and_lead_to_their_acls(
    browser: Browser, canned: CannedController
) -> None:
    from selenium.webdriver.common.keys import Keys

    users = canned.example("/clusters/prod/users")
    (billing,) = users["items"]
    hostile = {**billing, "user": HOSTILE, "mechanisms": billing["mechanisms"][:1], "last_change": None}
    canned.put("/clusters/prod/users", {**users, "items": [billing, hostile]})
    browser.look(width=DESK, dark=False)
    browser.open(f"{canned.url}/#prod")
    until("the tabs", lambda: browser.texts("#views a"))
    browser.driver.find_element("css selector", "#views a[href='#prod/access']").send_keys(Keys.ENTER)
    until("the users", lambda: browser.texts("#view tbody th") == ["billing", HOSTILE])
    assert browser.texts("#view tbody .badge") == ["SCRAM-SHA-256", "SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert browser.texts("#view .path a") == ["Users", "ACLs", "Quotas", "May it?"]
    browser.screenshot("console-access")
    browser.requests()
    choose(browser, "prefix", "bil")
    until("the filter", lambda: any("users?limit=500&prefix=bil" in asked for asked in browser.requests()))
    assert address(browser) == "#prod/access?prefix=bil"
    browser.driver.find_element("css selector", "#view tbody a").send_keys(Keys.ENTER)
    until("its ACLs", lambda: browser.text("#view-title") == "ACLs")
    until("asked for", lambda: any("acls?limit=500&principal=User" in asked for asked in browser.requests()))
    assert browser.driver.find_element("id", "filter-principal").get_attribute("value") == "User:billing"
    assert browser.complaints() == []


def test_acls_say_when_they_decide_nothing(browser: Browser, canned: CannedController) -> None:
    configs = canned.example("/clusters/prod/configs")
    off = {**configs["items"][0], "name": "authorizer.class.name", "value": ""}
    canned.put("/clusters/prod/configs", {**configs, "items": [off]})
    browser.look(width=DESK, dark=True)
    browser.open(f"{canned.url}/#prod/access/acls")
    until("the list", lambda: len(browser.texts("#view tbody tr")) == 2)
    assert "They decide nothing yet" in browser.text("#view .body")
    browser.screenshot("console-acls-dark")
    on = {**off, "value": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    canned.put("/clusters/prod/configs", {**configs, "items": [on]})
    until("they decide", lambda: "They decide nothing" not in browser.text("#view .body"))


def test_what_a_role_may_not_see_is_said(browser: Browser, canned: CannedController) -> None:
    refused = {"status": 403, "detail": "this takes the role operator", "hint": "use another token"}
    canned.put("/clusters/prod/users", refused, status=403)
    browser.look(width=PHONE, dark=False)
    browser.open(f"{canned.url}/#prod/access")
    until("the refusal", lambda: "This takes the role operator." in browser.text("#view .body"))
    assert browser.text("#connection").startswith("Active"), "the controller is well"


def test_each_change_is_shown_before_it_is_made(browser: Browser, canned: CannedController) -> None:
    browser.look(width=PHONE, dark=False)
    users, billing = "/clusters/prod/users/alice", "/clusters/prod/users/billing"
    acl = canned.example(ACLS)["items"][0]
    bindings = [
        {**acl, "principal": "User:alice", "resource_name": "orders", "operation": operation}
        for operation in ("read", "describe_configs")
    ]
    both = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    removed = {"resource_type": "topic", "resource_name": "payments", "pattern_type": "match"}
    quotas = {"user": "billing", "quotas": {"producer_byte_rate": None, "request_percentage": 12.5}}
    cases: list[tuple[str, str, dict[str, str | None], str, str, object]] = [
        (
            "access",
            "Add a user",
            {"user": "alice", "password": " a secret "},
            "Let billing log in with this password, by SCRAM-SHA-256 and SCRAM-SHA-512",
            users,
            {"password": " a secret ", "mechanisms": both},
        ),
        (
            "access",
            "Set password: billing",
            {"password": "x"},
            "Let billing log in",
            billing,
            {"password": "x", "mechanisms": both},
        ),
        ("access", "Delete: billing", {}, "Delete the user billing", billing, None),
        (
            "access/acls?principal=User:alice",
            "Add ACLs",
            {"operations": "Read, describe configs", "resource_name": "orders", "prefixed": None},
            "User:billing is allowed read on group billing",
            ACLS,
            {"bindings": bindings},
        ),
        (
            "access/acls",
            "Remove: User:billing is allowed read on each topic that begins with payments",
            {},
            "Remove 2 ACLs",
            f"{ACLS}:delete",
            acl,
        ),
        (
            "access/acls?resource_type=topic&resource_name=payments&pattern_type=match",
            "Remove what is listed",
            {},
            "Remove 2 ACLs",
            f"{ACLS}:delete",
            removed,
        ),
        (
            "access/quotas",
            "Change: user billing",
            {"producer_byte_rate": "", "request_percentage": "12.5"},
            "Leave user billing with these quotas",
            "/clusters/prod/quotas:alter",
            {"entities": [quotas]},
        ),
    ]
    for view, name, filled, seen, path, body in cases:
        canned.changes.clear()
        open_action(browser, f"{canned.url}/#prod/{view}", name)
        for field, text in filled.items():
            if text is None:
                browser.driver.find_element("id", f"action-{field}").click()
            else:
                fill(browser, field, text)
        assert seen in look(browser), name
        wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= PHONE, f"a phone would scroll sideways: {name}"
        if name == "Add ACLs":
            browser.screenshot("console-add-acls-phone")
        assert do_it(browser).startswith("Done."), name
        dry, real = canned.changes
        assert "dry_run=true" in dry[1], name
        assert real[1] == path, name
        assert dry[2] == real[2] == body, "the change is what was shown"
    assert browser.complaints() == []


def test_the_page_says_why_a_principal_may_not_do_something(
    browser: Browser, canned: CannedController
) -> None:
    from selenium.webdriver.common.keys import Keys

    explained = canned.example(f"{ACLS}:explain")
    acl = {**explained["binding"], "principal": "User:billing", "host": "*", "operation": "write"}
    canned.put(f"{ACLS}:explain", {**explained, "add": {**acl, "permission": "allow"}})
    browser.look(width=PHONE, dark=False)
    browser.open(f"{canned.url}/#prod/access/explain")
    until("the form", lambda: "what would have to change" in browser.text("#view .body"))
    browser.driver.find_element("id", "filter-principal").send_keys("User:billing")
    browser.driver.find_element("id", "filter-operation").send_keys("write")
    browser.driver.find_element("id", "filter-resource_name").send_keys("payments", Keys.ENTER)
    until("the answer", lambda: "It may not." in browser.text("#view .body"))
    asked = "principal=User%3Abilling&operation=write&resource_type=topic&resource_name=payments"
    assert address(browser) == f"#prod/access/explain?{asked}"
    assert "a binding denies each user from 10.0.0.7 everything" in browser.text("#view .body")
    assert browser.texts("#view .reasons li") == [
        "each user is denied everything on each topic that begins with payments, from 10.0.0.7",
        "User:billing is allowed write on each topic that begins with payments",
    ]
    wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= PHONE, "a phone would scroll sideways"
    browser.screenshot("console-explain-phone")
    browser.driver.refresh()
    until("the same after a reload", lambda: "It may not." in browser.text("#view .body"))
    assert browser.complaints() == []
