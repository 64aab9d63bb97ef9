"""The command lines of the side-by-side comparison, in the order in which they run on one broker. Knows no broker.

One line is one case. In front of it may stand, separated by `|`:
    < TEXT     standard input
    ~          rows come in no particular order: lines are compared sorted
Lines that begin with the name of a tool, such as `rabbitmq-diagnostics`, are run by it, all others by rabbitmqctl. {pid} stands for the process id of the
client's connection as a listing shows it, {port} for the broker's AMQP port, {dir} for an empty folder.

Before the first case, client.py has declared its objects in vhost `shop` and keeps one connection open.
"""

SETUP = """
add_vhost shop
set_permissions -p shop guest .* .* .*
"""

USERS = r"""
list_users
list_users -q
list_users -s
list_users --no-table-headers
list_users --formatter json
list_users --formatter=json
list_users -s --formatter json
list_users --formatter csv
list_users -s --formatter csv
list_users --formatter erlang
list_users --formatter pretty_table
list_users -s --formatter pretty_table
list_users -q --formatter pretty_table
list_users --no-table-headers --formatter pretty_table
list_users --formatter table
list_users --formatter string
list_users extra
add_user alice secret
add_user alice secret
add_user -q quiet secret
add_user -s silent secret
add_user json secret --formatter json
<frompipe
| add_user piped
add_user
add_user a b c
add_user "" secret
add_user empty ""
add_user hashed kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR --pre-hashed-password
add_user unhashed notbase64 --pre-hashed-password
authenticate_user alice secret
authenticate_user alice wrong
authenticate_user nobody wrong
authenticate_user -q alice secret
authenticate_user -s alice secret
authenticate_user alice secret --formatter json
authenticate_user alice wrong --formatter json
authenticate_user -q alice wrong
<secret
| authenticate_user alice
authenticate_user a b c
change_password alice secret2
change_password nobody secret2
<secret3
| change_password alice
change_password
change_password alice b c
authenticate_user alice secret3
clear_password alice
clear_password nobody
clear_password
clear_password a b
authenticate_user alice secret3
set_user_tags alice monitoring management
list_users -q --formatter json
~ | list_users
set_user_tags alice policymaker,impersonator
set_user_tags alice
set_user_tags nobody monitoring
set_user_tags
set_user_tags alice administrator --formatter json
delete_user silent
delete_user -q quiet
delete_user nobody
delete_user
delete_user a b
delete_user json
delete_user piped
delete_user hashed
delete_user empty
"""

PERMISSIONS = r"""
set_permissions -p shop alice ^a .* ""
set_permissions -p shop alice ^a .*
set_permissions -p shop alice ^a .* "" extra
set_permissions -p shop nobody .* .* .*
set_permissions -p nowhere alice .* .* .*
set_permissions -p shop alice "(" .* .*
set_permissions -p shop alice "*" .* .*
set_permissions --vhost shop alice ^a .* "" -q
~ | list_permissions -p shop
~ | list_permissions -p shop --formatter json
~ | list_permissions -p shop -s
list_permissions -p nowhere
list_permissions extra
list_permissions
list_user_permissions alice
list_user_permissions alice --formatter json
list_user_permissions alice --formatter erlang
list_user_permissions alice --formatter csv
list_user_permissions alice --formatter pretty_table
list_user_permissions alice -q
list_user_permissions nobody
list_user_permissions
list_user_permissions a b
set_topic_permissions -p shop alice amq.topic ^a\. .*
set_topic_permissions -p shop alice amq.topic ^a
set_topic_permissions -p shop nobody amq.topic ^a .*
set_topic_permissions -p nowhere alice amq.topic ^a .*
set_topic_permissions -p shop alice amq.topic ( .*
set_topic_permissions -p shop alice nosuch ^a .*
list_topic_permissions -p shop
list_topic_permissions -p shop --formatter json
list_topic_permissions
list_topic_permissions -p nowhere
list_topic_permissions x
list_user_topic_permissions alice
list_user_topic_permissions alice --formatter json
list_user_topic_permissions nobody
list_user_topic_permissions
clear_topic_permissions -p shop alice amq.topic
clear_topic_permissions -p shop alice
clear_topic_permissions -p shop nobody
clear_topic_permissions -p nowhere alice
clear_topic_permissions
clear_topic_permissions a b c
clear_permissions -p shop alice
clear_permissions -p shop nobody
clear_permissions -p nowhere alice
clear_permissions
clear_permissions a b
list_user_permissions alice
list_user_permissions alice --formatter json
list_user_permissions alice -s
"""

