"""Where Warren answers differently on purpose, and what it answers then. Knows no recorded answer."""

import collections

Difference = collections.namedtuple("Difference", "why wanted")


def has(*parts):
    return lambda answer: all(part in str(answer) for part in parts)


def begins(words):
    return lambda answer: str(answer).startswith(words)


UNREACHABLE = {"exit": 69, "out": "", "err": has("Error: unable to perform an operation on node 'NODE'.", "ctl.sock", "--data-dir")}
HELP = {"exit": 0, "err": "", "out": has("Usage", "list_users", "add_user", "-p, --vhost VHOST", "help <command>")}
HELP_OF_ONE = {"exit": 0, "err": "", "out": has("Usage", "list_users [--no-table-headers] [--timeout <timeout>]", "-q, --quiet")}
LISTENERS = "'port': 0, 'protocol': 'amqp', 'purpose': 'AMQP 0-9-1'"

DIFFERENCES = {}


def differ(why, lines, **wanted):
    for line in lines:
        DIFFERENCES[line] = Difference(why, wanted)


def differ_without(why, lines, **wanted):
    for line in lines:
        DIFFERENCES["without", line] = Difference(why, wanted)


differ_without("the reasons are a socket's, not Erlang's", [
    "list_users", "list_users -q", "list_users -s", "list_users --formatter json", "list_queues", "list_queues --formatter json", "status",
    "add_user a b", "delete_queue q", "list_users -n nosuchnode@localhost", "rabbitmq-diagnostics check_running -q",
    "rabbitmq-diagnostics is_running --formatter json", "rabbitmq-diagnostics check_port_connectivity",
    "rabbitmq-diagnostics check_virtual_hosts"], **UNREACHABLE)
differ_without("the same, behind the line that says what is tried", ["stop"], **{**UNREACHABLE, "out": "Stopping and halting node NODE ..."})
differ_without("the same", ["rabbitmq-diagnostics check_running"], **{**UNREACHABLE, "out": "Checking if RabbitMQ is running on node NODE ..."})
differ_without("the same", ["rabbitmq-diagnostics is_running"], **{**UNREACHABLE, "out": "Asking node NODE for its status ..."})
differ_without("the same", ["rabbitmq-diagnostics is_booting"], **{**UNREACHABLE, "out": "Asking node NODE for its boot status ..."})
differ_without("the same", ["rabbitmq-diagnostics server_version"], **{**UNREACHABLE, "out": begins("Asking node NODE for its")})
differ_without("it waits for the node to be started, as it says", ["await_startup --timeout 2"], exit=75, out="",
               err="Error: operation await_startup on node NODE timed out. Timeout value used: 2000")

differ("a text or a part of the help that is Warren's own", ["help", "--help", "rabbitmq-diagnostics help"], **HELP)
differ("the same", ["help list_users", "list_users --help"], **HELP_OF_ONE)
differ("the guide is Warren's own", ["nonsense", "rabbitmq-diagnostics nonsense"], exit=64, out="",
       err=has("Command 'nonsense' not found.", "Usage", "list_users"))
differ("the same", ["rabbitmq-diagnostics"], exit=64, out="", err=has("Usage", "check_running"))

differ("formatters that nobody documents are refused", ["list_users --formatter string"], exit=64, err=has("unknown formatter string"))
differ("harmless, so accepted", ["list_users --no-table-headers --formatter pretty_table"], exit=0, err="")
differ("a number that is no time is refused without a stack trace", ["list_queues --timeout -5 -p shop"], exit=64, out="", err=has("--timeout : -5"))
differ("here it reads a pipe; 4.3.6 dies of one that its shell does not know", ["import_definitions -q"], exit=0, out="", err="")
differ("a mistake is told without a stack trace", ["set_policy -p rules d ^a '[]'"], exit=69,
       err="Error:\nValidation failed\n\ndefinition should be an object of settings, actually was []")
