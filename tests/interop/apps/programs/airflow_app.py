"""Airflow's provider for Kafka: its producer and consumer hooks, as its operators use them."""

import os

from airflow.providers.apache.kafka.operators.consume import ConsumeFromTopicOperator

# The connection kafka_default comes from the environment, as in any Airflow.
operator = ConsumeFromTopicOperator(
    task_id="read",
    topics=[os.environ["SOURCE"]],
    apply_function=lambda message: print(message.value().decode()),
    commit_cadence="end_of_operator",
    max_messages=20,
    poll_timeout=30,
)
operator.execute({})
