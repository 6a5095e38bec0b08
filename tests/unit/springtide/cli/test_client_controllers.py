"""Which controller is asked, when again, and under which key."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from springtide.cli.call import get
from springtide.cli.client import Controllers, ListPage, Unreachable
from springtide.cli.settings import Settings, parse_urls
from tests.kit.secret_file import write_secret
from tests.kit.springtide.cli import Network, body_of, in_turn, ok, page, problem, run

TWO = "http://ctl1:8080,http://ctl2:8080"
REFUSED = httpx.ConnectError("Connection refused")
CREATE = ("topics", "create", "orders")


def redirect(location: str) -> httpx.Response:
    return httpx.Response(307, headers={"Location": location})


def test_a_dead_controller_is_passed_over_without_a_pause() -> None:
    ran = run(in_turn(REFUSED, ok({})), "brokers", "show", "1", "--url", TWO)
    assert ran.targets == [
        "GET http://ctl1:8080/clusters/prod/brokers/1",
        "GET http://ctl2:8080/clusters/prod/brokers/1",
    ]
    assert (ran.status, ran.slept, ran.err) == (0, 0.0, "")


def test_who_answered_is_asked_first_from_then_on() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "ctl1":
            raise REFUSED
        items = [{"name": "prod"}] if request.url.path == "/clusters" else []
        return ok({"items": items, "next_page_token": None})

    ran = run(answer, "topics", "list", "--url", TWO, SPRINGTIDE_CLUSTER="")
    assert [request.url.host for request in ran.asked] == ["ctl1", "ctl2", "ctl2"]


def test_a_write_whose_connection_was_lost_is_sent_again_under_its_key() -> None:
    lost = httpx.ReadError("connection reset")
    ran = run(
        in_turn(lost, httpx.ReadTimeout("silence"), lost, ok({"name": "orders"}, 201)), *CREATE, "--url", TWO
    )
    assert ran.status == 0
    assert [request.url.host for request in ran.asked] == ["ctl1", "ctl2", "ctl1", "ctl2"]
    assert len(set(ran.keys)) == 1
    assert ran.keys[0]
    assert len({request.content for request in ran.asked}) == 1


def test_two_writes_never_share_a_key() -> None:
    answer = in_turn(ok({}, 201))
    assert run(answer, *CREATE).keys != run(answer, *CREATE).keys


def test_a_standby_sends_the_whole_write_on() -> None:
    ran = run(in_turn(redirect("http://ctl2:8080/clusters/prod/topics?x=1"), ok({}, 201)), *CREATE)
    assert ran.targets[1] == "POST http://ctl2:8080/clusters/prod/topics?x=1"
    assert body_of(ran.asked[1]) == {"name": "orders", "configs": {}}
    assert ran.keys[0] == ran.keys[1]


def test_a_redirect_to_a_controller_that_died_is_retried_until_there_is_a_new_one() -> None:
    answers = in_turn(redirect("http://ctl2:8080/x"), REFUSED, ok({}, 201))
    ran = run(answers, *CREATE)
    assert (ran.status, len(ran.asked)) == (0, 3)
    assert "http://ctl1:8080: Connection refused; trying for up to 15 s" in ran.err


def test_a_circle_of_redirects_ends() -> None:
    ran = run(in_turn(redirect("/clusters/prod/topics")), *CREATE, "--timeout", "0")
    assert (ran.status, len(ran.asked)) == (3, 6)
    assert "more than 5 redirects" in ran.err


def test_a_token_is_not_carried_from_https_to_http(tmp_path: Path) -> None:
    token = write_secret(tmp_path / "token", "s3cret\n")
    ran = run(
        in_turn(redirect("http://ctl2:8080/clusters/prod/topics")),
        *CREATE,
        *("--url", "https://ctl1", "--timeout", "0", "--token-file", str(token)),
    )
    assert [request.headers["authorization"] for request in ran.asked] == ["Bearer s3cret"]
    assert (ran.status, ran.asked[0].url.scheme) == (3, "https")
    assert "redirected from https to http" in ran.err


def test_a_token_goes_with_a_redirect_and_names_its_holder_itself(tmp_path: Path) -> None:
    token = write_secret(tmp_path / "token", "s3cret\n")
    answers = in_turn(redirect("http://ctl2:8080/clusters/prod/topics"), ok({}, 201))
    ran = run(answers, *CREATE, SPRINGTIDE_TOKEN_FILE=str(token))
    assert [request.headers["authorization"] for request in ran.asked] == ["Bearer s3cret"] * 2
    assert "x-actor" not in ran.asked[0].headers


@pytest.mark.parametrize("contents", ["", "two words", "line\nline", "\x00", "é"])
def test_what_is_no_token_is_not_sent_and_not_printed(tmp_path: Path, contents: str) -> None:
    token = write_secret(tmp_path / "token", contents)
    ran = run(in_turn(ok({})), "clusters", "list", "--token-file", str(token))
    assert (ran.status, ran.asked) == (2, [])
    assert ran.err == f"springtide: --token-file: there is no bearer token in {str(token)!r}\n"


def test_a_token_that_others_can_read_is_not_sent(tmp_path: Path) -> None:
    token = write_secret(tmp_path / "token", "s3cret\n")
    token.chmod(0o644)
    ran = run(in_turn(ok({})), "clusters", "list", "--token-file", str(token))
    assert (ran.status, ran.asked) == (2, [])
    assert ran.err.endswith(f"chmod 600 {token}\n")


def test_a_token_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    ran = run(in_turn(ok({})), "clusters", "list", "--token-file", str(tmp_path / "none"))
    assert (ran.status, ran.asked) == (2, [])


@pytest.mark.parametrize(
    "not_now",
    [
        problem(503, "no_active_controller"),
        problem(504, "outcome_unknown"),
        problem(409, "idempotency_key_in_progress"),
        httpx.Response(502, text="a proxy"),
    ],
)
def test_not_now_is_asked_again_under_the_same_key(not_now: httpx.Response) -> None:
    ran = run(in_turn(not_now, not_now, ok({}, 201)), *CREATE)
    assert (ran.status, len(ran.asked), len(set(ran.keys))) == (0, 3, 1)
    assert 0 < ran.slept < 1
    assert ran.err.count("trying for up to") == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412, 422, 428, 500])
def test_a_no_is_final(status: int) -> None:
    ran = run(in_turn(problem(status, "partition_changed", retryable=True)), *CREATE)
    assert (ran.status, len(ran.asked), ran.slept) == (1, 1, 0.0)


def test_silence_ends_at_the_timeout_and_names_the_key_that_makes_a_repetition_safe() -> None:
    silent = httpx.ReadTimeout("no answer")
    ran = run(in_turn(silent), *CREATE, "--timeout", "3", "--url", TWO)
    assert ran.status == 3
    assert ran.slept == pytest.approx(3)
    assert "http://ctl1:8080: no answer; http://ctl2:8080: no answer" in ran.err
    assert f"repeat it with --idempotency-key {ran.keys[0]} to find out" in ran.err


def test_a_write_that_reached_no_controller_was_not_made() -> None:
    ran = run(in_turn(REFUSED), *CREATE, "--timeout", "1", "--url", TWO)
    assert "http://ctl1:8080: Connection refused; http://ctl2:8080: Connection refused" in ran.err
    assert "may have been done" not in ran.err
    assert run(in_turn(problem(503, "no_active_controller"), REFUSED), *CREATE, "--timeout", "1").err.count(
        "may have been done"
    ), "one that was answered with not now may have been"


def test_a_read_that_nobody_answers_leaves_nothing_to_find_out() -> None:
    ran = run(in_turn(REFUSED), "brokers", "show", "1", "--timeout", "0")
    assert (ran.status, len(ran.asked)) == (3, 1)
    assert "idempotency-key" not in ran.err


def test_not_now_until_the_timeout_is_unreachable_and_says_why() -> None:
    ran = run(in_turn(problem(503, "audit_unavailable", hint="wait")), *CREATE, "--timeout", "1")
    assert ran.status == 3
    assert "It can't be (audit_unavailable, 503)" in ran.err
    assert f"--idempotency-key {ran.keys[0]}" in ran.err


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items": 3}', b"", b'{"\xff": 1}'])
def test_whoever_is_no_controller_is_told_apart(body: bytes) -> None:
    ran = run(in_turn(httpx.Response(200, content=body)), "topics", "list")
    assert ran.status == 3
    assert "no controller of Springtide" in ran.err
    assert "Traceback" not in ran.err


def test_pauses_grow_to_a_bound() -> None:
    network = Network(in_turn(REFUSED))
    ran = network.run(*CREATE, "--timeout", "60")
    assert len(ran.asked) < 40
    assert ran.slept == pytest.approx(60)


def test_addresses_are_taken_as_kafka_takes_them() -> None:
    assert [str(url) for url in parse_urls("ctl1:8080, https://ctl2/api/")] == [
        "http://ctl1:8080",
        "https://ctl2/api/",
    ]
    ran = run(in_turn(ok({})), "brokers", "show", "1", "--url", "https://proxy/api/")
    assert ran.targets == ["GET https://proxy/api/clusters/prod/brokers/1"]


@pytest.mark.parametrize(
    "url", ["", ",", "ftp://ctl1", "http://", "http://u:p@ctl1", "http://ctl1?x=1", "http://a:b"]
)
def test_what_is_no_address_is_a_usage_error(url: str) -> None:
    ran = run(in_turn(ok({})), "clusters", "list", "--url", url or ",")
    assert (ran.status, ran.asked) == (2, [])


def test_the_only_cluster_is_found_and_several_are_not_guessed_among() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        names = (
            ["prod"] if request.url.host == "one" else ["prod", "test"] if request.url.host == "two" else []
        )
        if request.url.path == "/clusters":
            return ok({"items": [{"name": name} for name in names], "next_page_token": None})
        return ok({})

    found = run(answer, "topics", "show", "t", "--url", "one", SPRINGTIDE_CLUSTER="")
    assert found.targets == ["GET http://one/clusters?limit=2", "GET http://one/clusters/prod/topics/t"]
    several = run(answer, "topics", "show", "t", "--url", "two", SPRINGTIDE_CLUSTER="")
    assert (several.status, len(several.asked)) == (2, 1)
    assert "choose one with --cluster" in several.err
    chosen = run(answer, "--cluster", "test", "topics", "show", "t", "--url", "two")
    assert chosen.targets == ["GET http://two/clusters/test/topics/t"]
    none = run(answer, "topics", "show", "t", "--url", "none", SPRINGTIDE_CLUSTER="")
    assert none.status == 2
    assert "there is no cluster yet" in none.err


def active_only(
    *answers: httpx.Response | Exception, timeout_s: float = 0.0
) -> tuple[Controllers, list[str]]:
    """A client of two controllers, and which of them it asked."""
    asked: list[str] = []
    answer = in_turn(*answers)

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return answer(request)

    settings = Settings(
        urls=parse_urls(TWO), cluster=None, token=None, actor=None, is_json=False, timeout_s=timeout_s
    )
    client = httpx.Client(transport=httpx.MockTransport(handle))
    return Controllers(client, settings, make_key=lambda: "k", note=lambda line: None), asked


def test_what_a_standby_can_not_know_is_asked_of_the_next_one() -> None:
    call = replace(get("clusters", "prod", "partitions"), needs_active=True)
    standby, active = ok({"items": [], "x": 1}, Data_Age_Ms="7"), page([{"n": 1}])
    controllers, asked = active_only(standby, active)
    assert [reply.parse(ListPage).items for reply in controllers.pages(call, page_limit=10, limit=None)] == [
        [{"n": 1}]
    ]
    assert asked == ["ctl1", "ctl2"]
    controllers, asked = active_only(standby, standby)
    with pytest.raises(Unreachable, match=r"ctl1:8080: is a standby; http://ctl2:8080: is a standby"):
        controllers.send(call)


COPY = ok({"broker_id": 1, "state": "waiting"}, Data_Age_Ms="7")
SHOW = ("brokers", "show", "1", "--url", TWO, "--output", "json")


def test_a_standbys_copy_may_be_older_than_the_users_own_write_so_the_active_one_is_asked() -> None:
    ran = run(in_turn(COPY, ok({"broker_id": 1, "state": "active"})), *SHOW)
    assert [request.url.host for request in ran.asked] == ["ctl1", "ctl2"]
    assert json.loads(ran.out)["state"] == "active"
    assert (ran.status, ran.slept, ran.err) == (0, 0.0, "")


@pytest.mark.parametrize("other", [REFUSED, COPY, problem(503, "no_active_controller")])
@pytest.mark.parametrize("copy_first", [True, False])
def test_where_no_other_has_an_answer_a_standbys_copy_is_one(
    other: httpx.Response | Exception, copy_first: bool
) -> None:
    ran = run(in_turn(*((COPY, other) if copy_first else (other, COPY))), *SHOW)
    assert json.loads(ran.out)["state"] == "waiting"
    assert (ran.status, ran.slept, len(ran.asked)) == (0, 0.0, 2)