VHOSTS = r"""
add_vhost
add_vhost a b
add_vhost shop
add_vhost temp
add_vhost temp2 -q
~ | list_vhosts
~ | list_vhosts name tracing
~ | list_vhosts -s
~ | list_vhosts --formatter json
~ | list_vhosts name nonsense
delete_vhost temp
delete_vhost temp2 -q
delete_vhost nowhere
delete_vhost
delete_vhost a b
"""

LISTINGS = r"""
list_queues -p shop
list_queues -p shop -q
list_queues -p shop -s
list_queues -p shop --no-table-headers
list_queues -p shop --formatter json
list_queues -p shop --formatter csv
list_queues -p shop --formatter erlang
list_queues -p shop --formatter pretty_table
list_queues -p shop --formatter pretty_table -q
list_queues -p shop -q --formatter csv
list_queues -p shop -q --formatter json
list_queues -p shop name durable auto_delete arguments policy exclusive type state
list_queues -p shop name durable auto_delete arguments policy exclusive type state --formatter json
list_queues -p shop name durable auto_delete arguments policy exclusive type state --formatter csv
list_queues -p shop name durable auto_delete arguments policy exclusive type state --formatter erlang
list_queues -p shop name durable auto_delete arguments policy exclusive type state --formatter pretty_table
list_queues -p shop name,messages consumers
list_queues -p shop messages_ready messages_unacknowledged messages message_bytes message_bytes_ready message_bytes_unacknowledged messages_persistent
list_queues -p shop messages_ram messages_ready_ram messages_unacknowledged_ram message_bytes_ram message_bytes_persistent
list_queues -p shop name messages_paged_out message_bytes_paged_out
list_queues -p shop name owner_pid exclusive_consumer_pid exclusive_consumer_tag operator_policy effective_policy_definition
list_queues -p shop name single_active_consumer_tag
list_queues -p shop name owner_pid exclusive_consumer_pid exclusive_consumer_tag operator_policy effective_policy_definition --formatter json
list_queues -p shop name slave_pids synchronised_slave_pids recoverable_slaves
list_queues -p shop name leader members online
list_queues -p shop name memory head_message_timestamp disk_reads disk_writes consumer_utilisation consumer_capacity
list_queues -p shop name reductions garbage_collection backing_queue_status
list_queues -p shop vhost name
list_queues -p shop name pid
list_queues -p shop nonsense
list_queues -p shop name nonsense rubbish
list_queues -p nowhere
list_queues -p nowhere --formatter json
list_queues
list_queues --formatter json
list_queues --formatter csv
list_queues --formatter erlang
list_queues --formatter pretty_table
list_queues -s
list_queues -q
list_queues --local -p shop
list_queues --online -p shop
list_queues --offline -p shop
list_queues --timeout 5 -p shop
list_queues -t 5 -p shop
list_queues --timeout=5 -p shop
list_queues --timeout infinity -p shop
list_queues --timeout nonsense -p shop
list_queues --timeout -5 -p shop
list_queues --timeout 0 -p shop
~ | list_exchanges -p shop
~ | list_exchanges -p shop -q
~ | list_exchanges -p shop -s
~ | list_exchanges -p shop --formatter json
~ | list_exchanges -p shop --formatter csv
~ | list_exchanges -p shop name type durable auto_delete internal arguments policy
~ | list_exchanges -p shop name type durable auto_delete internal arguments policy --formatter json
~ | list_exchanges -p shop name user_who_performed_action
list_exchanges -p shop nonsense
list_exchanges -p nowhere
~ | list_bindings -p shop
~ | list_bindings -p shop -q
~ | list_bindings -p shop -s
~ | list_bindings -p shop --formatter json
~ | list_bindings -p shop --formatter csv
~ | list_bindings -p shop source_name routing_key
~ | list_bindings -p shop source_name routing_key vhost
list_bindings -p shop nonsense
list_bindings -p nowhere
list_bindings
list_connections
list_connections -q
list_connections -s
list_connections --formatter json
list_connections --formatter csv
list_connections --formatter erlang
list_connections --formatter pretty_table
list_connections user vhost protocol auth_mechanism ssl state channels channel_max frame_max timeout
list_connections user vhost protocol auth_mechanism ssl state channels channel_max frame_max timeout --formatter json
list_connections user vhost protocol host port --formatter erlang
list_connections user user_provided_name
list_connections user ssl_protocol ssl_key_exchange ssl_cipher ssl_hash peer_cert_subject peer_cert_issuer peer_cert_validity
list_connections name host port peer_host peer_port
list_connections client_properties
list_connections client_properties --formatter json
list_connections pid connected_at recv_oct recv_cnt send_oct send_cnt send_pend
list_connections node
list_connections container_id
list_connections nonsense
list_connections extra,user
list_channels
list_channels -q
list_channels -s
list_channels --formatter json
list_channels --formatter csv
list_channels --formatter pretty_table
list_channels connection name number user vhost transactional confirm consumer_count messages_unacknowledged messages_uncommitted acks_uncommitted messages_unconfirmed prefetch_count
list_channels user vhost number transactional confirm consumer_count --formatter json
list_channels user vhost number transactional confirm consumer_count --formatter erlang
list_channels global_prefetch_count
list_channels nonsense
list_consumers -p shop
list_consumers -p shop -q
list_consumers -p shop -s
list_consumers -p shop --formatter json
list_consumers -p shop --formatter csv
list_consumers -p shop --formatter pretty_table
list_consumers -p shop queue_name consumer_tag ack_required prefetch_count active activity_status arguments
list_consumers -p shop queue_name consumer_tag ack_required prefetch_count active activity_status arguments --formatter erlang
list_consumers -p shop queue_name exclusive
list_consumers -p shop nonsense
list_consumers -p nowhere
list_consumers
list_consumers --formatter json
list_unresponsive_queues -p shop
list_unresponsive_queues -p shop --formatter json
list_unresponsive_queues -p shop nonsense
"""

