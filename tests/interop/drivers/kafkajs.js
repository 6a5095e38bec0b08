// The driver of KafkaJS: one request a line in, one answer a line out (rows.py).
"use strict";
const fs = require("node:fs");
const readline = require("node:readline");
const {
  Kafka,
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  CompressionTypes,
  ConfigResourceTypes,
  ResourcePatternTypes,
  logLevel,
} = require("kafkajs");

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };

class Absent extends Error {}

// How it gets in where the request says so (security.py).
function logIn(login) {
  if (!login) return {};
  const ssl = { ca: [fs.readFileSync(login.ca)] };
  if (login.identity) ssl.key = ssl.cert = fs.readFileSync(login.identity);
  if (!login.mechanism) return { ssl };
  const mechanism = login.mechanism.toLowerCase();
  const oauthBearerProvider = async () => ({ value: login.token });
  const { user: username, password } = login;
  return { ssl, sasl: login.token ? { mechanism, oauthBearerProvider } : { mechanism, username, password } };
}

const kafka = (asked) =>
  new Kafka({
    brokers: asked.bootstrap.split(","),
    logLevel: logLevel.NOTHING,
    retry: { retries: 5 },
    ...logIn(asked.login),
  });

const topicOf = (asked) => ({
  resourceType: AclResourceTypes.TOPIC,
  resourceName: asked.topic,
  resourcePatternType: ResourcePatternTypes.LITERAL,
});

const aclsOf = (asked) => ({
  ...topicOf(asked),
  operation: AclOperationTypes.ANY,
  permissionType: AclPermissionTypes.ANY,
});

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
  transact: (asked) =>
    using(transactional(asked), async (producer) => {
      await (await write(producer, asked, "lost")).abort();
      await (await write(producer, asked, "value")).commit();
    }),
  fetch_committed: async (asked) => {
    const consumer = kafka(asked).consumer({ groupId: asked.group }); // of committed records, by default
    const found = [];
    return using(consumer, async () => {
      await consumer.subscribe({ topic: asked.topic, fromBeginning: true });
      const eachMessage = async ({ message }) => void found.push([String(message.key), String(message.value)]);
      await consumer.run({ autoCommit: false, eachMessage });
      await until(`${asked.count} records`, () => found.length >= asked.count);
      return found;
    });
  },
  copy: (asked) => {
    const consumer = kafka(asked).consumer({ groupId: asked.group });
    return using(transactional(asked), (producer) =>
      using(consumer, async () => {
        await consumer.subscribe({ topic: asked.topic, fromBeginning: true });
        const found = [];
        const eachMessage = async ({ message }) => void found.push({ key: message.key, value: message.value, partition: 1 });
        await consumer.run({ autoCommit: false, eachMessage });
        await until(`${asked.count} records`, () => found.length >= asked.count);
        const transaction = await producer.transaction();
        await transaction.send({ topic: asked.topic, acks: -1, messages: found.slice(0, asked.count) });
        const partitions = [{ partition: 0, offset: String(asked.count) }];
        await transaction.sendOffsets({ consumerGroupId: asked.group, topics: [{ topic: asked.topic, partitions }] });
        await transaction.commit();
      }),
    );
  },
  take_over: (asked) =>
    using(transactional(asked), async (first) => {
      const left = await write(first, asked, "lost");
      await using(transactional(asked), async (second) => (await write(second, asked, "value")).commit());
      try {
        await left.commit();
        return false;
      } catch {
        return true;
      }
    }),
  group_share: groupShare,
  group_resume: async (asked) => {
    await readAndCommit(asked, asked.offset);
    return readAndCommit(asked, asked.count - asked.offset);
  },
  list_groups: byAdmin(async (admin) => (await admin.listGroups()).groups.map((group) => group.groupId)),
  describe_group: byAdmin(async (admin, asked) => {
    const told = (await admin.describeGroups([asked.group])).groups[0];
    return { state: told.state, members: told.members.length };
  }),
  group_offsets: byAdmin(async (admin, asked) => {
    const told = await admin.fetchOffsets({ groupId: asked.group, topics: [asked.topic] });
    return Number(told[0].partitions[0].offset);
  }),
  reset_group: byAdmin(async (admin, asked) => {
    const partitions = [{ partition: 0, offset: String(asked.offset) }];
    await admin.setOffsets({ groupId: asked.group, topic: asked.topic, partitions });
  }),
  delete_group: byAdmin(async (admin, asked) => {
    await admin.deleteGroups([asked.group]);
  }),
  create_acl: byAdmin(async (admin, asked) => {
    const may = { operation: AclOperationTypes.READ, permissionType: AclPermissionTypes.ALLOW };
    await admin.createAcls({ acl: [{ ...topicOf(asked), principal: asked.principal, host: "*", ...may }] });
  }),
  describe_acls: byAdmin(async (admin, asked) => {
    const told = (await admin.describeAcls(aclsOf(asked))).resources.flatMap((one) => one.acls);
    const name = (code) => Object.keys(AclOperationTypes).find((one) => AclOperationTypes[one] === code);
    return told.map((one) => [one.principal, name(one.operation)]);
  }),
  delete_acl: byAdmin(async (admin, asked) => {
    await admin.deleteAcls({ filters: [aclsOf(asked)] });
  }),
};

async function until(what, isSo) {
  const deadline = Date.now() + 60000;
  while (!isSo()) {
    if (Date.now() > deadline) throw new Error(`after 60 s still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const transactional = (asked) =>
  kafka(asked).producer({ transactionalId: asked.group, idempotent: true, maxInFlightRequests: 1 });

async function write(producer, asked, word) {
  const transaction = await producer.transaction();
  const messages = Array.from({ length: asked.count }, (_, n) => {
    return { key: `k${n}`, value: `${word} ${n}`, partition: 0 };
  });
  await transaction.send({ topic: asked.topic, acks: -1, messages });
  return transaction;
}

async function member(asked) {
  const consumer = kafka(asked).consumer({ groupId: asked.group, heartbeatInterval: 500 });
  const told = { partitions: [], leave: () => consumer.disconnect() };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    told.partitions = [...(payload.memberAssignment[asked.topic] || [])].sort();
  });
  await consumer.connect();
  await consumer.subscribe({ topic: asked.topic, fromBeginning: true });
  await consumer.run({ eachMessage: async () => {} });
  return told;
}

async function groupShare(asked) {
  const first = await member(asked);
  try {
    const second = await member(asked);
    let together;
    try {
      await until("each has one", () => first.partitions.length === 1 && second.partitions.length === 1);
      together = [first.partitions, second.partitions].sort();
    } finally {
      await second.leave();
    }
    await until("the first has both", () => first.partitions.length === 2);
    return { together, alone: first.partitions };
  } finally {
    await first.leave();
  }
}

async function readAndCommit(asked, count) {
  const consumer = kafka(asked).consumer({ groupId: asked.group });
  const found = [];
  return using(consumer, async () => {
    await consumer.subscribe({ topic: asked.topic, fromBeginning: true });
    let next = "0";
    const eachMessage = async ({ message }) => {
      if (found.length === count) return;
      found.push([String(message.key), String(message.value)]);
      next = String(Number(message.offset) + 1);
    };
    await consumer.run({ autoCommit: false, eachMessage });
    await until(`${count} records`, () => found.length === count);
    await consumer.commitOffsets([{ topic: asked.topic, partition: 0, offset: next }]);
    return found;
  });
}

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
