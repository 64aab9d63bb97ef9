// The pages by the first word of their address. `tag`: whom the broker lets see what is on it; `within`: the address goes on with a vhost.
import Channel from "./channel.svelte";
import Channels from "./channels.svelte";
import Cluster from "./cluster.svelte";
import Connection from "./connection.svelte";
import Connections from "./connections.svelte";
import Consumers from "./consumers.svelte";
import Definitions from "./definitions.svelte";
import Exchange from "./exchange.svelte";
import Exchanges from "./exchanges.svelte";
import Limits from "./limits.svelte";
import Log from "./log.svelte";
import Missing from "./missing.svelte";
import Nodes from "./nodes.svelte";
import Overview from "./overview.svelte";
import Policies from "./policies.svelte";
import Profile from "./profile.svelte";
import Queue from "./queue.svelte";
import Queues from "./queues.svelte";
import Shovels from "./shovels.svelte";
import Streams from "./streams.svelte";
import Topology from "./topology.svelte";
import User from "./user.svelte";
import Users from "./users.svelte";
import Vhost from "./vhost.svelte";
import Vhosts from "./vhosts.svelte";
import { route } from "../lib/router.svelte.js";

/** A list that becomes a detail page when the address goes on. */
const both = (title, list, detail, more) => ({ title, ...more, get is() { return route.rest.length ? detail : list; } });

export const pages = {
  overview: { title: "Overview", is: Overview },
  connections: both("Connections", Connections, Connection),
  channels: both("Channels", Channels, Channel),
  consumers: { title: "Consumers", is: Consumers },
  streams: { title: "Streams", is: Streams },
  exchanges: both("Exchanges", Exchanges, Exchange, { within: true }),
  queues: both("Queues", Queues, Queue, { within: true }),
  topology: { title: "Topology", is: Topology, within: true },
  nodes: { title: "Nodes", is: Nodes, tag: "monitoring" },
  profile: { title: "Profiling", is: Profile, tag: "administrator" },
  log: { title: "Log", is: Log, tag: "monitoring" },
  users: both("Users", Users, User, { tag: "administrator" }),
  vhosts: both("Virtual hosts", Vhosts, Vhost),
  policies: { title: "Policies", is: Policies },
  limits: { title: "Limits", is: Limits },
  shovels: { title: "Shovels", is: Shovels, tag: "monitoring policymaker" },
  cluster: { title: "Cluster", is: Cluster },
  definitions: { title: "Definitions", is: Definitions, tag: "administrator" },
  missing: { title: "No such page", is: Missing },
};
