"""bytewax: a flow from its Kafka source to its Kafka sink."""

import os

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

brokers = os.environ["BOOTSTRAP"].split(",")
flow = Dataflow("shout")
lines = op.input("source", flow, KafkaSource(brokers, [os.environ["SOURCE"]]))
loud = op.map("shout", lines, lambda one: KafkaSinkMessage(None, one.value.upper()))
op.output("target", loud, KafkaSink(brokers, os.environ["TARGET"]))
run_main(flow)
