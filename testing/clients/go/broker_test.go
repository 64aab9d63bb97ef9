// Package clients holds amqp091-go's tests against a broker: where it is, unique names, and small steps that the tests share.
// Knows nothing about any one behaviour.
//
//	AMQP_URL        the broker (default amqp://guest:guest@127.0.0.1:5672/%2F)
//	BROKER_FLAVOR   warren (default), rabbitmq3 or rabbitmq4
//	BROKER_RESTART  a shell command that restarts the broker on the same port; the reconnect test needs it
package clients

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// deadline of anything that a test waits for; a hang is a failure.
const deadline = 15 * time.Second

var run = func() string {
	random := make([]byte, 5)
	if _, err := rand.Read(random); err != nil {
		panic(err)
	}
	return hex.EncodeToString(random)
}()

func url() string {
	if set := os.Getenv("AMQP_URL"); set != "" {
		return set
	}
	return "amqp://guest:guest@127.0.0.1:5672/%2F"
}

func unique(t *testing.T, stem string) string {
	return "go." + run + "." + t.Name() + "." + stem
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T) *amqp.Connection {
	t.Helper()
	connection, err := amqp.Dial(url())
	must(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func open(t *testing.T) *amqp.Channel {
	t.Helper()
	channel, err := dial(t).Channel()
	must(t, err)
	return channel
}

// durableQueue declares a queue that is deleted when the test ends.
func durableQueue(t *testing.T, channel *amqp.Channel, stem string, arguments amqp.Table) string {
	t.Helper()
	queue, err := channel.QueueDeclare(unique(t, stem), true, false, false, false, arguments)
	must(t, err)
	t.Cleanup(func() {
		afterwards(func(ch *amqp.Channel) error { _, err := ch.QueueDelete(queue.Name, false, false, false); return err })
	})
	return queue.Name
}

func exclusiveQueue(t *testing.T, channel *amqp.Channel, arguments amqp.Table) string {
	t.Helper()
	queue, err := channel.QueueDeclare("", false, false, true, false, arguments)
	must(t, err)
	return queue.Name
}

// exchange declares a durable exchange that is deleted when the test ends.
func exchange(t *testing.T, channel *amqp.Channel, kind, stem string) string {
	t.Helper()
	name := unique(t, stem)
	must(t, channel.ExchangeDeclare(name, kind, true, false, false, false, nil))
	t.Cleanup(func() { afterwards(func(ch *amqp.Channel) error { return ch.ExchangeDelete(name, false, false) }) })
	return name
}

func afterwards(clean func(*amqp.Channel) error) {
	connection, err := amqp.Dial(url())
	if err != nil {
		return
	}
	defer connection.Close()
	if channel, err := connection.Channel(); err == nil {
		_ = clean(channel)
	}
}

func publish(t *testing.T, channel *amqp.Channel, exchange, key string, message amqp.Publishing) {
	t.Helper()
	must(t, channel.Publish(exchange, key, false, false, message))
}

func text(body string) amqp.Publishing { return amqp.Publishing{Body: []byte(body)} }

func consume(t *testing.T, channel *amqp.Channel, queue string, autoAck bool) <-chan amqp.Delivery {
	t.Helper()
	deliveries, err := channel.Consume(queue, "", autoAck, false, false, false, nil)
	must(t, err)
	return deliveries
}

func next(t *testing.T, deliveries <-chan amqp.Delivery) amqp.Delivery {
	t.Helper()
	select {
	case delivery, more := <-deliveries:
		if !more {
			t.Fatal("the deliveries ended")
		}
		return delivery
	case <-time.After(deadline):
		t.Fatal("no delivery came")
	}
	panic("unreachable")
}

func nothing(t *testing.T, deliveries <-chan amqp.Delivery) {
	t.Helper()
	select {
	case delivery := <-deliveries:
		t.Fatalf("an unexpected delivery: %q", delivery.Body)
	case <-time.After(100 * time.Millisecond):
	}
}

func expect[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// refused checks that an error came from the broker with exactly this code and text.
func refused(t *testing.T, err error, code int, reason string) {
	t.Helper()
	var refusal *amqp.Error
	if !errors.As(err, &refusal) {
		t.Fatalf("got %v, want error %d", err, code)
	}
	if refusal.Code != code || refusal.Reason != reason || !refusal.Server {
		t.Fatalf("got %d %q (server %v), want %d %q", refusal.Code, refusal.Reason, refusal.Server, code, reason)
	}
}

func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(deadline); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}
