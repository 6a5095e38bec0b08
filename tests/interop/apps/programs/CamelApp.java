import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.main.Main;

/** Camel: a route from its Kafka endpoint to another. */
public class CamelApp {
    public static void main(String[] arguments) throws Exception {
        Main main = new Main();
        String brokers = "?brokers=" + System.getenv("BOOTSTRAP");
        main.configure().addRoutesBuilder(new RouteBuilder() {
            @Override
            public void configure() {
                from("kafka:" + System.getenv("SOURCE") + brokers + "&groupId=" + System.getenv("GROUP"))
                    .process(one -> one.getMessage().setBody(one.getMessage().getBody(String.class).toUpperCase()))
                    .removeHeaders("*")
                    .to("kafka:" + System.getenv("TARGET") + brokers);
            }
        });
        main.run();
    }
}
