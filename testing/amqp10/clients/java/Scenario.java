// The first steps of a user of RabbitMQ's client for AMQP 1.0 in Java: declares, binds, publishes, consumes, reads a stream with filters.
//
//   java -cp "JARS/*" Scenario.java HOST PORT

import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.ConsumerBuilder;
import com.rabbitmq.client.amqp.Environment;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.impl.AmqpEnvironmentBuilder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;

public final class Scenario {
  private static final int COUNT = 50;

  private static void check(boolean isTrue, Object what) {
    if (!isTrue) throw new AssertionError(String.valueOf(what));
  }

  /** Publishes messages with subjects; all of them must have this outcome. */
  private static void publish(Publisher publisher, int count, Publisher.Status expected) throws Exception {
    CountDownLatch told = new CountDownLatch(count);
    ConcurrentLinkedQueue<Publisher.Status> others = new ConcurrentLinkedQueue<>();
    for (int nth = 0; nth < count; nth++) {
      publisher.publish(
          publisher.message(("m" + nth).getBytes(StandardCharsets.UTF_8)).subject(nth % 2 == 0 ? "even" : "odd"),
          context -> {
            if (context.status() != expected) others.add(context.status());
            told.countDown();
          });
    }
    check(told.await(10, TimeUnit.SECONDS) && others.isEmpty(), others);
  }

  private static List<String> expected(IntPredicate isWanted) {
    return IntStream.range(0, COUNT).filter(isWanted).mapToObj(nth -> "m" + nth).toList();
  }

  private static void consume(ConsumerBuilder builder, List<String> expected) throws Exception {
    CountDownLatch got = new CountDownLatch(expected.size());
    List<String> bodies = java.util.Collections.synchronizedList(new ArrayList<>());
    try (Consumer consumer =
        builder
            .messageHandler(
                (context, message) -> {
                  bodies.add(new String(message.body(), StandardCharsets.UTF_8));
                  context.accept();
                  got.countDown();
                })
            .build()) {
      check(got.await(10, TimeUnit.SECONDS), bodies);
    }
    check(bodies.equals(expected), bodies);
  }

  public static void main(String[] args) throws Exception {
    String name = "java-client-" + UUID.randomUUID();
    try (Environment environment = new AmqpEnvironmentBuilder().build();
        Connection connection =
            environment.connectionBuilder().host(args[0]).port(Integer.parseInt(args[1])).build()) {
      Management management = connection.management();
      management.exchange(name).type(Management.ExchangeType.DIRECT).declare();
      management.queue(name).quorum().queue().declare();
      management.binding().sourceExchange(name).destinationQueue(name).key("k").bind();
      try (Publisher publisher = connection.publisherBuilder().exchange(name).key("k").build()) {
        publish(publisher, COUNT, Publisher.Status.ACCEPTED);
        check(management.queueInfo(name).messageCount() == COUNT, management.queueInfo(name));
        consume(connection.consumerBuilder().queue(name), expected(nth -> true));
        management.unbind().sourceExchange(name).destinationQueue(name).key("k").unbind();
        publish(publisher, 1, Publisher.Status.RELEASED);
      }
      management.queueDelete(name);
      management.exchangeDelete(name);

      String stream = name + "-stream";
      management.queue(stream).stream().queue().declare();
      try (Publisher publisher = connection.publisherBuilder().queue(stream).build()) {
        publish(publisher, COUNT, Publisher.Status.ACCEPTED);
      }
      consume(
          connection.consumerBuilder().queue(stream).stream()
              .offset(ConsumerBuilder.StreamOffsetSpecification.FIRST)
              .builder(),
          expected(nth -> true));
      consume(
          connection.consumerBuilder().queue(stream).stream().offset(10L).filter().subject("odd").stream().builder(),
          expected(nth -> nth >= 10 && nth % 2 == 1));
      consume(
          connection.consumerBuilder().queue(stream).stream()
              .offset(ConsumerBuilder.StreamOffsetSpecification.FIRST)
              .filter()
              .sql("properties.subject = 'even'")
              .stream()
              .builder(),
          expected(nth -> nth % 2 == 0));
      management.queueDelete(stream);
    }
    System.out.println("the scenario of the Java client passed");
  }
}