differ("settings that change nothing are named", [
    """set_policy -p rules --apply-to classic_queues a '' '{"overflow":"reject-publish-dlx","queue-mode":"lazy","queue-version":2}'""",
    """set_policy -p rules --apply-to quorum_queues b '' '{"delivery-limit":-1,"dead-letter-strategy":"at-least-once","max-in-memory-length":5}'""",
    """set_policy -p rules --apply-to streams c '' '{"max-age":"7D","stream-max-segment-size-bytes":500000,"initial-cluster-size":1,"queue-leader-locator":"balanced"}'""",
], exit=0, err="", out=has(" no effect"))
differ("what to do is said in other words", ["rabbitmq-diagnostics -n rabbit@nosuchhost check_running", "list_queues -n rabbit@nosuchhost"],
       exit=69, out="", err=begins("Error: unable to perform an operation on node 'rabbit@nosuchhost'. Please see diagnostics information and suggestions below.\n\n"))
differ("the same, and no wait of a minute", ["rabbitmq-diagnostics -n rabbit@nosuchhost ping"], exit=69, out="",
       err=begins("Error:\nFailed to connect and authenticate to rabbit@nosuchhost\n"))
differ("names of columns like everywhere else", ["list_user_topic_permissions alice"], exit=0,
       out=has("vhost\texchange\twrite\tread\nshop\tamq.topic"))
differ("readable in a drawn table, too", [
    "list_queues -p shop name durable auto_delete arguments policy exclusive type state --formatter pretty_table",
    "list_connections --formatter pretty_table", "list_consumers -p shop --formatter pretty_table"], exit=0, err="", out=has("┌─┬─", "├─┼─"))
differ("one list of rows as for every other listing", [
    "list_consumers -p shop queue_name consumer_tag ack_required prefetch_count active activity_status arguments --formatter erlang"],
    exit=0, out=has("[[{queue_name,<<\"orders\">>}", "{activity_status,up}", "{<<\"x-priority\">>,signedint,3}"))
differ("a list of something as in 3.10, as 4.3 dies of it, and of nothing as in 4.3", ["list_bindings -p shop --formatter csv"], exit=0, err="",
       out=has('"late","exchange","orders","queue","order.#",""', '"[{""kind"",""a""},{""n"",1},{""x-match"",""all""}]"'))
differ("a column more", [
    "list_queues -p shop name single_active_consumer_tag", "list_queues -p shop vhost name", "list_bindings -p shop source_name routing_key vhost",
    "list_exchanges -p shop name user_who_performed_action", "list_connections user user_provided_name",
    "list_consumers -p shop queue_name exclusive"], exit=0, err="")
differ("the names of wrong columns come in the order given", ["list_queues -p shop name reductions garbage_collection backing_queue_status"],
       exit=64, err=has("reductions,garbage_collection,backing_queue_status are not supported"))
differ("other memory is used, and the disk is used otherwise", [
    "list_queues -p shop name memory head_message_timestamp disk_reads disk_writes consumer_utilisation consumer_capacity"],
    exit=0, out=has("name\tmemory\thead_message_timestamp"))
differ("the greeting is another one, and comes in other packets", ["list_connections pid connected_at recv_oct recv_cnt send_oct send_cnt send_pend"],
       exit=0, out=has("PID\tTIME\t887\t"))

differ("nothing is said of a command that does nothing", ["node_health_check"], exit=0, out="", err="")
differ("there is no Erlang", ["eval 1+1.", "eval"], exit=69, out="", err=has("Warren has no 'eval'", "Erlang"))
differ("there is no Erlang", ["rabbitmq-diagnostics erlang_version", "rabbitmq-diagnostics erlang_version -q", "rabbitmq-diagnostics erlang_version --details",
                             "rabbitmq-diagnostics erlang_version --formatter json"], exit=0, out=has("none: Warren"))
differ("another node has counted other messages", ["rabbitmq-diagnostics message_size_stats --formatter json"], exit=0,
       out=has("'Message Size': 'below 100B'", "'Percentage': "))
differ("another node has counted other logins", ["rabbitmq-diagnostics list_node_auth_attempt_stats"], exit=0,
       out=has("protocol\tauth_attempts\tauth_attempts_failed\tauth_attempts_succeeded", "amqp091\t"))