QUEUES = r"""
purge_queue -p shop orders
purge_queue -p shop -q orders
purge_queue -p shop none
purge_queue -p nowhere none
purge_queue
purge_queue a b
delete_queue -p shop none
delete_queue -p nowhere none
delete_queue
delete_queue a b
delete_queue -p shop busy --if-unused
delete_queue -p shop full --if-empty
delete_queue -p shop full
delete_queue -p shop busy -q
"""

NODE = r"""
ping
ping -q
ping -s
ping --formatter json
ping extra
await_startup
await_startup -q
await_startup extra
version
version --formatter json
--version
node_health_check
help
help list_users
help nonsense
list_users --help
--help
eval 1+1.
eval
nonsense
list_user
list_queue
delete_usr
status extra
list_users --nonsense
list_users --nonsense=1
list_users -x
list_users -p
list_users --formatter
list_users -t 0
list_users -qs
list_users --dry-run
list_users --print-stacktrace
list_queues --if-empty
list_users -p / -q
-q list_users
-q -p shop list_permissions
set_log_level nonsense
set_log_level
encode
hash_password foo
hash_password
<foo
| hash_password
hash_password a b
stop_app extra
close_connection "<0.1.0>" reason
close_connection "<rabbit@localhost.1.9999.0>" reason
close_connection nonsense reason
close_connection "<0.1.0>"
close_connection
close_all_connections
close_all_connections -p nowhere reason
close_all_user_connections
close_all_user_connections nobody reason
rabbitmq-diagnostics ping
rabbitmq-diagnostics ping -q
rabbitmq-diagnostics ping -s
rabbitmq-diagnostics is_running
rabbitmq-diagnostics is_running -q
rabbitmq-diagnostics is_running --formatter json
rabbitmq-diagnostics is_booting
rabbitmq-diagnostics is_booting --formatter json
rabbitmq-diagnostics check_running
rabbitmq-diagnostics check_running -q
rabbitmq-diagnostics check_running -s
rabbitmq-diagnostics check_running --formatter json
rabbitmq-diagnostics check_running extra
rabbitmq-diagnostics check_virtual_hosts
rabbitmq-diagnostics check_virtual_hosts -q
rabbitmq-diagnostics check_virtual_hosts --formatter json
rabbitmq-diagnostics check_port_listener {port}
rabbitmq-diagnostics check_port_listener {port} -q
rabbitmq-diagnostics check_port_listener {port} --formatter json
rabbitmq-diagnostics check_port_listener 1
rabbitmq-diagnostics check_port_listener 1 --formatter json
rabbitmq-diagnostics check_port_listener nonsense
rabbitmq-diagnostics check_port_listener
rabbitmq-diagnostics check_port_connectivity
rabbitmq-diagnostics check_port_connectivity -q
rabbitmq-diagnostics check_port_connectivity --formatter json
rabbitmq-diagnostics check_protocol_listener amqp
rabbitmq-diagnostics check_protocol_listener amqp --formatter json
rabbitmq-diagnostics check_protocol_listener mqtt
rabbitmq-diagnostics check_protocol_listener nonsense
rabbitmq-diagnostics check_if_any_deprecated_features_are_used
rabbitmq-diagnostics check_certificate_expiration
rabbitmq-diagnostics listeners
rabbitmq-diagnostics listeners --formatter json
rabbitmq-diagnostics listeners --formatter csv
rabbitmq-diagnostics server_version
rabbitmq-diagnostics server_version -q
rabbitmq-diagnostics server_version --formatter json
rabbitmq-diagnostics erlang_version
rabbitmq-diagnostics erlang_version -q
rabbitmq-diagnostics erlang_version --details
rabbitmq-diagnostics erlang_version --formatter json
rabbitmq-diagnostics memory_breakdown
rabbitmq-diagnostics memory_breakdown --formatter json
rabbitmq-diagnostics memory_breakdown --unit MB
rabbitmq-diagnostics os_env
rabbitmq-diagnostics os_env --formatter json
rabbitmq-diagnostics command_line_arguments
rabbitmq-diagnostics log_location
rabbitmq-diagnostics log_tail
rabbitmq-diagnostics log_tail -N 1
rabbitmq-diagnostics maybe_stuck
rabbitmq-diagnostics nonsense
rabbitmq-diagnostics list_users
rabbitmq-diagnostics
rabbitmq-diagnostics help
rabbitmq-diagnostics check_if_node_is_quorum_critical
rabbitmq-diagnostics feature_flags
cluster_status
cluster_status --formatter json
status
status --formatter json
environment
export_definitions
export_definitions a b
export_definitions {dir}/all.json
export_definitions {dir}/more.json -q
export_definitions /nosuch/dir/all.json
export_definitions -
import_definitions {dir}/nosuch.json
import_definitions {dir}/all.json
import_definitions {dir}/all.json -q
import_definitions {dir}/all.json extra
delete_user alice
close_connection {pid} "enough of it"
list_connections
list_channels
list_connections --formatter json
list_connections -s
"""

