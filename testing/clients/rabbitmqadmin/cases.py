"""Command lines of rabbitmqadmin v2, in the order in which they run on one broker: every group of its commands. Knows no broker.

One line is one case; a word in front of it says how the answers are compared:
    +     the whole output must be the same as RabbitMQ's
    ~     the exit code, and each column or field that RabbitMQ shows (values are the node's own)
    =     the exit code only
{node} is the name of the node, {port} the AMQP port, {dir} an empty folder, {connection} the name of the client's connection. All objects live in
the vhost `rqa`, which each line names unless it names another with -V; users begin with `rqa`. At a line CLIENT an AMQP client
connects anew, at WAIT time is given for what was declared to begin.
A line that begins with < is the standard input of the next.
"""

# Some commands have two names, such as `list queues` and `queues list`; both are here.
CASES = r"""
= declare vhost --name rqa --description first
= vhosts declare --name rqa-two --default-queue-type classic --description second --tracing
~ vhosts list
~ list vhosts
= vhosts enable_deletion_protection --name rqa-two
+ vhosts delete --name rqa-two
= vhosts disable_deletion_protection --name rqa-two
= passwords salt_and_hash --non-interactive secret --hashing-algorithm nonsense
= passwords salt_and_hash secret
= declare user --name rqa --password secret --tags management,policymaker
= users declare --name rqa-two --password-hash kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR --tags ""
= users declare --name rqa-none
~ users list
~ list users
= declare permissions --username rqa --configure .* --read .* --write .*
= declare permissions --username guest --configure .* --read .* --write .*
= permissions declare --username rqa-two --configure ^a --read ^b --write ^c
= permissions declare --username rqa-two --configure ( --read ^b --write ^c
= permissions declare --username rqa-missing --configure a --read ^b --write ^c
~ permissions list
~ list permissions
~ users permissions
= permissions delete --username rqa-two
= permissions delete --username rqa-two
= permissions delete --username rqa-two --idempotently
+ declare queue --name orders --durable true --arguments {"x-max-length":1000}
+ declare queue --name orders --durable true --arguments {"x-max-length":1000}
+ declare queue --name orders --durable true --arguments {"x-max-length":1001}
= queues declare --name bills --type classic --auto-delete false
= queues declare --name auto --auto-delete true
= queues declare --name bad --arguments {"x-max-length":-1}
= queues declare --name bad --arguments nonsense
= declare queue --name x -V rqa-missing
+ declare exchange --name late --type topic --durable true
+ declare exchange --name late --type fanout
= exchanges declare --name lost --type fanout --arguments {"alternate-exchange":"late"}
= exchanges declare --name bad --type nonsense
= exchanges declare --name hashed --type fanout
~ exchanges list
~ list exchanges
+ declare binding --source late --destination-type queue --destination orders --routing-key order.#
+ bindings declare --source lost --destination-type exchange --destination late --routing-key k --arguments {"a":1}
= bindings declare --source missing --destination-type queue --destination orders --routing-key k
+ exchanges bind --source late --destination-type queue --destination bills --routing-key bill
~ bindings list
~ list bindings
= exchanges unbind --source late --destination-type queue --destination bills --routing-key bill
+ bindings delete --source late --destination-type queue --destination bills --routing-key bill
= bindings delete --source late --destination-type queue --destination bills --routing-key bill --idempotently
= delete binding --source lost --destination-type exchange --destination late --routing-key k --arguments {"a":1}
+ publish message --routing-key orders --payload first
+ publish message --exchange late --routing-key order.eu --payload second --properties {"delivery_mode":2,"headers":{"a":1}}
+ publish message --exchange late --routing-key nowhere --payload third
= publish message --exchange missing --routing-key nowhere --payload third
~ get messages --queue orders --count 5 --ack-mode ack_requeue_true
~ get messages --queue orders --count 1 --ack-mode ack_requeue_false
= get messages --queue missing
~ queues list
~ list queues
~ queues show --name orders
~ queues show --name orders --columns name,vhost,durable,type
+ queues show --name missing
= purge queue --name orders
= queues purge --name missing
= rebalance queues
= queues rebalance
CLIENT
~ connections list
~ list connections
~ connections list_of_user --username rqa
~ list user_connections --username rqa
~ users connections --username rqa
~ channels list
~ list channels
~ list consumers
+ close connection --name missing
= close connection --name missing --idempotently
= close connection --name {connection}
CLIENT
= connections close --name {connection}
CLIENT
= close user_connections --username rqa
CLIENT
= connections close_of_user --username rqa
= connections close_of_user --username rqa-missing --idempotently
= declare policy --name ttl --pattern ^orders --apply-to queues --definition {"message-ttl":60000} --priority 1
+ policies declare --name late --pattern ^late --apply-to exchanges --definition {"alternate-exchange":"lost"}
+ policies declare --name bad --pattern ( --apply-to queues --definition {"message-ttl":1}
+ policies declare --name bad --pattern ^a --apply-to queues --definition {"nonsense":1}
+ policies declare --name bad --pattern ^a --apply-to nothing --definition {"message-ttl":1}
= policies declare_override --name ttl --override-name ttl-more --definition {"max-length":7}
= policies declare_blanket --name rest --apply-to queues --definition {"expires":600000}
= policies patch --name ttl --definition {"max-length":5}
= policies update_definition --name ttl --definition-key max-length --new-value 6
= policies delete_definition_keys --name ttl --definition-keys max-length
= policies update_definitions_of_all_in --definition-key max-length --new-value 9
= policies delete_definition_keys_from_all_in --definition-keys max-length
+ policies list_in
+ policies list_matching_object --name orders --type queues
+ policies list_conflicting_in
~ policies list
~ list policies
~ policies list_conflicting
= policies delete --name rest
= delete policy --name ttl-more
+ policies delete --name missing
= policies delete --name missing --idempotently
= declare operator_policy --name op --pattern ^orders --apply-to queues --definition {"max-length":50}
+ operator_policies declare --name bad --pattern ^orders --apply-to queues --definition {"dead-letter-exchange":"x"}
= operator_policies patch --name op --definition {"message-ttl":5000}
= operator_policies update_definition --name op --definition-key max-length --new-value 60
= operator_policies delete_definition_keys --name op --definition-keys message-ttl
= operator_policies update_definitions_of_all_in --definition-key max-length --new-value 70
+ operator_policies list_in
+ operator_policies list_matching_object --name orders --type queues
~ operator_policies list
~ list operator_policies
= operator_policies delete_definition_keys_from_all_in --definition-keys max-length
= delete operator_policy --name op
= operator_policies delete --name op --idempotently
= declare vhost_limit --name max-queues --value 100
= vhost_limits declare --name max-connections --value 50
+ vhost_limits declare --name nonsense --value 50
~ vhost_limits list
~ list vhost_limits
= delete vhost_limit --name max-queues
= vhost_limits delete --name max-connections
= declare user_limit --username rqa --name max-channels --value 100
= user_limits declare --username rqa --name max-connections --value 10
+ user_limits declare --username rqa --name nonsense --value 10
~ user_limits list --username rqa
~ users limits --username rqa
~ list user_limits --username rqa
= delete user_limit --username rqa --name max-channels
= user_limits delete --username rqa --name max-connections
= declare parameter --name x --component nonsense --value {"a":1}
= parameters set --name max --component operator_policy --value {"pattern":"^rqa","apply-to":"queues","definition":{"max-length":5}}
~ parameters list --component operator_policy
~ parameters list_in --component operator_policy
~ parameters list_all
~ list parameters --component operator_policy
= parameters clear --name max --component operator_policy
= delete parameter --name max --component operator_policy --idempotently
= global_parameters set --name rqa_note --value "text"
= global_parameters list
= global_parameters clear --name rqa_note
= global_parameters clear --name rqa_note
= definitions export_from_vhost --file {dir}/vhost.json
~ definitions export_from_vhost --stdout
= definitions import_into_vhost --file {dir}/vhost.json
= definitions export_from_vhost --stdout --transformations strip_cmq_keys_from_policies,drop_empty_policies
= definitions export --file {dir}/all.json
= export definitions --file {dir}/all2.json
= definitions import_into_vhost --file {dir}/missing.json
< {"queues":[{"name":"imported","vhost":"rqa","durable":true,"auto_delete":false,"arguments":{}}]}
= definitions import --stdin
< {"queues":[{"name":"imported2","durable":true,"auto_delete":false,"arguments":{}}]}
= import definitions --stdin -V rqa
< nonsense
= definitions import --stdin
~ show overview
~ show churn
= show endpoint
~ show memory_breakdown_in_bytes --node {node}
~ show memory_breakdown_in_percent --node {node}
~ nodes list
~ list nodes
~ nodes memory_breakdown_in_bytes --node {node}
~ nodes memory_breakdown_in_percent --node {node}
= nodes memory_breakdown_in_bytes --node missing@nowhere
~ auth_attempts stats --node {node}
= plugins list_all
= plugins list_on_node --node {node}
~ feature_flags list
~ list feature_flags
= feature_flags enable_all
= feature_flags enable --name nonsense
~ deprecated_features list
= deprecated_features list_used
= list deprecated_features
= list deprecated_features_in_use
+ health_check local_alarms
+ health_check cluster_wide_alarms
= health_check node_is_quorum_critical
= health_check deprecated_features_in_use
+ health_check port_listener --port {port}
= health_check port_listener --port 1
+ health_check protocol_listener --protocol amqp
+ health_check protocol_listener --protocol http
= health_check protocol_listener --protocol nonsense
= federation list_all_upstreams
= federation list_all_links
= streams list
= streams show --name missing
= streams delete --name missing --idempotently
= shell completions --shell bash
= config_file show_path
= shovels list_all
= shovels declare_amqp091 --name mover --source-uri amqp://guest:guest@127.0.0.1:{port}/rqa --destination-uri amqp://guest:guest@127.0.0.1:{port}/rqa --source-queue orders --destination-queue bills --ack-mode on-confirm
= shovels declare_amqp091 --name wrong --source-uri nonsense --destination-uri amqp:// --source-queue a --destination-queue b
WAIT
~ shovels list_all
~ shovels list
~ parameters list --component shovel
= delete shovel --name mover
= shovels delete --name mover
= shovels delete --name mover --idempotently
= shovels delete --name wrong --idempotently
+ queues delete_multiple --name-pattern ^imported --dry-run
= queues delete_multiple --name-pattern ^imported --approve
= delete queue --name bills
= queues delete --name auto
+ queues delete --name missing
= queues delete --name missing --idempotently
= delete exchange --name hashed
= exchanges delete --name lost
= exchanges delete --name missing
= exchanges delete --name amq.topic
= delete permissions --username rqa
= delete user --name rqa-none
= users delete --name rqa-two
= users delete --name rqa-missing
= vhosts delete_multiple --name-pattern ^rqa-two --dry-run
= vhosts delete_multiple --name-pattern ^rqa-two --approve
= delete vhost --name rqa
= vhosts delete --name rqa
= vhosts delete --name rqa --idempotently
= delete user --name rqa
"""


def cases():
    """(how, command line, standard input) of each; CLIENT and WAIT lines have an empty command line."""
    stdin = None
    for line in CASES.strip().splitlines():
        if line in ("CLIENT", "WAIT"):
            yield line, "", None
        elif line.startswith("< "):
            stdin = line[2:]
        else:
            how, _, words = line.partition(" ")
            yield how, words, stdin
            stdin = None
