/** The documents of the control API, as far as the page shows them. */

export interface Broker {
  id: number;
  host: string;
  port: number;
  state: "running" | "stopped";
}

export interface Cluster {
  kind: "mock" | "proxy";
  release: string;
  cluster_id: string;
  bootstrap_servers: string;
  capabilities: string[];
  brokers: Broker[];
}

export interface Clock {
  mode: "real" | "manual";
  time: string;
  time_ms: number;
}

export type Assignment = Record<string, number[]>;

export interface Member {
  member_id: string;
  instance_id?: string | null;
  client_id: string;
  host: string;
  subscription?: string[] | null;
  subscribed_regex?: string | null;
  assignment?: Assignment | null;
  tasks?: Record<string, Record<string, number[]>>;
  last_heartbeat_ms?: number | null;
  state?: string;
  epoch?: number;
}

export interface Committed {
  offset: number;
  lag?: number | null;
}

export interface Group {
  id: string;
  type: string;
  state: string;
  generation: number;
  epoch?: number;
  protocol_type: string;
  protocol?: string | null;
  leader: string;
  coordinator: number;
  members: Record<string, Member>;
  offsets: Record<string, Record<string, Committed>>;
}

/** The lag of a group in the past, as the server has recorded it. */
export interface LagHistory {
  times_ms: number[];
  total: number[];
  partitions: Record<string, Record<string, (number | null)[]>>;
}

export interface Partition {
  leader: number;
  start: number;
  end: number;
}

export interface Topic {
  id: string;
  internal?: boolean;
  partitions: Record<string, Partition>;
}

export interface Connection {
  id: number;
  client_id: string;
  address: string;
  listener: string;
  broker: number;
  principal: string;
  requests: number;
  since: string;
}

export interface Transaction {
  transactional_id: string;
  producer_id: number;
  epoch: number;
  state: string;
  timeout_ms: number;
  started_ms?: number | null;
  partitions: { topic: string; partition: number }[];
  coordinator: number;
}

export interface Fault {
  name: string;
  position: number;
  matched: number;
  applied: number;
  holding: number;
  exhausted: boolean;
  warnings?: { path?: string; detail?: string }[];
  match?: Record<string, unknown>;
  occurrence?: Record<string, unknown>;
  action?: Record<string, unknown>;
}

/** A share partition that a leader has loaded; `acquired`: records in flight by member id. */
export interface SharePartition {
  start: number;
  lag: number;
  acquired: Record<string, number>;
}

/** Everything that the page shows, but events and requests. */
export interface State {
  cluster: Cluster;
  clock: Clock;
  groups: Record<string, Group>;
  shares?: Record<string, Record<string, Record<string, SharePartition>>>;
  topics: Record<string, Topic>;
  connections: Record<string, Connection>;
  transactions: Record<string, Transaction>;
  faults: Record<string, Fault>;
  presets?: Record<string, boolean>;
  events: { first: number; last: number };
  requests: { first: number; last: number };
  left_out?: Record<string, number>;
}

/** An event of the journal. */
export interface JournalEvent {
  id: number;
  time_ms: number;
  kind: string;
  group: string;
  client?: string;
  member_id?: string;
  generation?: number;
  reason?: string;
  leader?: string;
  protocol?: string;
  members?: string[];
  assignment?: Assignment | null;
  offsets?: Record<string, Record<string, number>>;
  transactional_id?: string;
  fault?: string;
  records?: Record<string, Record<string, Record<string, number>>>;
  missed?: number;
  kinds?: string[];
  after?: number;
}

/** A request as the stream has it, without bodies. */
export interface RequestLine {
  id: number;
  time: string;
  time_ms: number;
  api: string;
  version: number;
  client_id: string;
  broker: number;
  host: string;
  groups?: string[];
  topics?: string[];
  error_code?: number | null;
  latency_ms?: number | null;
  fault?: string | null;
  size?: number;
  response_size?: number | null;
}

export interface Piece {
  name: string;
  type: string;
  offset: number;
  length: number;
  value?: unknown;
  note?: string;
  error?: string;
  children?: Piece[];
  left_out?: number;
  unpacked?: Tree;
}

export interface Tree {
  name: string;
  error?: string;
  children: Piece[];
  left_out?: number;
}

export interface Frame {
  hex?: string | null;
  explain: Tree;
  left_out?: number;
}

export interface RequestDetail extends RequestLine {
  request: unknown;
  response: unknown;
  bodies_left_out?: boolean;
  request_frame?: Frame | null;
  response_frame?: Frame | null;
}

export interface Form {
  name: string;
  description: string;
  parameters: Record<string, { type: string; minimum?: number; maximum?: number; default?: unknown; possible?: string[] }>;
}

export interface Api {
  name: string;
  key: number;
  versions: [number, number];
  match: string[];
  errors: string[];
  actions: string[];
  malform: Form[];
}

/** A parameter of a preset. */
export interface Parameter {
  name: string;
  kind: string;
  description?: string;
  required?: boolean;
  default?: unknown;
  lowest?: number;
  highest?: number;
  options?: string[];
}

export interface Preset {
  name: string;
  description: string;
  parameters: Record<string, Omit<Parameter, "name">>;
}

export interface TopicRecord {
  partition: number;
  offset: number;
  timestamp_ms: number;
  key: Data;
  value: Data;
  headers: { key: string; value: Data }[];
}

export type Data = string | null | { base64: string };