TOOLS = r"""
rabbitmq-diagnostics check_if_metadata_store_is_initialized
rabbitmq-diagnostics check_if_metadata_store_is_initialized -q
rabbitmq-diagnostics check_if_metadata_store_is_initialized_with_data
rabbitmq-diagnostics check_if_node_is_mirror_sync_critical
rabbitmq-diagnostics check_if_new_quorum_queue_replicas_have_finished_initial_sync
rabbitmq-diagnostics check_for_quorum_queues_without_an_elected_leader
rabbitmq-diagnostics discover_peers
rabbitmq-diagnostics discover_peers extra
rabbitmq-diagnostics message_size_stats --formatter json
rabbitmq-diagnostics list_node_auth_attempt_stats
rabbitmq-diagnostics resolve_hostname localhost
rabbitmq-diagnostics resolve_hostname localhost -q
rabbitmq-diagnostics resolve_hostname localhost --address-family ipv4
rabbitmq-diagnostics resolve_hostname
rabbitmq-diagnostics cipher_suites
rabbitmq-diagnostics erlang_cookie_hash
has_reached_target_cluster_size
has_reached_target_cluster_size -q
reconcile_vhosts
reset_stats_db
reset_stats_db extra
force_gc
force_gc -q
set_log_level info
set_log_level info -q
activate_free_disk_space_monitoring
list_deprecated_features
list_deprecated_features nonsense
rabbitmq-queues rebalance all
rabbitmq-queues rebalance classic
rabbitmq-queues rebalance
rabbitmq-queues check_if_node_is_quorum_critical
rabbitmq-queues quorum_status nonsense
rabbitmq-upgrade await_online_quorum_plus_one
rabbitmq-upgrade post_upgrade
rabbitmq-plugins is_enabled rabbitmq_management_agent
rabbitmq-plugins is_enabled rabbitmq_management_agent rabbitmq_web_dispatch
rabbitmq-plugins is_enabled rabbitmq_management_agent -q
rabbitmq-plugins is_enabled nonsense
rabbitmq-plugins is_enabled nonsense rubbish
rabbitmq-plugins is_enabled
rabbitmq-plugins list
rabbitmq-plugins list -m management_agent
rabbitmq-plugins list -q -m management_agent
rabbitmq-plugins list -q -e -m management_agent
rabbitmq-plugins list -q -m nonsense
rabbitmq-plugins list -q -v management_agent
rabbitmq-plugins list -m -v
rabbitmq-plugins list management_agent --formatter json
rabbitmq-plugins list a b
rabbitmq-plugins enable
rabbitmq-plugins disable
rabbitmq-plugins directories
rabbitmq-plugins nonsense
"""