differ("a table without lines", ["rabbitmq-diagnostics list_policies_that_match -p matching --object-type exchange amq.topic"], exit=0, err="",
       out=has("vhost\tname\tpattern\tapply-to\tdefinition\tpriority\nmatching\texchanges\t^amq.\texchanges\t", "\nmatching\tall\t^amq.topic\tall\t"))
differ("a mistake is told without a stack trace", ["rabbitmq-diagnostics list_policies_that_match -p matching --object-type nonsense amq.topic"],
       exit=64, err=has("--object-type is queue or exchange, not nonsense"))
differ("what is not there is a failure for programs, too", ["rabbitmq-diagnostics list_policies_that_match -p matching none --formatter json"], exit=65)
differ("queues are not mirrored; RabbitMQ 4.3.6 dies of it", ["rabbitmq-diagnostics list_policies_with_classic_queue_mirroring"], exit=69,
       err=has("Warren has no 'list_policies_with_classic_queue_mirroring'", "not mirrored"))
differ("the text of usage is Warren's own", ["reset", "force_reset"], exit=64, out="",
       err=has("Error: this command requires the 'rabbit' app to be stopped on the target node. Stop it with 'rabbitmqctl stop_app'."))
differ("the text of usage is Warren's own", ["reset extra", "stop_app extra"], exit=64, out="", err=has("too many arguments"))
differ("another machine", ["rabbitmq-diagnostics list_network_interfaces", "rabbitmq-diagnostics list_network_interfaces -q"], exit=0,
       err="", out=has("Interface lo\n", "addr: 127.0.0.1", "netmask: 255.0.0.0", "flags: up, loopback, running"))
differ("another machine", ["rabbitmq-diagnostics list_network_interfaces --formatter json"], exit=0,
       out=has("'message': 'Node NODE reported network interfaces'", "'result': 'ok'", "'lo': {"))
differ("suites are those of another library", ["rabbitmq-diagnostics cipher_suites"], exit=0, out=has("TLS_AES_256_GCM_SHA384"))
differ("there is no Erlang", ["rabbitmq-diagnostics erlang_cookie_hash"], exit=69, err=has("no Erlang"))
differ("nothing is deprecated", ["list_deprecated_features"], exit=0, out="Listing deprecated features ...")
differ("said in words", ["rabbitmq-queues rebalance all"], exit=0, out=has("Re-balancing leaders of all queues...", "No queue has leaders"))
differ("said in words", ["rabbitmq-queues quorum_status nonsense"], exit=65, err=has("queue 'nonsense' was not found"))
differ("other things are plugins here", ["rabbitmq-plugins is_enabled nonsense", "rabbitmq-plugins is_enabled nonsense rubbish"], exit=69,
       err=has("not enabled on node", "rabbitmq_web_dispatch"))
differ("the same", ["rabbitmq-plugins list"], exit=0, out=has("Configured: E = explicitly enabled", "[E*] rabbitmq_web_dispatch "))
differ("the same", ["rabbitmq-plugins list -q -v management_agent"], exit=0, out=has("[E*] rabbitmq_management_agent", "Version:"))
differ("what is built in is not implied by anything", ["rabbitmq-plugins list management_agent --formatter json"], exit=0,
       out=has("'name': 'rabbitmq_management_agent'", "'running': True"))
differ("nothing lies in directories", ["rabbitmq-plugins directories"], exit=0, out=has("built in"))
differ("the guide is Warren's own", ["rabbitmq-plugins nonsense"], exit=64, out="", err=has("Command 'nonsense' not found.", "is_enabled"))
differ("a stream has one member", ["rabbitmq-streams stream_status nonsense", "rabbitmq-streams add_replica a"], exit=69,
       err=has("Warren has no '", "a stream has one member"))
differ("the guide is Warren's own", ["rabbitmq-streams nonsense"], exit=64, out="", err=has("Command 'nonsense' not found.", "version"))
differ("no values are encrypted", ["encode", "encode a b"], exit=69, err=has("Warren has no 'encode'"))
differ("there are fewer listeners, and ports are numbers, not the letters of those numbers", ["rabbitmq-diagnostics check_port_listener 1 --formatter json"],
       exit=69, out="", err=has('"missing":"1"', '"ports":[PORT', '"result":"error"', '"protocol":"amqp"'))
