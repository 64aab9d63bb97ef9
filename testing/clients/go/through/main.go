// Publishes with confirms and consumes with acks through a cluster whose nodes come and go, until standard input ends.
//
//	through QUEUE HOST:PORT...
//
// Prints one line of JSON: bodies that were confirmed, received, and confirmed but not received; and how often it connected anew. The
// queue is there already. testing/cluster/test_rolling.py says what is done to the nodes.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	pause       = 100 * time.Millisecond
	confirmWait = 10 * time.Second
	receiveWait = 60 * time.Second
)

type bodies struct {
	lock sync.Mutex
	seen map[string]bool
}

func (b *bodies) add(body string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.seen[body] = true
}

type client struct {
	queue               string
	addresses           []string
	stop, ended         chan struct{}
	confirmed, received bodies
	connects            int
	lock                sync.Mutex
}

func is(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// connect dials the addresses in turn until one takes the connection; nil when it is over before.
func (c *client) connect(nth int, over chan struct{}) (*amqp.Connection, *amqp.Channel) {
	for ; !is(over); nth++ {
		config := amqp.Config{Heartbeat: 5 * time.Second, Dial: amqp.DefaultDial(3 * time.Second)}
		url := fmt.Sprintf("amqp://guest:guest@%s/", c.addresses[nth%len(c.addresses)])
		connection, err := amqp.DialConfig(url, config)
		if err == nil {
			if channel, err := connection.Channel(); err == nil {
				c.lock.Lock()
				defer c.lock.Unlock()
				c.connects++
				return connection, channel
			}
			connection.Close()
		}
		time.Sleep(pause)
	}
	return nil, nil
}

// publish publishes the body again and again until it is confirmed; false when the connection has ended.
func (c *client) publish(channel *amqp.Channel, closed chan *amqp.Error, returned chan amqp.Return, body string) bool {
	for !is(c.stop) {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
		confirm, err := channel.PublishWithDeferredConfirm("", c.queue, true, false, message)
		if err != nil {
			return false
		}
		select {
		case <-confirm.Done():
		case <-closed:
			return false
		case <-time.After(confirmWait):
			return false
		}
		select {
		case <-returned:
		default:
			if confirm.Acked() {
				c.confirmed.add(body)
				time.Sleep(2 * time.Millisecond)
				return true
			}
		}
		time.Sleep(pause)
	}
	return false
}

func (c *client) publishAll() {
	nth := 0
	for round := 0; !is(c.stop); round++ {
		connection, channel := c.connect(round, c.stop)
		if connection == nil {
			return
		}
		closed := connection.NotifyClose(make(chan *amqp.Error, 1))
		returned := channel.NotifyReturn(make(chan amqp.Return, 16))
		if channel.Confirm(false) == nil {
			for c.publish(channel, closed, returned, fmt.Sprint("go ", nth)) {
				nth++
			}
			// A message that was on its way when the connection ended may be there or not: it counts for nothing.
			nth++
		}
		connection.Close()
	}
}

func (c *client) consumeAll() {
	for round := 1; !is(c.ended); round++ {
		connection, channel := c.connect(round, c.ended)
		if connection == nil {
			return
		}
		if deliveries, err := consume(channel, c.queue); err == nil {
			c.take(deliveries)
		}
		connection.Close()
		time.Sleep(pause)
	}
}

func consume(channel *amqp.Channel, queue string) (<-chan amqp.Delivery, error) {
	if err := channel.Qos(50, 0, false); err != nil {
		return nil, err
	}
	return channel.Consume(queue, "", false, false, false, false, nil)
}

func (c *client) take(deliveries <-chan amqp.Delivery) {
	for {
		select {
		case <-c.ended:
			return
		case delivery, more := <-deliveries:
			if !more {
				return
			}
			c.received.add(string(delivery.Body))
			if delivery.Ack(false) != nil {
				return
			}
		}
	}
}

func (c *client) lost() []string {
	c.confirmed.lock.Lock()
	defer c.confirmed.lock.Unlock()
	c.received.lock.Lock()
	defer c.received.lock.Unlock()
	lost := []string{}
	for body := range c.confirmed.seen {
		if !c.received.seen[body] {
			lost = append(lost, body)
		}
	}
	return lost
}

func main() {
	c := client{queue: os.Args[1], addresses: os.Args[2:], stop: make(chan struct{}), ended: make(chan struct{})}
	c.confirmed.seen, c.received.seen = map[string]bool{}, map[string]bool{}
	var work sync.WaitGroup
	work.Add(1)
	go func() { defer work.Done(); c.publishAll() }()
	go c.consumeAll()
	io.Copy(io.Discard, os.Stdin)
	close(c.stop)
	work.Wait()
	for until := time.Now().Add(receiveWait); len(c.lost()) > 0 && time.Now().Before(until); {
		time.Sleep(pause)
	}
	close(c.ended)
	lost := c.lost()
	c.lock.Lock()
	defer c.lock.Unlock()
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"confirmed": len(c.confirmed.seen), "received": len(c.received.seen), "lost": lost, "connects": c.connects,
	})
}
