// Moleculer: two nodes whose transporter is Kafka; one calls the other's action and prints the answers.
const { ServiceBroker } = require("moleculer");

const transporter = `kafka://${process.env.BOOTSTRAP.split(",")[0]}`;
const node = (name) =>
  new ServiceBroker({ nodeID: `${name}-${process.pid}`, namespace: process.env.GROUP, transporter });

(async () => {
  const [server, caller] = [node("server"), node("caller")];
  server.createService({ name: "echo", actions: { say: (context) => context.params.line } });
  await server.start();
  await caller.start();
  await caller.waitForServices("echo", 50000);
  for (let number = 0; number < 20; number++) {
    console.log(await caller.call("echo.say", { line: `line ${number}` }));
  }
  process.exit(0);
})();
