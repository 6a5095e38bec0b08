"""What Spark shows of a query's options has no password in it."""

from __future__ import annotations

from typing import Any

import pytest

SECRET = "s3cret-of-alice"
OPTIONS = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": SECRET,
}


def test_plans_and_errors_show_no_password(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    reader = spark.read.format("springtide").options(**OPTIONS, **{"kafkaConsumer.pollTimeoutMs": "1"})
    frame = reader.option("subscribe", "t").load()
    frame.explain(mode="extended")
    frame.explain(mode="formatted")
    shown = capsys.readouterr().out
    assert "springtide" in shown.lower()
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as unread:
        frame.collect()
    writer = spark.range(1).selectExpr("cast(id as string) as value").write.format("springtide")
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as unwritten:
        writer.options(**OPTIONS, topic="t").mode("append").save()
    assert SECRET not in shown + str(unread.value) + str(unwritten.value)