POLICIES = r"""
add_vhost rules
set_permissions -p rules guest .* .* .*
<{"vhosts":[{"name":"rules"}],"queues":[{"name":"orders","vhost":"rules","durable":true,"auto_delete":false,"arguments":{}}],"exchanges":[{"name":"events","vhost":"rules","type":"fanout","durable":true,"auto_delete":false,"internal":false,"arguments":{}}]}
| import_definitions -q
list_policies -p rules
list_policies -p nosuchvhost
list_policies extra
list_operator_policies -p rules
list_operator_policies -p nosuchvhost
set_policy -p rules limit ^orders '{"max-length":5}'
set_policy -p rules limit ^orders '{"max-length":6}'
set_policy -p rules -q quiet ^none '{"max-length":5}'
set_policy -p rules -s silent ^none '{"max-length":5}'
set_policy -p rules json ^none '{"max-length":5}' --formatter json
set_policy -p rules --priority 3 --apply-to queues times ^orders '{"message-ttl":60000,"expires":3600000,"dead-letter-exchange":"","dead-letter-routing-key":"dead"}'
set_policy -p rules --priority -1 --apply-to exchanges ways '(?i)^EVENTS$' '{"alternate-exchange":"amq.fanout"}'
set_policy -p rules --apply-to classic_queues a '' '{"overflow":"reject-publish-dlx","queue-mode":"lazy","queue-version":2}'
set_policy -p rules --apply-to quorum_queues b '' '{"delivery-limit":-1,"dead-letter-strategy":"at-least-once","max-in-memory-length":5}'
set_policy -p rules --apply-to streams c '' '{"max-age":"7D","stream-max-segment-size-bytes":500000,"initial-cluster-size":1,"queue-leader-locator":"balanced"}'
set_policy -p rules "a b" '^(?!amq\.).*' '{"max-length-bytes":0}'
set_policy
set_policy -p rules a ^a
set_policy -p rules a ^a '{"max-length":5}' extra
set_policy -p nosuchvhost a ^a '{"max-length":5}'
set_policy -p rules --priority high a ^a '{"max-length":5}'
set_policy -p rules --apply-to none a ^a '{"max-length":5}'
set_policy -p rules d ^a '{}'
set_policy -p rules d ^a '[]'
set_policy -p rules d ^a '{bad'
set_policy -p rules d ( '{"max-length":5}'
set_policy -p rules d * '{"max-length":5}'
set_policy -p rules d [a '{"max-length":5}'
set_policy -p rules d ^a '{"max-length":"5"}'
set_policy -p rules d ^a '{"max-length":-1,"message-ttl":-1}'
set_policy -p rules d ^a '{"message-ttl":1.5}'
set_policy -p rules d ^a '{"expires":0}'
set_policy -p rules d ^a '{"overflow":"drop"}'
set_policy -p rules d ^a '{"dead-letter-exchange":["a",1,null]}'
set_policy -p rules d ^a '{"dead-letter-routing-key":{"b":true,"a":"c"}}'
set_policy -p rules d ^a '{"queue-version":3}'
set_policy -p rules d ^a '{"queue-mode":"eager"}'
set_policy -p rules d ^a '{"ha-mode":"all"}'
set_policy -p rules d ^a '{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic","max-length":1}'
set_policy -p rules d ^a '{"a-setting-that-nobody-knows":"and a long value","another":12345,"third":true,"zz":null}'
set_policy -p rules d ^a '{"queue-master-locator":"min-masters"}'
set_policy -p rules d ^a '{"delayed-retry-type":"all"}'
set_policy -p rules d ^a '{"delayed-retry-type":"all","delayed-retry-min":10,"delayed-retry-max":5}'
set_policy -p rules d ^a '{"stream-filter-size-bytes":5}'
set_policy -p rules d ^a '{"max-age":"1X"}'
~ | list_policies -p rules
~ | list_policies -p rules -q
~ | list_policies -p rules -s
~ | list_policies -p rules --no-table-headers
list_policies -p rules --formatter json
~ | list_policies -p rules --formatter csv
list_queues -p rules -q name policy operator_policy effective_policy_definition
~ | list_exchanges -p rules -q name policy
set_operator_policy -p rules --priority 1 --apply-to queues floor ^orders '{"message-ttl":50000,"expires":7200000,"max-length":9}'
set_operator_policy -p rules floor2 ^x '{"max-length":5}'
set_operator_policy -p rules e ^a '{"dead-letter-exchange":"x","ha-mode":"all"}'
set_operator_policy -p rules e ^a '{"max-length":-1}'
set_operator_policy -p rules e ( '{"max-length":1}'
set_operator_policy -p nosuchvhost e ^a '{"max-length":1}'
set_operator_policy -p rules e ^a
list_operator_policies -p rules
list_operator_policies -p rules --formatter json
list_operator_policies -p rules -s
list_operator_policies -p rules --formatter erlang
list_operator_policies -p rules --formatter pretty_table
list_queues -p rules -q name policy operator_policy effective_policy_definition
list_queues -p rules -q name effective_policy_definition --formatter json
list_queues -p rules -q name effective_policy_definition --formatter erlang
list_queues -p rules -q name effective_policy_definition --formatter pretty_table
~ | list_parameters -p rules
list_parameters -p rules --formatter json
set_parameter -p rules policy x '{"pattern":"","definition":{"max-length":1},"priority":0}'
set_parameter -p rules operator_policy x '{}'
set_parameter -p rules operator_policy x '{"pattern":"(","definition":{"max-length":"1"},"priority":"0","apply-to":"none","more":1}'
set_parameter -p rules operator_policy par '{"pattern":"^z","definition":{"max-length":1},"priority":0,"apply-to":"all"}'
~ | list_operator_policies -p rules
clear_parameter -p rules operator_policy par
clear_parameter -p rules operator_policy par
clear_parameter -p rules policy limit
clear_policy -p rules none
clear_policy -p nosuchvhost none
clear_policy
clear_policy -p rules a b
clear_operator_policy -p rules none
clear_operator_policy -p rules floor2
clear_operator_policy -p rules -q floor
clear_policy -p rules times
clear_policy -p rules -s limit
clear_policy -p rules "a b"
delete_vhost rules
"""

