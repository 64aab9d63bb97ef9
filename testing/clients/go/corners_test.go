package clients

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestMandatoryMessageIsReturnedBeforeItsConfirm(t *testing.T) {
	channel := open(t)
	must(t, channel.Confirm(false))
	returns, confirms := channel.NotifyReturn(make(chan amqp.Return, 1)), channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	message := amqp.Publishing{MessageId: "m1", Body: []byte("lost")}
	must(t, channel.Publish("", unique(t, "nowhere"), true, false, message))
	select {
	case confirm := <-confirms:
		expect(t, confirm, amqp.Confirmation{DeliveryTag: 1, Ack: true})
	case <-time.After(deadline):
		t.Fatal("no confirm")
	}
	expect(t, len(returns), 1) // it came first
	returned := <-returns
	expect(t, fmt.Sprintf("%d %s %s %s", returned.ReplyCode, returned.ReplyText, returned.MessageId, returned.Body), "312 NO_ROUTE m1 lost")
}

func TestOverflowNacks(t *testing.T) {
	channel := open(t)
	queue := exclusiveQueue(t, channel, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	must(t, channel.Confirm(false))
	for _, want := range []bool{true, false, false} {
		confirmation, err := channel.PublishWithDeferredConfirm("", queue, false, false, text("x"))
		must(t, err)
		expect(t, confirmation.Wait(), want)
	}
}

func TestConsumerIsToldWhenItsQueueIsDeleted(t *testing.T) {
	channel := open(t)
	queue := durableQueue(t, channel, "doomed", nil)
	cancels := channel.NotifyCancel(make(chan string, 1))
	deliveries, err := channel.Consume(queue, "my-tag", false, false, false, false, nil)
	must(t, err)
	_, err = open(t).QueueDelete(queue, false, false, false)
	must(t, err)
	select {
	case tag := <-cancels:
		expect(t, tag, "my-tag")
	case <-time.After(deadline):
		t.Fatal("basic.cancel did not come")
	}
	if _, more := <-deliveries; more {
		t.Fatal("a delivery after the cancel")
	}
	expect(t, channel.IsClosed(), false)
}

func TestPriorities(t *testing.T) {
	channel := open(t)
	queue := exclusiveQueue(t, channel, amqp.Table{"x-max-priority": 9})
	for _, priority := range []uint8{0, 4, 9, 1, 4} {
		publish(t, channel, "", queue, amqp.Publishing{Priority: priority, Body: []byte(fmt.Sprint(priority))})
	}
	eventually(t, func() bool {
		state, err := channel.QueueDeclarePassive(queue, false, false, true, false, nil)
		must(t, err)
		return state.Messages == 5
	}, "all are there")
	deliveries := consume(t, channel, queue, true)
	for _, want := range []string{"9", "4", "4", "1", "0"} {
		expect(t, string(next(t, deliveries).Body), want)
	}
}

func TestDeadLetteringOfExpiredRejectedAndDroppedMessages(t *testing.T) {
	channel := open(t)
	graveyard := exclusiveQueue(t, channel, nil)
	dead := consume(t, channel, graveyard, true)
	arguments := func(more amqp.Table) amqp.Table {
		more["x-dead-letter-exchange"], more["x-dead-letter-routing-key"] = "", graveyard
		return more
	}
	expiring := exclusiveQueue(t, channel, arguments(amqp.Table{"x-message-ttl": 30}))
	publish(t, channel, "", expiring, text("expired"))
	delivery := next(t, dead)
	expect(t, string(delivery.Body), "expired")
	death := delivery.Headers["x-death"].([]any)[0].(amqp.Table)
	expect(t, death["count"].(int64), 1)
	expect(t, death["queue"].(string), expiring)
	expect(t, death["exchange"].(string), "")
	expect(t, death["routing-keys"].([]any)[0].(string), expiring)
	if age := time.Since(death["time"].(time.Time)); age < -2*time.Second || age > time.Minute {
		t.Fatalf("died %v ago", age)
	}

	rejecting := exclusiveQueue(t, channel, arguments(amqp.Table{}))
	publish(t, channel, "", rejecting, text("rejected"))
	must(t, next(t, consume(t, channel, rejecting, false)).Reject(false))
	expect(t, next(t, dead).Headers["x-first-death-reason"].(string), "rejected")

	short := exclusiveQueue(t, channel, arguments(amqp.Table{"x-max-length": 1}))
	publish(t, channel, "", short, text("dropped"))
	publish(t, channel, "", short, text("kept"))
	delivery = next(t, dead)
	expect(t, string(delivery.Body), "dropped")
	expect(t, delivery.Headers["x-first-death-reason"].(string), "maxlen")
}

func TestLargeAndEmptyMessages(t *testing.T) {
	channel := open(t)
	queue := exclusiveQueue(t, channel, nil)
	large := make([]byte, 10<<20)
	_, _ = rand.Read(large)
	deliveries := consume(t, channel, queue, true)
	publish(t, channel, "", queue, amqp.Publishing{Body: large})
	publish(t, channel, "", queue, amqp.Publishing{})
	if !bytes.Equal(next(t, deliveries).Body, large) {
		t.Fatal("10 MiB came back changed")
	}
	expect(t, len(next(t, deliveries).Body), 0)
}

func TestHeaderValuesOfAllTypesRoundTrip(t *testing.T) {
	channel := open(t)
	queue := exclusiveQueue(t, channel, nil)
	headers := amqp.Table{
		"bool": true, "byte": byte(200), "int8": int8(-100), "int16": int16(-30000), "uint16": uint16(60000), "int32": int32(-2e9),
		"uint32": uint32(4e9), "int64": int64(-9e18), "float32": float32(1.5), "float64": 3.25, "decimal": amqp.Decimal{Scale: 2, Value: 314},
		"string": "Grüße, 世界", "bytes": []byte{0, 255}, "time": time.Unix(1_700_000_000, 0), "nil": nil,
		"table": amqp.Table{"deeper": amqp.Table{"n": int32(1)}}, "array": []any{int32(1), "two", nil, true, amqp.Table{"x": int64(3)}},
	}
	sent := amqp.Publishing{Headers: headers, ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 7, CorrelationId: "c",
		ReplyTo: "r", Expiration: "60000", MessageId: "m", Timestamp: time.Unix(1_700_000_000, 0), Type: "t", UserId: "guest", AppId: "a"}
	publish(t, channel, "", queue, sent)
	got := next(t, consume(t, channel, queue, true))
	if !reflect.DeepEqual(got.Headers, headers) {
		t.Fatalf("got  %#v\nwant %#v", got.Headers, headers)
	}
	back := amqp.Publishing{Headers: got.Headers, ContentType: got.ContentType, ContentEncoding: got.ContentEncoding, DeliveryMode: got.DeliveryMode,
		Priority: got.Priority, CorrelationId: got.CorrelationId, ReplyTo: got.ReplyTo, Expiration: got.Expiration, MessageId: got.MessageId,
		Timestamp: got.Timestamp, Type: got.Type, UserId: got.UserId, AppId: got.AppId}
	if !reflect.DeepEqual(back, sent) {
		t.Fatalf("got  %#v\nwant %#v", back, sent)
	}
}

func TestManyChannelsFromManyGoroutines(t *testing.T) {
	connection := dial(t)
	var group sync.WaitGroup
	failures := make(chan error, 200)
	for i := 0; i < 200; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			if err := echo(connection, fmt.Sprint(i)); err != nil {
				failures <- err
			}
		}(i)
	}
	group.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
}