differ("there are fewer listeners", ["rabbitmq-diagnostics check_port_listener 1"], exit=69,
    err="No listener for port 1 is active on node NODE. Found listeners that use the following ports: PORT")
differ("there are fewer listeners", ["rabbitmq-diagnostics check_port_connectivity", "rabbitmq-diagnostics check_port_connectivity -q"],
       exit=0, err="", out=has("Successfully connected to ports PORT on node NODE"))
differ("there are fewer listeners", ["rabbitmq-diagnostics check_protocol_listener mqtt", "rabbitmq-diagnostics check_protocol_listener nonsense"],
       exit=69, err=has("Error:\nNo listener for protocol ", "is active on node NODE. Found listeners for the following protocols: amqp"))
differ("there are fewer listeners", ["rabbitmq-diagnostics listeners", "rabbitmq-diagnostics listeners --formatter csv"], exit=0,
       out=has("Interface: 127.0.0.1, port: PORT, protocol: amqp, purpose: AMQP 0-9-1"))
differ("there are fewer listeners", ["rabbitmq-diagnostics listeners --formatter json", "rabbitmq-diagnostics check_port_connectivity --formatter json"],
       exit=0, out=has(LISTENERS))
differ("other parts use memory", ["rabbitmq-diagnostics memory_breakdown"], exit=0, out=has("queue_procs: 0.0 gb (", "metadata_store: ", "code: "))
differ("other parts use memory", ["rabbitmq-diagnostics memory_breakdown --unit MB"], exit=0, out=has("queue_procs: ", " mb ("))
differ("other parts use memory", ["rabbitmq-diagnostics memory_breakdown --formatter json"], exit=0, out=has("'queue_procs': {'bytes': "))
differ("the environment is this test's", ["rabbitmq-diagnostics os_env", "rabbitmq-diagnostics os_env --formatter json"], exit=0)
differ("a command line, not Erlang's parts of one", ["rabbitmq-diagnostics command_line_arguments"], exit=0, out=has("server --listen 127.0.0.1:"))
differ("the log of this test goes to standard error", ["rabbitmq-diagnostics log_location"], exit=0, out=has("Log file location(s) on node NODE ...\n<stderr>"))
differ("the log of this test goes to standard error", ["rabbitmq-diagnostics log_tail", "rabbitmq-diagnostics log_tail -N 1"], exit=69, err=has("log.file"))
differ("queues are asked, there are no Erlang processes", ["rabbitmq-diagnostics maybe_stuck"], exit=0, out=has("There are 1 queues. 0 of them"))
differ("what is running is Warren", ["status"], exit=0, err="", out=has("Status of node NODE ...\nRuntime\n\nOS PID: ", "RabbitMQ version: 4.3.6", "Totals\n\nConnection count: 1\nQueue count: 1\nVirtual host count: 2", "Listeners\n\nInterface: 127.0.0.1"))
differ("what is running is Warren", ["status --formatter json"], exit=0, out=has("'rabbitmq_version': '4.3.6'", "'alarms': []", "'totals': {'connection_count': 1, 'queue_count': 1"))
differ("what is running is Warren", ["cluster_status", "cluster_status --formatter json"], exit=0, err="", out=has("NODE", "not under maintenance"))
differ("options are Warren's", ["environment"], exit=0, err="", out=has("Application environment of node NODE ...", "heartbeat_s"))
differ("a document of its own version", ["export_definitions -"], exit=0, err="", out=has("\"queues\":["))
differ("it is done when it says so", ["import_definitions {dir}/all.json"], exit=0, err="", out=begins("Importing definitions in JSON from a file at \"/tmp/all.json\" ..."))


def find(group, line):
    """The difference of a command line, if it is known."""
    return DIFFERENCES.get((group, line)) or DIFFERENCES.get(line)


# Lines whose answers name the listeners, of which there is one more when the command comes over HTTP.
SHOWS_LISTENERS = {
    "rabbitmq-diagnostics check_port_listener 1", "rabbitmq-diagnostics check_port_listener 1 --formatter json",
    "rabbitmq-diagnostics check_port_connectivity", "rabbitmq-diagnostics check_port_connectivity -q"}
