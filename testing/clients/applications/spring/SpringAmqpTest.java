// Spring AMQP against a broker: RabbitAdmin's declarations, RabbitTemplate's confirms, returns, replies and transactions, @RabbitListener.

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.core.AcknowledgeMode;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory.ConfirmType;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.AbstractMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.DirectMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;

class SpringAmqpTest {
    private final CachingConnectionFactory connections = new CachingConnectionFactory(URI.create(System.getenv("URL")));
    private final RabbitAdmin admin = new RabbitAdmin(connections);
    private final RabbitTemplate template = new RabbitTemplate(connections);
    private final BlockingQueue<Object> seen = new LinkedBlockingQueue<>();

    @AfterEach
    void close() {
        connections.destroy();
    }

    private Queue declare(QueueBuilder builder) {
        Queue queue = builder.build();
        admin.declareQueue(queue);
        return queue;
    }

    private Queue transientQueue() {
        return declare(QueueBuilder.durable("spring-" + UUID.randomUUID()).expires(60_000));
    }

    private Object next() throws InterruptedException {
        Object next = seen.poll(10, TimeUnit.SECONDS);
        assertNotNull(next, "nothing came");
        return next;
    }

    /** Runs `steps` while a container of this kind hands messages of `queue` to `listener`. */
    private void listening(AbstractMessageListenerContainer container, Queue queue, MessageListener listener, Steps steps) throws Exception {
        container.setConnectionFactory(connections);
        container.setQueues(queue);
        container.setMessageListener(listener);
        container.afterPropertiesSet();
        container.start();
        try {
            steps.run();
        } finally {
            container.stop();
        }
    }

    interface Steps {
        void run() throws Exception;
    }

    @Test
    void adminDeclaresAsksAndDeletes() {
        Queue queue = declare(QueueBuilder.durable("spring-" + UUID.randomUUID()).quorum().deliveryLimit(3).maxLength(10L));
        template.convertAndSend(queue.getName(), "one");
        assertEquals("one", template.receiveAndConvert(queue.getName(), 5000));
        assertEquals(0, admin.getQueueInfo(queue.getName()).getMessageCount());
        assertTrue(admin.deleteQueue(queue.getName()));
        assertNull(admin.getQueueInfo(queue.getName()));
    }

    @Test
    void declarationWithOtherArgumentsIsRefused() {
        Queue queue = transientQueue();
        Queue other = QueueBuilder.durable(queue.getName()).expires(61_000).build();
        assertThrows(AmqpException.class, () -> admin.declareQueue(other));
        template.convertAndSend(queue.getName(), "the factory works on");
        assertEquals("the factory works on", template.receiveAndConvert(queue.getName(), 5000));
    }

    @Test
    void confirmsAreCorrelated() throws Exception {
        connections.setPublisherConfirmType(ConfirmType.CORRELATED);
        Queue queue = transientQueue();
        for (int i = 0; i < 50; i++) {
            CorrelationData correlation = new CorrelationData("id-" + i);
            template.convertAndSend("", queue.getName(), "m" + i, correlation);
            assertTrue(correlation.getFuture().get(10, TimeUnit.SECONDS).ack());
        }
        assertEquals(50, admin.getQueueInfo(queue.getName()).getMessageCount());
    }

    @Test
    void unroutableMessagesAreReturnedBeforeTheirConfirm() throws Exception {
        connections.setPublisherConfirmType(ConfirmType.CORRELATED);
        connections.setPublisherReturns(true);
        template.setMandatory(true);
        CorrelationData correlation = new CorrelationData("lost");
        template.convertAndSend("", "no-queue-has-this-name", "m", correlation);
        assertTrue(correlation.getFuture().get(10, TimeUnit.SECONDS).ack());
        assertEquals(312, correlation.getReturned().getReplyCode());
    }

    @Test
    void simpleConfirmsAreWaitedFor() {
        connections.setPublisherConfirmType(ConfirmType.SIMPLE);
        Queue queue = transientQueue();
        Boolean confirmed = template.invoke(operations -> {
            for (int i = 0; i < 10; i++) {
                operations.convertAndSend(queue.getName(), "m" + i);
            }
            return operations.waitForConfirms(10_000);
        });
        assertEquals(true, confirmed);
    }

