// The first steps of a user of RabbitMQ's client for AMQP 1.0 in Go: declares, binds, publishes, consumes, reads a stream with filters.
// AMQP_URL says where the broker is.
package scenario

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

const count = 50

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, ctx context.Context, consumer *rmq.Consumer, want int) (bodies []string, offsets []any) {
	t.Helper()
	for len(bodies) < want {
		delivery, err := consumer.Receive(ctx)
		must(t, err)
		bodies = append(bodies, string(delivery.Message().Data[0]))
		offsets = append(offsets, delivery.Message().Annotations["x-stream-offset"])
		must(t, delivery.Accept(ctx))
	}
	must(t, consumer.Close(ctx))
	return bodies, offsets
}

func publish(t *testing.T, ctx context.Context, publisher *rmq.Publisher, body, subject string) rmq.DeliveryState {
	t.Helper()
	message := rmq.NewMessage([]byte(body))
	if subject != "" {
		message = rmq.NewMessageWithFilter([]byte(body), subject)
		message.ApplicationProperties = map[string]any{"subject": subject}
	}
	result, err := publisher.Publish(ctx, message)
	must(t, err)
	return result.Outcome
}

func TestQueuesAndStreams(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	env := rmq.NewEnvironment(os.Getenv("AMQP_URL"), nil)
	defer env.CloseConnections(context.Background())
	connection, err := env.NewConnection(ctx)
	must(t, err)
	management := connection.Management()
	name := fmt.Sprintf("go-client-%d", time.Now().UnixNano())

	_, err = management.DeclareExchange(ctx, &rmq.TopicExchangeSpecification{Name: name})
	must(t, err)
	_, err = management.DeclareQueue(ctx, &rmq.QuorumQueueSpecification{Name: name})
	must(t, err)
	binding, err := management.Bind(ctx, &rmq.ExchangeToQueueBindingSpecification{SourceExchange: name, DestinationQueue: name, BindingKey: "k"})
	must(t, err)
	publisher, err := connection.NewPublisher(ctx, &rmq.ExchangeAddress{Exchange: name, Key: "k"}, nil)
	must(t, err)
	for nth := range count {
		if outcome, ok := publish(t, ctx, publisher, fmt.Sprint("m", nth), "").(*rmq.StateAccepted); !ok {
			t.Fatalf("outcome %T", outcome)
		}
	}
	consumer, err := connection.NewConsumer(ctx, name, nil)
	must(t, err)
	bodies, _ := receive(t, ctx, consumer, count)
	if bodies[0] != "m0" || bodies[count-1] != fmt.Sprint("m", count-1) {
		t.Fatal(bodies)
	}
	must(t, management.Unbind(ctx, binding))
	if outcome, ok := publish(t, ctx, publisher, "x", "").(*rmq.StateReleased); !ok {
		t.Fatalf("outcome %T", outcome)
	}
	must(t, publisher.Close(ctx))
	must(t, management.DeleteQueue(ctx, name))
	must(t, management.DeleteExchange(ctx, name))

	stream := name + "-stream"
	_, err = management.DeclareQueue(ctx, &rmq.StreamQueueSpecification{Name: stream})
	must(t, err)
	publisher, err = connection.NewPublisher(ctx, &rmq.QueueAddress{Queue: stream}, nil)
	must(t, err)
	for nth := range count {
		subject := []string{"even", "odd"}[nth%2]
		if outcome, ok := publish(t, ctx, publisher, fmt.Sprint("s", nth), subject).(*rmq.StateAccepted); !ok {
			t.Fatalf("outcome %T", outcome)
		}
	}
	consumer, err = connection.NewConsumer(ctx, stream, &rmq.StreamConsumerOptions{Offset: &rmq.OffsetFirst{}})
	must(t, err)
	bodies, offsets := receive(t, ctx, consumer, count)
	for nth := range count {
		if bodies[nth] != fmt.Sprint("s", nth) || fmt.Sprint(offsets[nth]) != fmt.Sprint(nth) {
			t.Fatal(bodies, offsets)
		}
	}
	for _, filter := range []*rmq.StreamFilterOptions{
		{Values: []string{"odd"}},
		{ApplicationProperties: map[string]any{"subject": "odd"}},
		{SQL: "subject = 'odd'"},
	} {
		consumer, err = connection.NewConsumer(ctx, stream, &rmq.StreamConsumerOptions{Offset: &rmq.OffsetFirst{}, StreamFilterOptions: filter})
		must(t, err)
		bodies, _ = receive(t, ctx, consumer, count/2)
		if bodies[0] != "s1" || bodies[count/2-1] != fmt.Sprint("s", count-1) {
			t.Fatal(filter, bodies)
		}
	}
	must(t, management.DeleteQueue(ctx, stream))
}
