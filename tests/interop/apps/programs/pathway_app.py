"""Pathway: a table that is read from a topic and written to another."""

import os

import pathway as pw

settings = {"bootstrap.servers": os.environ["BOOTSTRAP"], "group.id": os.environ["GROUP"]}
lines = pw.io.kafka.read(settings, topic=os.environ["SOURCE"], format="plaintext", autocommit_duration_ms=100)
loud = lines.select(data=lines.data.str.upper())
pw.io.kafka.write(loud, settings, topic_name=os.environ["TARGET"], format="plaintext")
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
