// KafkaJS: a consumer whose handler produces.
const { Kafka } = require("kafkajs");

const { BOOTSTRAP, SOURCE, TARGET, GROUP } = process.env;
const kafka = new Kafka({ brokers: BOOTSTRAP.split(",") });

(async () => {
  const [producer, consumer] = [kafka.producer(), kafka.consumer({ groupId: GROUP })];
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: SOURCE });
  await consumer.run({
    eachMessage: ({ message }) =>
      producer.send({ topic: TARGET, messages: [{ value: String(message.value).toUpperCase() }] }),
  });
})();
