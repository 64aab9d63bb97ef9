// What Terraform's provider does for each of its resources: create, read back until nothing differs, change, read, delete in the order of
// dependencies, and read that it is gone (404). Everything twice, as a second `apply` does.
package rabbithole

import (
	"errors"
	"reflect"
	"testing"

	rh "github.com/michaelklishin/rabbit-hole/v3"
)

// resource is one of the provider's: how it is written, what it is read as, how it goes.
type resource struct {
	name    string
	put     func(c *rh.Client) error
	get     func(c *rh.Client) (any, error)
	want    any
	destroy func(c *rh.Client) error
}

func done[T any](_ T, err error) error { return err }

func resources(changed bool) []resource {
	length, tags := 10, rh.UserTags{"management"}
	if changed {
		length, tags = 20, rh.UserTags{"monitoring", "policymaker"}
	}
	permissions := rh.Permissions{Configure: "^a", Write: ".*", Read: ""}
	topic := rh.TopicPermissions{Exchange: "amq.topic", Write: "^w", Read: "^r"}
	definition := rh.PolicyDefinition{"max-length": float64(length), "dead-letter-exchange": "tf-x"}
	arguments := map[string]any{"alternate-exchange": "tf-ae"}
	shovel := rh.ShovelDefinition{
		SourceURI: rh.URISet{"amqp:///terraform"}, SourceQueue: "tf-q", SourceDeleteAfter: "never", SourcePrefetchCount: length,
		DestinationURI: rh.URISet{"amqp:///terraform"}, DestinationExchange: "tf-x", DestinationExchangeKey: "nobody",
		AckMode: "on-confirm", ReconnectDelay: 1, DestinationAddForwardHeaders: true,
	}
	return []resource{
		{"vhost", func(c *rh.Client) error {
			return done(c.PutVhost("terraform", rh.VhostSettings{Description: "of a plan"}))
		},
			func(c *rh.Client) (any, error) {
				it, err := c.GetVhost("terraform")
				if err != nil {
					return nil, err
				}
				return it.Description, nil
			}, "of a plan", func(c *rh.Client) error { return done(c.DeleteVhost("terraform")) }},
		{"user", func(c *rh.Client) error {
			return done(c.PutUser("tf-user", rh.UserSettings{Password: "secret", Tags: tags}))
		}, func(c *rh.Client) (any, error) {
			it, err := c.GetUser("tf-user")
			if err != nil {
				return nil, err
			}
			return it.Tags, nil
		}, tags, func(c *rh.Client) error { return done(c.DeleteUser("tf-user")) }},
		{"permissions", func(c *rh.Client) error { return done(c.UpdatePermissionsIn("terraform", "tf-user", permissions)) },
			func(c *rh.Client) (any, error) {
				it, err := c.GetPermissionsIn("terraform", "tf-user")
				return rh.Permissions{Configure: it.Configure, Write: it.Write, Read: it.Read}, err
			}, permissions, func(c *rh.Client) error { return done(c.ClearPermissionsIn("terraform", "tf-user")) }},
		{"topic permissions", func(c *rh.Client) error { return done(c.UpdateTopicPermissionsIn("terraform", "tf-user", topic)) },
			func(c *rh.Client) (any, error) {
				all, err := c.GetTopicPermissionsIn("terraform", "tf-user")
				if err != nil {
					return nil, err
				}
				return rh.TopicPermissions{Exchange: all[0].Exchange, Write: all[0].Write, Read: all[0].Read}, nil
			}, topic, func(c *rh.Client) error { return done(c.DeleteTopicPermissionsIn("terraform", "tf-user", "amq.topic")) }},
		{"exchange", func(c *rh.Client) error {
			return done(c.DeclareExchange("terraform", "tf-x", rh.ExchangeSettings{Type: "topic", Durable: true, Arguments: arguments}))
		}, func(c *rh.Client) (any, error) {
			it, err := c.GetExchange("terraform", "tf-x")
			if err != nil {
				return nil, err
			}
			return rh.ExchangeSettings{Type: it.Type, Durable: it.Durable, AutoDelete: bool(it.AutoDelete), Arguments: it.Arguments}, nil
		}, rh.ExchangeSettings{Type: "topic", Durable: true, Arguments: arguments},
			func(c *rh.Client) error { return done(c.DeleteExchange("terraform", "tf-x")) }},
		{"queue", func(c *rh.Client) error {
			return done(c.DeclareQueue("terraform", "tf-q", rh.QueueSettings{Durable: true, Arguments: map[string]any{"x-max-length": 99}}))
		}, func(c *rh.Client) (any, error) {
			it, err := c.GetQueue("terraform", "tf-q")
			if err != nil {
				return nil, err
			}
			return []any{it.Durable, it.Arguments["x-max-length"]}, nil
		}, []any{true, float64(99)}, func(c *rh.Client) error { return done(c.DeleteQueue("terraform", "tf-q")) }},
		{"binding", func(c *rh.Client) error {
			return done(c.DeclareBinding("terraform", rh.BindingInfo{Source: "tf-x", Destination: "tf-q", DestinationType: "queue", RoutingKey: "a/b.#", Arguments: map[string]any{"n": 1}}))
		}, func(c *rh.Client) (any, error) {
			it, err := binding(c)
			if err != nil {
				return nil, err
			}
			return []any{it.RoutingKey, it.Arguments["n"]}, nil
		}, []any{"a/b.#", float64(1)}, func(c *rh.Client) error {
			it, err := binding(c)
			if err != nil {
				return err
			}
			return done(c.DeleteBinding("terraform", it))
		}},
		{"policy", func(c *rh.Client) error {
			return done(c.PutPolicy("terraform", "tf-p", rh.Policy{Pattern: "^tf", ApplyTo: "queues", Priority: 3, Definition: definition}))
		}, func(c *rh.Client) (any, error) {
			it, err := c.GetPolicy("terraform", "tf-p")
			if err != nil {
				return nil, err
			}
			return []any{it.Pattern, it.ApplyTo, it.Priority, it.Definition}, nil
		}, []any{"^tf", "queues", 3, definition}, func(c *rh.Client) error { return done(c.DeletePolicy("terraform", "tf-p")) }},
		{"operator policy", func(c *rh.Client) error {
			return done(c.PutOperatorPolicy("terraform", "tf-op", rh.OperatorPolicy{Pattern: "^tf", ApplyTo: "queues", Definition: rh.PolicyDefinition{"max-length": length}}))
		}, func(c *rh.Client) (any, error) {
			it, err := c.GetOperatorPolicy("terraform", "tf-op")
			if err != nil {
				return nil, err
			}
			return []any{it.Pattern, it.ApplyTo, it.Definition}, nil
		}, []any{"^tf", "queues", rh.PolicyDefinition{"max-length": float64(length)}},
			func(c *rh.Client) error { return done(c.DeleteOperatorPolicy("terraform", "tf-op")) }},
		{"shovel", func(c *rh.Client) error { return done(c.DeclareShovel("terraform", "tf-s", shovel)) },
			func(c *rh.Client) (any, error) {
				it, err := c.GetShovel("terraform", "tf-s")
				if err != nil {
					return nil, err
				}
				return it.Definition, nil
			}, shovel, func(c *rh.Client) error { return done(c.DeleteShovel("terraform", "tf-s")) }},
	}
}

