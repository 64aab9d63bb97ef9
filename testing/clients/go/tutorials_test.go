package clients

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestHelloWorld(t *testing.T) {
	channel := open(t)
	queue := exclusiveQueue(t, channel, nil)
	if !strings.HasPrefix(queue, "amq.gen-") {
		t.Fatalf("a server-named queue is called %q", queue)
	}
	deliveries := consume(t, channel, queue, true)
	publish(t, channel, "", queue, text("Hello World!"))
	delivery := next(t, deliveries)
	expect(t, string(delivery.Body), "Hello World!")
	expect(t, delivery.RoutingKey, queue)
	expect(t, delivery.Redelivered, false)
}

func TestWorkQueue(t *testing.T) {
	publisher := open(t)
	queue := durableQueue(t, publisher, "tasks", nil)
	slow, fast := open(t), open(t)
	must(t, slow.Qos(1, 0, false))
	must(t, fast.Qos(1, 0, false))
	held, free := consume(t, slow, queue, false), consume(t, fast, queue, false)
	for i := 0; i < 20; i++ {
		publish(t, publisher, "", queue, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(fmt.Sprint(i))})
	}
	first := next(t, held)
	for i := 0; i < 19; i++ {
		must(t, next(t, free).Ack(false))
	}
	nothing(t, held)
	nothing(t, free)
	must(t, slow.Close()) // unacked work goes to the other one
	again := next(t, free)
	expect(t, string(again.Body), string(first.Body))
	expect(t, again.Redelivered, true)
	must(t, again.Ack(false))
}

func TestPublishSubscribeRoutingTopicsAndHeaders(t *testing.T) {
	keys := []string{"a", "b.c", "b.c.d", ""}
	for _, c := range []struct {
		kind, binding string
		arguments     amqp.Table
		expected      []string
	}{
		{"fanout", "", nil, keys},
		{"direct", "b.c", nil, []string{"b.c"}},
		{"topic", "b.*", nil, []string{"b.c"}},
		{"topic", "#", nil, keys},
		{"topic", "*.c.#", nil, []string{"b.c", "b.c.d"}},
		{"headers", "", amqp.Table{"x-match": "all", "words": int32(2), "kind": "key"}, []string{"b.c"}},
		{"headers", "", amqp.Table{"x-match": "any", "words": int32(3), "kind": "other"}, []string{"b.c.d"}},
	} {
		t.Run(c.kind+" "+c.binding, func(t *testing.T) {
			channel := open(t)
			name := exchange(t, channel, c.kind, "exchange")
			queue := exclusiveQueue(t, channel, nil)
			must(t, channel.QueueBind(queue, c.binding, name, false, c.arguments))
			deliveries := consume(t, channel, queue, true)
			for _, key := range keys {
				headers := amqp.Table{"words": int32(len(strings.Split(key, "."))), "kind": "key"}
				publish(t, channel, name, key, amqp.Publishing{Headers: headers, Body: []byte(key)})
			}
			for _, want := range c.expected {
				expect(t, string(next(t, deliveries).Body), want)
			}
			must(t, channel.QueueUnbind(queue, c.binding, name, c.arguments))
			publish(t, channel, name, "b.c", amqp.Publishing{Headers: amqp.Table{"words": int32(2), "kind": "key"}})
			nothing(t, deliveries)
		})
	}
}

func TestExchangeToExchange(t *testing.T) {
	channel := open(t)
	source, middle := exchange(t, channel, "topic", "source"), exchange(t, channel, "fanout", "middle")
	must(t, channel.ExchangeBind(middle, "eu.#", source, false, nil))
	must(t, channel.ExchangeBind(source, "", middle, false, nil)) // a cycle
	queue := exclusiveQueue(t, channel, nil)
	must(t, channel.QueueBind(queue, "", middle, false, nil))
	deliveries := consume(t, channel, queue, true)
	publish(t, channel, source, "us.ny", text("no"))
	publish(t, channel, source, "eu.de", text("once"))
	expect(t, string(next(t, deliveries).Body), "once")
	nothing(t, deliveries)
}

func TestRPCWithDirectReplyTo(t *testing.T) {
	server, client := open(t), open(t)
	queue := durableQueue(t, server, "rpc", nil)
	requests := consume(t, server, queue, false)
	go func() {
		for request := range requests {
			answer := amqp.Publishing{CorrelationId: request.CorrelationId, Body: bytes.ToUpper(request.Body)}
			_ = server.Publish("", request.ReplyTo, false, false, answer)
			_ = request.Ack(false)
		}
	}()
	replies := consume(t, client, "amq.rabbitmq.reply-to", true)
	for i := 0; i < 100; i++ {
		publish(t, client, "", queue, amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: fmt.Sprint(i), Body: []byte(fmt.Sprint("call ", i))})
	}
	for i := 0; i < 100; i++ {
		reply := next(t, replies)
		expect(t, string(reply.Body), "CALL "+reply.CorrelationId)
	}
	_, err := dialAndAckReplies(t)
	refused(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - reply consumer cannot acknowledge")
}

func dialAndAckReplies(t *testing.T) (<-chan amqp.Delivery, error) {
	return open(t).Consume("amq.rabbitmq.reply-to", "", false, false, false, false, nil)
}

func TestConfirmsOneByOneInBatchesAndAsynchronously(t *testing.T) {
	channel := open(t)
	queue := durableQueue(t, channel, "confirms", nil)
	must(t, channel.Confirm(false))
	persistent := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")}
	ctx, cancel := context.WithTimeout(context.Background(), 2*deadline)
	defer cancel()
	for i := 0; i < 20; i++ {
		confirmation, err := channel.PublishWithDeferredConfirm("", queue, false, false, persistent)
		must(t, err)
		acked, err := confirmation.WaitContext(ctx)
		must(t, err)
		expect(t, acked, true)
	}
	for batch := 0; batch < 5; batch++ {
		var confirmations []*amqp.DeferredConfirmation
		for i := 0; i < 100; i++ {
			confirmation, err := channel.PublishWithDeferredConfirm("", queue, false, false, persistent)
			must(t, err)
			confirmations = append(confirmations, confirmation)
		}
		for _, confirmation := range confirmations {
			acked, err := confirmation.WaitContext(ctx)
			must(t, err)
			expect(t, acked, true)
		}
	}
	notices := channel.NotifyPublish(make(chan amqp.Confirmation, 1000))
	first := channel.GetNextPublishSeqNo()
	expect(t, first, 521)
	for i := 0; i < 1000; i++ {
		publish(t, channel, "", queue, persistent)
	}
	for i := uint64(0); i < 1000; i++ {
		select {
		case notice := <-notices:
			expect(t, notice, amqp.Confirmation{DeliveryTag: first + i, Ack: true})
		case <-time.After(deadline):
			t.Fatal("confirms are missing")
		}
	}
	purged, err := channel.QueuePurge(queue, false)
	must(t, err)
	expect(t, purged, 1520)
}