// echo opens a channel, sends a message to a queue of its own and takes it back.
func echo(connection *amqp.Connection, body string) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)
	if err != nil {
		return err
	}
	deliveries, err := channel.Consume(queue.Name, "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	if err := channel.Publish("", queue.Name, false, false, text(body)); err != nil {
		return err
	}
	select {
	case delivery := <-deliveries:
		if string(delivery.Body) != body {
			return fmt.Errorf("got %q, want %q", delivery.Body, body)
		}
		return nil
	case <-time.After(deadline):
		return fmt.Errorf("%s did not come back", body)
	}
}

func TestChannelErrorsLeaveTheConnectionOpen(t *testing.T) {
	connection := dial(t)
	channelFor := func() *amqp.Channel {
		channel, err := connection.Channel()
		must(t, err)
		return channel
	}
	missing := unique(t, "missing")
	_, err := channelFor().QueueDeclarePassive(missing, true, false, false, false, nil)
	refused(t, err, amqp.NotFound, fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '/'", missing))

	publisher := channelFor()
	closed := publisher.NotifyClose(make(chan *amqp.Error, 1))
	publish(t, publisher, missing, "k", text("x"))
	refused(t, <-closed, amqp.NotFound, fmt.Sprintf("NOT_FOUND - no exchange '%s' in vhost '/'", missing))

	queue := durableQueue(t, channelFor(), "declared", amqp.Table{"x-max-length": int32(7)})
	_, err = channelFor().QueueDeclare(queue, false, false, false, false, amqp.Table{"x-max-length": int32(7)})
	refused(t, err, amqp.PreconditionFailed,
		fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg 'durable' for queue '%s' in vhost '/': received 'false' but current is 'true'", queue))
	_, err = channelFor().QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": int64(7)})
	must(t, err) // integers of another width are equal
	_, err = channelFor().QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": int64(8)})
	refused(t, err, amqp.PreconditionFailed, fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '%s' in vhost '/': received '8' but current is '7'", queue))
	err = channelFor().ExchangeDelete("amq.direct", false, false)
	refused(t, err, amqp.AccessRefused, "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed")
	expect(t, connection.IsClosed(), false)
	channelFor()
}

func TestConnectionErrors(t *testing.T) {
	connection := dial(t)
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	channel, err := connection.Channel()
	must(t, err)
	must(t, channel.Publish("", "x", false, true, text("immediate")))
	refused(t, <-closed, amqp.NotImplemented, "NOT_IMPLEMENTED - immediate=true")

	_, err = amqp.Dial(strings.Replace(url(), "guest:guest@", "guest:wrong@", 1))
	if err == nil || !strings.Contains(err.Error(), "403") {
		t.Fatalf("a wrong password gives %v", err)
	}
	_, err = amqp.DialConfig(url(), amqp.Config{Vhost: "nowhere"})
	if err == nil {
		t.Fatal("a missing vhost is accepted")
	}
}

func TestTransactions(t *testing.T) {
	channel := open(t)
	queue := exclusiveQueue(t, channel, nil)
	must(t, channel.Tx())
	publish(t, channel, "", queue, text("rolled back"))
	must(t, channel.TxRollback())
	publish(t, channel, "", queue, text("committed"))
	must(t, channel.TxCommit())
	delivery := next(t, consume(t, channel, queue, false))
	expect(t, string(delivery.Body), "committed")
	must(t, delivery.Ack(false))
	must(t, channel.TxCommit())
	refused(t, channel.Confirm(false), amqp.PreconditionFailed, "PRECONDITION_FAILED - cannot switch from tx to confirm mode")
}

func TestFlowAndRecover(t *testing.T) {
	channel := open(t)
	must(t, channel.Flow(true))
	queue := exclusiveQueue(t, channel, nil)
	publish(t, channel, "", queue, text("again"))
	deliveries := consume(t, channel, queue, false)
	expect(t, next(t, deliveries).Redelivered, false)
	must(t, channel.Recover(true))
	delivery := next(t, deliveries)
	expect(t, delivery.Redelivered, true)
	must(t, delivery.Ack(false))
}

// TestReconnectAfterABrokerRestart uses the client's own recovery: connection, channel, queue and consumer come back by themselves.
func TestReconnectAfterABrokerRestart(t *testing.T) {
	command := os.Getenv("BROKER_RESTART")
	if command == "" {
		t.Skip("BROKER_RESTART is not set: reconnecting was NOT tested")
	}
	recovery := &amqp.Recovery{ReconnectionConfig: &amqp.ReconnectionConfig{MaxRetryCount: 200, RetryInterval: 100 * time.Millisecond}}
	connection, err := amqp.DialConfig(url(), amqp.Config{Recovery: recovery})
	must(t, err)
	defer connection.Close()
	channel, err := connection.Channel()
	must(t, err)
	queue := durableQueue(t, channel, "survivor", nil)
	deliveries := consume(t, channel, queue, false)
	persistent := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("before")}
	publish(t, channel, "", queue, persistent)
	must(t, next(t, deliveries).Ack(false))

	output, err := exec.Command("sh", "-c", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	persistent.Body = []byte("after")
	eventually(t, func() bool { return channel.Publish("", queue, false, false, persistent) == nil }, "publishing does not work again")
	end := time.After(2 * deadline)
	for {
		select {
		case delivery, more := <-deliveries:
			if !more {
				t.Fatal("the deliveries ended")
			}
			must(t, delivery.Ack(false))
			if string(delivery.Body) == "after" {
				return
			}
		case <-end:
			t.Fatal("the consumer did not come back")
		}
	}
}
