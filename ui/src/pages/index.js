// The pages by the first word of their address. `under`: the entry of the navigation that is lit.
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
import Topology from "./topology.svelte";
import User from "./user.svelte";
import Users from "./users.svelte";
import Vhost from "./vhost.svelte";
import Vhosts from "./vhosts.svelte";
import { route } from "../lib/router.svelte.js";

/** A list that becomes a detail page when the address goes on. */
const both = (title, list, detail) => ({ title, get is() { return route.rest.length ? detail : list; } });

export const pages = {
  overview: { title: "Overview", is: Overview },
  connections: both("Connections", Connections, Connection),
  channels: both("Channels", Channels, Channel),
  consumers: { title: "Consumers", is: Consumers },
  exchanges: both("Exchanges", Exchanges, Exchange),
  queues: both("Queues", Queues, Queue),
  topology: { title: "Topology", is: Topology },
  nodes: { title: "Nodes", is: Nodes },
  profile: { title: "Profiling", is: Profile },
  log: { title: "Log", is: Log },
  users: both("Users", Users, User),
  vhosts: both("Virtual hosts", Vhosts, Vhost),
  policies: { title: "Policies", is: Policies },
  limits: { title: "Limits", is: Limits },
  shovels: { title: "Shovels", is: Shovels },
  cluster: { title: "Cluster", is: Cluster },
  definitions: { title: "Definitions", is: Definitions },
  missing: { title: "No such page", is: Missing },
};
