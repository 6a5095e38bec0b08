// NestJS: a microservice over its Kafka transport, with a client that emits.
require("reflect-metadata");
const { Controller, Module } = require("@nestjs/common");
const { NestFactory } = require("@nestjs/core");
const { ClientKafka, EventPattern, Payload, Transport } = require("@nestjs/microservices");

const { BOOTSTRAP, SOURCE, TARGET, GROUP } = process.env;
const options = { client: { brokers: BOOTSTRAP.split(",") }, consumer: { groupId: GROUP } };
const client = new ClientKafka({ client: options.client, producerOnlyMode: true });

class Shout {
  async hear(line) {
    await new Promise((resolve, reject) =>
      client.emit(TARGET, String(line).toUpperCase()).subscribe({ complete: resolve, error: reject }),
    );
  }
}
Payload()(Shout.prototype, "hear", 0);
EventPattern(SOURCE)(Shout.prototype, "hear", Object.getOwnPropertyDescriptor(Shout.prototype, "hear"));
Controller()(Shout);

class App {}
Module({ controllers: [Shout] })(App);

(async () => {
  await client.connect();
  const service = await NestFactory.createMicroservice(App, { transport: Transport.KAFKA, options, logger: ["error"] });
  await service.listen();
})();