    @Test
    void repliesComeThroughDirectReplyTo() throws Exception {
        Queue queue = transientQueue();
        MessageListener answer = request -> template.send(request.getMessageProperties().getReplyTo(), request);
        listening(new DirectMessageListenerContainer(), queue, answer, () -> {
            for (int i = 0; i < 20; i++) {
                assertEquals("ask " + i, template.convertSendAndReceive(queue.getName(), (Object) ("ask " + i)));
            }
        });
    }

    @Test
    void transactionsCommitAndRollBack() {
        Queue queue = transientQueue();
        RabbitTemplate transacted = new RabbitTemplate(connections);
        transacted.setChannelTransacted(true);
        transacted.convertAndSend(queue.getName(), "committed");
        assertThrows(AmqpException.class, () -> transacted.execute(channel -> {
            channel.basicPublish("", queue.getName(), null, "rolled back".getBytes());
            channel.txRollback();
            throw new IllegalStateException("as a listener does");
        }));
        assertEquals("committed", template.receiveAndConvert(queue.getName(), 5000));
        assertNull(template.receive(queue.getName(), 200));
    }

    @Test
    void listenersTakeEverythingOnce() throws Exception {
        Queue queue = transientQueue();
        SimpleMessageListenerContainer container = new SimpleMessageListenerContainer();
        container.setConcurrentConsumers(3);
        container.setPrefetchCount(10);
        listening(container, queue, message -> seen.add(new String(message.getBody())), () -> {
            for (int i = 0; i < 200; i++) {
                template.convertAndSend(queue.getName(), "m" + i);
            }
            Set<Object> bodies = new HashSet<>();
            for (int i = 0; i < 200; i++) {
                bodies.add(next());
            }
            assertEquals(200, bodies.size());
        });
        assertEquals(0, admin.getQueueInfo(queue.getName()).getMessageCount());
    }

    @Test
    void rejectedMessagesGoToTheDeadLetterQueue() throws Exception {
        Queue dead = transientQueue();
        Queue queue = declare(QueueBuilder.durable("spring-" + UUID.randomUUID()).expires(60_000)
                .deadLetterExchange("").deadLetterRoutingKey(dead.getName()));
        MessageListener reject = message -> {
            throw new AmqpRejectAndDontRequeueException("bad");
        };
        listening(new SimpleMessageListenerContainer(), queue, reject, () -> {
            template.convertAndSend(queue.getName(), "m");
            Message letter = template.receive(dead.getName(), 10_000);
            Map<String, ?> death = letter.getMessageProperties().getXDeathHeader().get(0);
            assertEquals("rejected", String.valueOf(death.get("reason")));
            assertEquals(queue.getName(), String.valueOf(death.get("queue")));
        });
    }

    @Test
    void failedMessagesComeAgainAsRedelivered() throws Exception {
        Queue queue = transientQueue();
        MessageListener failOnce = message -> {
            seen.add(message.getMessageProperties().isRedelivered());
            if (!message.getMessageProperties().isRedelivered()) {
                throw new IllegalArgumentException("once");
            }
        };
        DirectMessageListenerContainer container = new DirectMessageListenerContainer();
        container.setAcknowledgeMode(AcknowledgeMode.AUTO);
        listening(container, queue, failOnce, () -> {
            template.convertAndSend(queue.getName(), "m");
            assertEquals(false, next());
            assertEquals(true, next());
        });
    }

    @Test
    void topicsRouteByPattern() {
        Queue queue = transientQueue();
        TopicExchange exchange = new TopicExchange("spring-" + UUID.randomUUID(), false, true);
        admin.declareExchange(exchange);
        admin.declareBinding(BindingBuilder.bind(queue).to(exchange).with("orders.*.new"));
        template.convertAndSend(exchange.getName(), "orders.eu.old", "lost");
        template.convertAndSend(exchange.getName(), "orders.eu.new", "kept");
        assertEquals("kept", template.receiveAndConvert(queue.getName(), 5000));
        assertTrue(admin.deleteExchange(exchange.getName()));
    }

    @Test
    void listenerHearsThatItsQueueIsGone() throws Exception {
        Queue queue = transientQueue();
        SimpleMessageListenerContainer container = new SimpleMessageListenerContainer();
        container.setRecoveryInterval(200);
        container.setMissingQueuesFatal(false);
        listening(container, queue, message -> seen.add(new String(message.getBody())), () -> {
            admin.deleteQueue(queue.getName());
            admin.declareQueue(queue);
            template.convertAndSend(queue.getName(), "after");
            assertEquals("after", next());
        });
    }
}