MATCHING = r"""
add_vhost matching -q
set_policy -p matching --priority 1 all ^amq.topic '{"alternate-exchange":"amq.fanout"}'
set_policy -p matching --priority 5 --apply-to exchanges exchanges ^amq. '{"alternate-exchange":"amq.direct"}'
set_policy -p matching --apply-to queues queues .* '{"max-length":5}'
rabbitmq-diagnostics list_policies_that_match -p matching --object-type exchange amq.topic --formatter json
rabbitmq-diagnostics list_policies_that_match -p matching --object-type exchange amq.topic
rabbitmq-diagnostics list_policies_that_match -p matching --object-type exchange amq.direct -q --formatter json
rabbitmq-diagnostics list_policies_that_match -p matching none
rabbitmq-diagnostics list_policies_that_match -p matching none --formatter json
rabbitmq-diagnostics list_policies_that_match -p nosuchvhost none
rabbitmq-diagnostics list_policies_that_match
rabbitmq-diagnostics list_policies_that_match a b
rabbitmq-diagnostics list_policies_that_match -p matching --object-type nonsense amq.topic
rabbitmq-diagnostics list_policies_with_classic_queue_mirroring
delete_vhost matching -q
"""

MAINTENANCE = r"""
suspend_listeners
suspend_listeners
suspend_listeners -q
suspend_listeners --formatter json
suspend_listeners extra
rabbitmq-diagnostics check_running
resume_listeners
resume_listeners -q
resume_listeners --formatter json
resume_listeners extra
rabbitmq-upgrade drain
rabbitmq-upgrade drain -q
rabbitmq-upgrade drain --formatter json
rabbitmq-upgrade drain extra
rabbitmq-diagnostics check_running -q
rabbitmq-upgrade revive
rabbitmq-upgrade revive --formatter json
rabbitmq-upgrade revive -q
rabbitmq-upgrade revive extra
reset
reset extra
force_reset
await_startup --formatter json
rotate_logs
rotate_logs --formatter json
restart_vhost
restart_vhost -q
restart_vhost --formatter json
restart_vhost -p nosuchvhost
list_vhost_limits
list_vhost_limits -q --formatter json
list_vhost_limits --global --formatter json
rabbitmq-diagnostics list_network_interfaces
rabbitmq-diagnostics list_network_interfaces -q
rabbitmq-diagnostics list_network_interfaces --formatter json
rabbitmq-diagnostics list_network_interfaces extra
rabbitmq-diagnostics consume_event_stream --duration 1
rabbitmq-diagnostics consume_event_stream -d 1 --pattern queue
rabbitmq-diagnostics consume_event_stream --duration x
rabbitmq-diagnostics consume_event_stream extra
"""

