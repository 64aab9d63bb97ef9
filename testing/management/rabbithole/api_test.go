// Package rabbithole drives the HTTP API with the client library that Go programs and Terraform's provider use.
// API_URL is the address, such as http://127.0.0.1:15672, with guest:guest.
package rabbithole

import (
	"os"
	"testing"

	rh "github.com/michaelklishin/rabbit-hole/v3"
)

const vhost = "rabbithole"

func client(t *testing.T) *rh.Client {
	t.Helper()
	url := os.Getenv("API_URL")
	if url == "" {
		t.Skip("API_URL is not set")
	}
	client, err := rh.NewClient(url, "guest", "guest")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// fresh makes the vhost, and deletes it after the test.
func fresh(t *testing.T) *rh.Client {
	c := client(t)
	must(c.PutVhost(vhost, rh.VhostSettings{Description: "of a test", Tags: rh.VhostTags{"a"}}))
	t.Cleanup(func() { must(c.DeleteVhost(vhost)) })
	return c
}

func TestOverviewAndNodes(t *testing.T) {
	c := client(t)
	overview := must(c.Overview())
	if overview.RabbitMQVersion == "" || overview.Node == "" || len(overview.Listeners) == 0 {
		t.Errorf("%+v", overview)
	}
	nodes := must(c.ListNodes())
	if len(nodes) != 1 || !nodes[0].IsRunning || nodes[0].MemUsed == 0 {
		t.Errorf("%+v", nodes)
	}
	if node := must(c.GetNode(overview.Node)); node.Name != overview.Node {
		t.Errorf("%+v", node)
	}
	if who := must(c.Whoami()); who.Name != "guest" {
		t.Errorf("%+v", who)
	}
	if name := must(c.GetClusterName()); name.Name == "" {
		t.Errorf("%+v", name)
	}
}

func TestQueuesExchangesAndBindings(t *testing.T) {
	c := fresh(t)
	must(c.DeclareQueue(vhost, "q", rh.QueueSettings{Durable: true, Arguments: map[string]interface{}{"x-max-length": 10}}))
	must(c.DeclareExchange(vhost, "x", rh.ExchangeSettings{Type: "topic", Durable: true}))
	info := rh.BindingInfo{Source: "x", Destination: "q", DestinationType: "queue", RoutingKey: "a.#", Arguments: map[string]interface{}{"k": "v"}}
	must(c.DeclareBinding(vhost, info))
	queue := must(c.GetQueue(vhost, "q"))
	if queue.Name != "q" || !queue.Durable || queue.Type != "classic" || queue.Arguments["x-max-length"] != 10.0 {
		t.Errorf("%+v", queue)
	}
	if exchange := must(c.GetExchange(vhost, "x")); exchange.Type != "topic" {
		t.Errorf("%+v", exchange)
	}
	bindings := must(c.ListQueueBindingsBetween(vhost, "x", "q"))
	if len(bindings) != 1 || bindings[0].RoutingKey != "a.#" || bindings[0].PropertiesKey == "" {
		t.Fatalf("%+v", bindings)
	}
	must(c.DeleteBinding(vhost, bindings[0]))
	if left := must(c.ListQueueBindings(vhost, "q")); len(left) != 1 {
		t.Errorf("only the implicit one is left, not %+v", left)
	}
	must(c.PurgeQueue(vhost, "q"))
	must(c.DeleteQueue(vhost, "q"))
	must(c.DeleteExchange(vhost, "x"))
	if _, err := c.GetQueue(vhost, "q"); err == nil {
		t.Error("a deleted queue is missing")
	}
}

func TestPages(t *testing.T) {
	c := fresh(t)
	for _, name := range []string{"a", "b", "c"} {
		must(c.DeclareQueue(vhost, name, rh.QueueSettings{Durable: true}))
	}
	page := must(c.PagedListQueuesWithParameters(map[string][]string{"page": {"1"}, "page_size": {"2"}}))
	if page.PageSize != 2 || len(page.Items) != 2 || page.TotalCount < 3 {
		t.Errorf("%+v", page)
	}
}

func TestUsersPermissionsAndLimits(t *testing.T) {
	c := fresh(t)
	must(c.PutUser("hole", rh.UserSettings{Password: "secret", Tags: rh.UserTags{"management"}}))
	defer func() { must(c.DeleteUser("hole")) }()
	must(c.UpdatePermissionsIn(vhost, "hole", rh.Permissions{Configure: "a", Write: "b", Read: "c"}))
	if granted := must(c.GetPermissionsIn(vhost, "hole")); granted.Write != "b" {
		t.Errorf("%+v", granted)
	}
	must(c.UpdateTopicPermissionsIn(vhost, "hole", rh.TopicPermissions{Exchange: "amq.topic", Write: "w", Read: "r"}))
	if topics := must(c.GetTopicPermissionsIn(vhost, "hole")); len(topics) != 1 {
		t.Errorf("%+v", topics)
	}
	must(c.PutVhostLimits(vhost, rh.VhostLimitsValues{"max-queues": 3}))
	if limits := must(c.GetVhostLimits(vhost)); len(limits) != 1 || limits[0].Value["max-queues"] != 3 {
		t.Errorf("%+v", limits)
	}
	must(c.PutUserLimits("hole", rh.UserLimitsValues{"max-channels": 4}))
	if user := must(c.GetUser("hole")); user.Name != "hole" || len(user.Tags) != 1 {
		t.Errorf("%+v", user)
	}
	if users := must(c.ListUsers()); len(users) < 2 {
		t.Errorf("%+v", users)
	}
}

func TestPoliciesAndParameters(t *testing.T) {
	c := fresh(t)
	policy := rh.Policy{Pattern: "^q", ApplyTo: "queues", Priority: 2, Definition: rh.PolicyDefinition{"max-length": 7}}
	must(c.PutPolicy(vhost, "p", policy))
	if found := must(c.GetPolicy(vhost, "p")); found.Pattern != "^q" || found.Priority != 2 {
		t.Errorf("%+v", found)
	}
	must(c.PutOperatorPolicy(vhost, "o", rh.OperatorPolicy{Pattern: "^q", ApplyTo: "queues", Definition: rh.PolicyDefinition{"max-length": 5}}))
	must(c.DeclareQueue(vhost, "q", rh.QueueSettings{Durable: true}))
	if queue := must(c.GetQueue(vhost, "q")); queue.Policy != "p" {
		t.Errorf("%+v", queue)
	}
	must(c.DeletePolicy(vhost, "p"))
	must(c.PutGlobalParameter("hole", map[string]interface{}{"a": 1}))
	if found := must(c.GetGlobalParameter("hole")); found.Name != "hole" {
		t.Errorf("%+v", found)
	}
	must(c.DeleteGlobalParameter("hole"))
}

func TestDefinitionsAndHealth(t *testing.T) {
	c := fresh(t)
	must(c.DeclareQueue(vhost, "q", rh.QueueSettings{Durable: true}))
	all := must(c.ListDefinitions())
	if all.Users == nil || all.Queues == nil {
		t.Errorf("%+v", all)
	}
	if health := must(c.HealthCheckAlarms()); !health.Ok() {
		t.Errorf("%+v", health)
	}
	if health := must(c.HealthCheckVirtualHosts()); !health.Ok() {
		t.Errorf("%+v", health)
	}
	if health := must(c.HealthCheckNodeIsQuorumCritical()); !health.Ok() {
		t.Errorf("%+v", health)
	}
}