// binding finds the one of tf-q among all of the vhost, as the provider does.
func binding(c *rh.Client) (rh.BindingInfo, error) {
	all, err := c.ListBindingsIn("terraform")
	for _, it := range all {
		if it.Source == "tf-x" && it.Destination == "tf-q" {
			return it, nil
		}
	}
	if err == nil {
		err = rh.ErrorResponse{StatusCode: 404}
	}
	return rh.BindingInfo{}, err
}

func TestTerraformPlans(t *testing.T) {
	c := client(t)
	t.Cleanup(func() { c.DeleteVhost("terraform"); c.DeleteUser("tf-user") })
	for _, changed := range []bool{false, false, true} {
		for _, it := range resources(changed) {
			if err := it.put(c); err != nil {
				t.Fatalf("%s: %v", it.name, err)
			}
		}
		for _, it := range resources(changed) {
			if got, err := it.get(c); err != nil || !reflect.DeepEqual(got, it.want) {
				t.Errorf("%s: %+v, wanted %+v (%v)", it.name, got, it.want, err)
			}
		}
	}
	all := resources(true)
	for at := len(all) - 1; at >= 0; at-- {
		if err := all[at].destroy(c); err != nil {
			t.Errorf("%s is not deleted: %v", all[at].name, err)
		}
		_, err := all[at].get(c)
		var missing rh.ErrorResponse
		if !errors.As(err, &missing) || missing.StatusCode != 404 {
			t.Errorf("%s: not gone: %v", all[at].name, err)
		}
	}
}
