// @platformatic/kafka: a stream of messages, each of which is produced.
const { Consumer, Producer, stringDeserializers, stringSerializers } = require("@platformatic/kafka");

const { BOOTSTRAP, SOURCE, TARGET, GROUP } = process.env;
const about = { clientId: "shout", bootstrapBrokers: BOOTSTRAP.split(",") };

(async () => {
  const producer = new Producer({ ...about, serializers: stringSerializers });
  const consumer = new Consumer({ ...about, groupId: GROUP, deserializers: stringDeserializers });
  const stream = await consumer.consume({ topics: [SOURCE] });
  for await (const message of stream) {
    await producer.send({ messages: [{ topic: TARGET, value: message.value.toUpperCase() }] });
  }
})();
