import com.rabbitmq.client.Address;
import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/** As testing/clients/go/through: publishes and consumes through a cluster whose nodes come and go, until standard input ends. */
public final class Through {
    private static final int PAUSE_MS = 100;
    private static final int CONFIRM_WAIT_MS = 10_000;
    private static final int RECEIVE_WAIT_MS = 60_000;

    private static final Set<String> confirmed = ConcurrentHashMap.newKeySet();
    private static final Set<String> received = ConcurrentHashMap.newKeySet();
    private static final AtomicInteger connects = new AtomicInteger();
    private static volatile boolean stopped;
    private static volatile boolean ended;

    private static Connection connect(List<Address> addresses, int first) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setRequestedHeartbeat(5);
        factory.setConnectionTimeout(3000);
        factory.setAutomaticRecoveryEnabled(false);
        List<Address> turned = new ArrayList<>(addresses.subList(first % addresses.size(), addresses.size()));
        turned.addAll(addresses.subList(0, first % addresses.size()));
        Connection connection = factory.newConnection(turned);
        connects.incrementAndGet();
        return connection;
    }

    private static void publishAll(String queue, List<Address> addresses) {
        int nth = 0;
        for (int round = 0; !stopped; round++) {
            try (Connection connection = connect(addresses, round)) {
                Channel channel = connection.createChannel();
                AtomicBoolean returned = new AtomicBoolean();
                channel.addReturnListener(message -> returned.set(true));
                channel.confirmSelect();
                while (!stopped) {
                    String body = "java " + nth;
                    returned.set(false);
                    channel.basicPublish("", queue, true, MessageProperties.PERSISTENT_BASIC, body.getBytes(StandardCharsets.UTF_8));
                    if (channel.waitForConfirms(CONFIRM_WAIT_MS) && !returned.get()) {
                        confirmed.add(body);
                        nth++;
                        Thread.sleep(2);
                    } else {
                        Thread.sleep(PAUSE_MS);
                    }
                }
            } catch (Exception ended) {
                // A message that was on its way may be there or not: it counts for nothing.
                nth++;
                pause();
            }
        }
    }

    private static void consumeAll(String queue, List<Address> addresses) {
        for (int round = 1; !ended; round++) {
            try (Connection connection = connect(addresses, round)) {
                Channel channel = connection.createChannel();
                channel.basicQos(50);
                CountDownLatch over = new CountDownLatch(1);
                channel.basicConsume(queue, false, new DefaultConsumer(channel) {
                    @Override
                    public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                            throws IOException {
                        received.add(new String(body, StandardCharsets.UTF_8));
                        channel.basicAck(envelope.getDeliveryTag(), false);
                    }

                    @Override
                    public void handleCancel(String tag) {
                        over.countDown();
                    }

                    @Override
                    public void handleShutdownSignal(String tag, ShutdownSignalException why) {
                        over.countDown();
                    }
                });
                while (!ended && !over.await(PAUSE_MS, TimeUnit.MILLISECONDS)) { }
            } catch (Exception ended) {
                pause();
            }
        }
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException never) {
            Thread.currentThread().interrupt();
        }
    }

    private static Set<String> lost() {
        Set<String> lost = new HashSet<>(confirmed);
        lost.removeAll(received);
        return lost;
    }

    public static void main(String[] words) throws Exception {
        List<Address> addresses = new ArrayList<>();
        for (int nth = 1; nth < words.length; nth++) {
            addresses.add(Address.parseAddress(words[nth]));
        }
        Thread publisher = new Thread(() -> publishAll(words[0], addresses));
        Thread consumer = new Thread(() -> consumeAll(words[0], addresses));
        publisher.start();
        consumer.start();
        while (System.in.read() >= 0) { }
        stopped = true;
        publisher.join();
        for (int waited = 0; !lost().isEmpty() && waited < RECEIVE_WAIT_MS; waited += PAUSE_MS) {
            pause();
        }
        ended = true;
        consumer.join();
        StringBuilder lost = new StringBuilder();
        lost().forEach(body -> lost.append(lost.length() > 0 ? ", " : "").append('"').append(body).append('"'));
        System.out.printf("{\"confirmed\": %d, \"received\": %d, \"lost\": [%s], \"connects\": %d}%n",
            confirmed.size(), received.size(), lost, connects.get());
    }
}
