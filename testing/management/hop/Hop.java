// Hop (com.rabbitmq:http-client), the Java client of the HTTP API, unchanged: makes objects, reads everything that it can read, deletes.
// Prints a line for each call and at the end how many failed. Argument: the URL of the HTTP API.
import com.rabbitmq.http.client.*;
import com.rabbitmq.http.client.domain.*;
import java.net.URI;
import java.util.*;
public class Hop {
  interface Step { Object run() throws Exception; }
  static int bad = 0;
  static void t(String name, Step s) { try { Object o = s.run(); String x = String.valueOf(o); System.out.println("ok " + name + " " + x.substring(0, Math.min(70, x.length())).replace("\n", " ")); } catch (Throwable e) { bad++; System.out.println("FAIL " + name + " " + e); } }
  public static void main(String[] a) throws Exception {
    Client c = new Client(new ClientParameters().url(a[0] + "/api/").username("guest").password("guest"));
    t("vhost", () -> { c.createVhost("hop", "d", "t1"); c.updatePermissions("hop", "guest", new UserPermissions() {{ setConfigure(".*"); setRead(".*"); setWrite(".*"); }}); return 1; });
    t("user", () -> { c.createUser("hop", "pw".toCharArray(), List.of("management")); c.createUserWithPasswordHash("hop2", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR".toCharArray(), List.of()); return c.getUser("hop").getTags(); });
    t("exchange", () -> { c.declareExchange("hop", "e", new ExchangeInfo("fanout", true, false)); return c.getExchange("hop", "e").getType(); });
    t("queue", () -> { c.declareQueue("hop", "q", new QueueInfo(true, false, false)); c.bindQueue("hop", "q", "e", "k"); c.bindExchange("hop", "amq.topic", "e", "x"); return c.getQueue("hop", "q"); });
    t("policy", () -> { c.declarePolicy("hop", "p", new PolicyInfo("^q", 1, "queues", Map.of("max-length", 10))); c.declareOperatorPolicy("hop", "o", new PolicyInfo("^q", 1, "queues", Map.of("max-length", 9))); return c.getPolicies("hop"); });
    t("publish", () -> c.publish("hop", "e", "k", new OutboundMessage().payload("hi").utf8Encoded()));
    t("get", () -> c.get("hop", "q").getPayload());
    t("limits", () -> { c.limitMaxNumberOfQueues("hop", 5); c.limitMaxNumberOfConnections("hop", 5); return c.getVhostLimits("hop"); });
    t("topic permissions", () -> { TopicPermissions p = new TopicPermissions(); p.setExchange("amq.topic"); p.setRead(".*"); p.setWrite(".*"); c.updateTopicPermissions("hop", "guest", p); return c.getTopicPermissionsIn("hop"); });
    t("shovel", () -> { ShovelDetails d = new ShovelDetails("amqp://", "amqp://", 30, true, null); d.setSourceQueue("q"); d.setDestinationQueue("q2"); c.declareShovel("hop", new ShovelInfo("s", d)); Thread.sleep(1500); return c.getShovelsStatus("hop").get(0).getState() + " " + c.getShovels("hop"); });
    for (var m : Client.class.getMethods()) {
      // all that reads, by reflection
      if (!m.getName().startsWith("get") && !m.getName().equals("whoAmI") || m.getName().equals("getClass")) continue;
      var ps = m.getParameterTypes();
      if (ps.length == 0) t(m.getName() + "()", () -> m.invoke(c));
      else if (ps.length == 1 && ps[0] == QueryParameters.class) t(m.getName() + "(page)", () -> m.invoke(c, new QueryParameters().pagination().pageSize(10).query()));
      else if (ps.length == 1 && ps[0] == String.class && !m.getName().matches("getNode|getConnection|getChannel|getUser|.*Of.*|getMqtt.*|getChannels")) t(m.getName() + "(hop)", () -> m.invoke(c, "hop"));
    }
    t("node", () -> c.getNode(c.getNodes().get(0).getName()).getMemoryUsed());
    t("aliveness", () -> c.alivenessTest("/"));
    t("bindings", () -> c.getQueueBindingsBetween("hop", "e", "q").size() + " " + c.getBindingsBySource("hop", "e").size() + " " + c.getExchangeBindingsByDestination("hop", "amq.topic").size());
    t("missing", () -> c.getQueue("hop", "missing"));
    t("delete", () -> { c.deleteShovel("hop", "s"); c.deletePolicy("hop", "p"); c.deleteOperatorPolicy("hop", "o"); c.unbindQueue("hop", "q", "e", "k"); c.purgeQueue("hop", "q"); c.deleteQueue("hop", "q"); c.deleteExchange("hop", "e"); c.deleteUser("hop"); c.deleteUser("hop2"); c.deleteVhost("hop"); return 1; });
    System.out.println("failed: " + bad);
  }
}
