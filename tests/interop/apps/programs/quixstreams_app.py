"""Quix Streams: a dataframe from topic to topic."""

import os

from quixstreams import Application

app = Application(broker_address=os.environ["BOOTSTRAP"], consumer_group=os.environ["GROUP"])
source = app.topic(os.environ["SOURCE"], value_deserializer="string")
target = app.topic(os.environ["TARGET"], value_serializer="string")
app.dataframe(source).apply(str.upper).to_topic(target)
app.run()
