package clients

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Over TLS of one version. Skipped where TLS_PORT names no port: the suite of TLS sets it, with TLS_CA, TLS_VERSION and perhaps
// TLS_CERT and TLS_KEY.
func TestEncrypted(t *testing.T) {
	port := os.Getenv("TLS_PORT")
	if port == "" {
		t.Skip("TLS_PORT names no port")
	}
	roots := x509.NewCertPool()
	bundle, err := os.ReadFile(os.Getenv("TLS_CA"))
	if err != nil || !roots.AppendCertsFromPEM(bundle) {
		t.Fatal("no authority", err)
	}
	version := uint16(tls.VersionTLS13)
	if os.Getenv("TLS_VERSION") == "1.2" {
		version = tls.VersionTLS12
	}
	config := &tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version}
	if file := os.Getenv("TLS_CERT"); file != "" {
		own, err := tls.LoadX509KeyPair(file, os.Getenv("TLS_KEY"))
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	connection, err := amqp.DialTLS("amqps://guest:guest@localhost:"+port+"/", config)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 300_000)
	confirm, err := channel.PublishWithDeferredConfirm("", queue.Name, false, false, amqp.Publishing{Body: body})
	if err != nil || !confirm.Wait() {
		t.Fatal("not confirmed", err)
	}
	message, found, err := channel.Get(queue.Name, true)
	if err != nil || !found || len(message.Body) != len(body) {
		t.Fatal("not there", found, err)
	}
}