# Nothing is on standard input, and options that must not be passed over.
GIVEN = r"""
change_password guest
add_user nopassword
authenticate_user guest
hash_password
authenticate_user guest guest
set_permissions_globally guest .* .* .*
rabbitmq-diagnostics check_certificate_expiration --unit weeks --within 5
rabbitmq-diagnostics check_certificate_expiration --unit days
rabbitmq-diagnostics check_certificate_expiration --unit nope --within 5
rabbitmq-diagnostics check_certificate_expiration --unit days --within x
rabbitmq-upgrade await_online_quorum_plus_one -t 1
rabbitmq-diagnostics -n rabbit@nosuchhost ping
rabbitmq-diagnostics -n rabbit@nosuchhost check_running
list_queues -n rabbit@nosuchhost
"""

# Byte for byte: what there is to see of nothing. A vhost without anything in it, a user without rights.
NOTHING = r"""
add_vhost bare -q
add_user barely rights -q
list_queues -p bare
list_queues -p bare -q
list_queues -p bare -s
list_queues -p bare --no-table-headers
list_queues -p bare --formatter json
list_queues -p bare --formatter csv
list_bindings -p bare
list_bindings -p bare -q
list_bindings -p bare --formatter json
list_bindings -p bare --formatter csv
list_bindings -p bare --formatter pretty_table
list_bindings -p bare --formatter erlang
list_consumers -p bare
list_consumers -p bare --formatter json
list_policies -p bare
list_policies -p bare -q
list_policies -p bare -s
list_policies -p bare --no-table-headers
list_policies -p bare --formatter json
list_policies -p bare --formatter erlang
list_operator_policies -p bare
list_operator_policies -p bare --formatter json
list_parameters -p bare
list_parameters -p bare --formatter json
list_permissions -p bare
list_permissions -p bare --formatter json
list_user_permissions barely
list_user_permissions barely -q --formatter json
list_topic_permissions -p bare
list_topic_permissions -p bare --formatter json
list_user_topic_permissions barely
list_vhost_limits -p bare
list_vhost_limits -p bare --formatter json
list_vhost_limits -p bare --formatter erlang
list_user_limits --user barely
list_user_limits --user barely --formatter json
rabbitmq-diagnostics alarms -q
rabbitmq-diagnostics alarms --formatter json
rabbitmq-diagnostics check_alarms -s
rabbitmq-diagnostics check_alarms --formatter json
list_deprecated_features --used --formatter json
wait
wait -t 1 {dir}/nosuch.pid
wait -q -t 1 {dir}/nosuch.pid
wait --pid nonsense
wait --pid 1 {dir}/nosuch.pid
wait a b
rabbitmq-plugins list nonsense
rabbitmq-plugins list -q nonsense
rabbitmq-plugins list -s nonsense
rabbitmq-streams stream_status nonsense
rabbitmq-streams add_replica a
rabbitmq-streams nonsense
delete_user barely -q
delete_vhost bare -q
"""

