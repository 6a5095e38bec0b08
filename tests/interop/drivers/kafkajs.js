// The driver of KafkaJS: one request a line in, one answer a line out (rows.py).
"use strict";
const readline = require("node:readline");
const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require("kafkajs");

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };

class Absent extends Error {}

const kafka = (asked) =>
  new Kafka({ brokers: asked.bootstrap.split(","), logLevel: logLevel.NOTHING, retry: { retries: 5 } });

async function using(part, call) {
  await part.connect();
  try {
    return await call(part);
  } finally {
    await part.disconnect();
  }
}

const byAdmin = (call) => (asked) => using(kafka(asked).admin(), (admin) => call(admin, asked));

const calls = {
  version: () => require("kafkajs/package.json").version,
  connect: byAdmin(async (admin) => (await admin.describeCluster()).brokers.length),
  list_topics: byAdmin((admin) => admin.listTopics()),
  create: byAdmin(async (admin, asked) => {
    const size = { numPartitions: asked.partitions, replicationFactor: asked.replication_factor };
    await admin.createTopics({ topics: [{ topic: asked.topic, ...size }] });
  }),
  delete: byAdmin((admin, asked) => admin.deleteTopics({ topics: [asked.topic] })),
  describe_configs: byAdmin(async (admin, asked) => {
    const which = { type: ConfigResourceTypes.TOPIC, name: asked.topic, configNames: [asked.setting] };
    const told = await admin.describeConfigs({ resources: [which] });
    return told.resources[0].configEntries[0].configValue;
  }),
  alter_configs: byAdmin(async (admin, asked) => {
    const configEntries = [{ name: asked.setting, value: asked.value }];
    const change = { type: ConfigResourceTypes.TOPIC, name: asked.topic, configEntries };
    await admin.alterConfigs({ resources: [change] });
  }),
  delete_records: byAdmin(async (admin, asked) => {
    // Without this it does not know the topic's leaders: "Topic metadata not loaded".
    await admin.fetchTopicOffsets(asked.topic);
    const partitions = [{ partition: 0, offset: String(asked.offset) }];
    await admin.deleteTopicRecords({ topic: asked.topic, partitions });
  }),
  offset_by_time: byAdmin(async (admin, asked) => {
    const told = await admin.fetchTopicOffsetsByTimestamp(asked.topic, asked.timestamp_ms);
    return Number(told[0].offset);
  }),
  produce: (asked) => {
    if (!(asked.codec in CODECS)) throw new Absent(`${asked.codec} is in packages of its own`);
    const messages = Array.from({ length: asked.count }, (_, n) => ({ key: `k${n}`, value: `value ${n}` }));
    const producer = kafka(asked).producer({ idempotent: asked.idempotent });
    return using(producer, async () => {
      await producer.send({ topic: asked.topic, acks: -1, compression: CODECS[asked.codec], messages });
    });
  },
  fetch: () => {
    throw new Absent("it reads in consumer groups only");
  },
};

async function answer(asked) {
  if (!(asked.call in calls)) return { absent: "" };
  try {
    return { value: (await calls[asked.call](asked)) ?? null };
  } catch (error) {
    if (error instanceof Absent) return { absent: error.message };
    return { error: `${error.name}: ${error.message}` };
  }
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await answer(JSON.parse(line))) + "\n");
  }
  process.exit(0);
})();
