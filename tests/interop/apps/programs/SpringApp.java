import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.core.KafkaTemplate;

/** Spring Boot: a listener that sends with the template. */
@EnableAutoConfiguration
@Configuration(proxyBeanMethods = false)
public class SpringApp {
    private final KafkaTemplate<String, String> template;

    public SpringApp(KafkaTemplate<String, String> template) {
        this.template = template;
    }

    @KafkaListener(topics = "${SOURCE}", groupId = "${GROUP}")
    public void hear(ConsumerRecord<String, String> line) throws Exception {
        template.send(System.getenv("TARGET"), line.value().toUpperCase()).get();
    }

    public static void main(String[] arguments) {
        SpringApplication.run(SpringApp.class, "--spring.kafka.bootstrap-servers=" + System.getenv("BOOTSTRAP"));
    }
}