WITHOUT_BROKER = r"""
list_users
list_users -q
list_users -s
list_users --formatter json
list_users extra
list_users --nonsense
list_queues
list_queues --formatter json
ping
ping -q
status
stop
nonsense
await_startup --timeout 2
add_user a b
delete_queue q
list_users -n nosuchnode@localhost
rabbitmq-diagnostics ping
rabbitmq-diagnostics check_running
rabbitmq-diagnostics check_running -q
rabbitmq-diagnostics is_running
rabbitmq-diagnostics is_running --formatter json
rabbitmq-diagnostics is_booting
rabbitmq-diagnostics check_port_connectivity
rabbitmq-diagnostics check_virtual_hosts
rabbitmq-diagnostics server_version
hash_password
encode a b
version
"""

GROUPS = {"users": USERS, "permissions": PERMISSIONS, "vhosts": VHOSTS, "listings": LISTINGS, "queues": QUEUES, "node": NODE, "policies": POLICIES, "matching": MATCHING, "tools": TOOLS,
          "maintenance": MAINTENANCE, "given": GIVEN, "nothing": NOTHING}

# The output of these is compared with its line ends.
EXACT = {"nothing"}


def cases(text):
    """(id, line, standard input or None, whether sorted) of each line."""
    found, stdin = [], None
    for line in text.strip().splitlines():
        if line.startswith("<"):
            stdin = line[1:]
            continue
        unordered = line.startswith("~ | ")
        line = line.removeprefix("~ | ").removeprefix("| ")
        found.append((line, stdin, unordered))
        stdin = None
    return found
