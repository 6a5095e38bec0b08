"""Quix Streams: a dataframe from topic to topic. Its arguments, if any: the processing guarantee."""

import os
import sys

from quixstreams import Application

guarantee = {"processing_guarantee": sys.argv[1]} if len(sys.argv) > 1 else {}
app = Application(os.environ["BOOTSTRAP"], consumer_group=os.environ["GROUP"], **guarantee)
source = app.topic(os.environ["SOURCE"], value_deserializer="string")
target = app.topic(os.environ["TARGET"], value_serializer="string")
app.dataframe(source).apply(str.upper).to_topic(target)
app.run()
