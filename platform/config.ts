import { homedir } from 'node:os'
import { join } from 'node:path'
import { MAX_TIMEOUT_S } from '../schemas/lease.ts'
import { type Kind, type KindName, KINDS, type ValueOf } from './config/kinds.ts'

interface Setting {
  kind: KindName
  default: string | undefined
  meaning: string
}

const setting = <K extends KindName, D extends string | undefined>(
  kind: K,
  fallback: D,
  meaning: string,
) => ({
  kind,
  default: fallback,
  meaning,
})

/** The cache folder of this machine's user; an empty variable counts as unset. */
export const CACHE_HOME = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')

/** Every environment variable the platform reads: type, default and meaning. */
export const SETTINGS = {
  HEARTH_PORT: setting('port', '8420', 'Port of the HTTP API; 0 takes any free one.'),
  HEARTH_HOST: setting('host', '127.0.0.1', 'Address the HTTP API listens on.'),
  HEARTH_BASE_URL: setting(
    'url',
    undefined,
    'Address clients and nodes reach this gateway at; derived from host and port when absent.',
  ),
  HEARTH_DATA_DIR: setting('path', '.hearth', 'Where the embedded platform keeps everything between starts.'),
  HEARTH_CACHE_DIR: setting(
    'path',
    join(CACHE_HOME, 'hearth'),
    'Tools and Python environments, installed once per machine.',
  ),
  HEARTH_FEATURES: setting('features', '', 'Comma-separated features to switch on: webhooks.'),
  HEARTH_LOG_LEVEL: setting('level', 'info', 'trace, debug, info, warn, error or silent.'),
  HEARTH_OPERATIONS_KEY: setting('text', '', 'Key for /api/v1/admin; empty refuses every call.'),
  HEARTH_PROFILE: setting(
    'text',
    '',
    'Profile of `npx hearth login` that commands use; empty takes the one of the last login.',
  ),
  HEARTH_API_KEY: setting(
    'text',
    '',
    'API key with which `npx hearth` reaches the platform; empty takes that of the profile, or of a platform running here.',
  ),
  HEARTH_ACCOUNT_ID: setting(
    'text',
    '',
    'Account of that key, for `npx hearth cohorts`; empty asks the platform for it.',
  ),
  HEARTH_USER_ID: setting(
    'text',
    '',
    'User for whom `npx hearth cohorts` runs; empty takes the name of the user of this machine.',
  ),
  HEARTH_EVALUATOR_TOKEN: setting(
    'text',
    '',
    'Token for /api/v1/internal/cohort/evaluator; empty refuses every call.',
  ),
  HEARTH_ENCRYPTION_KEYS: setting(
    'keys',
    '',
    'Comma-separated base64 keys of 32 bytes: the first encrypts, all decrypt.',
  ),
  HEARTH_RATE_LIMIT: setting(
    'integer',
    '1000',
    'Requests a second that an account may sustain; 0 switches the limit off.',
  ),
  HEARTH_RATE_BURST: setting('count', '5000', 'Requests that an account may send at once.'),
  HEARTH_ADDRESS_RATE: setting(
    'integer',
    '100',
    'Requests a second without a valid credential that one address may sustain, five times as many at once; 0 switches the limit off.',
  ),
  HEARTH_TRUSTED_PROXIES: setting(
    'subnets',
    '',
    'Comma-separated networks (CIDR) of proxies whose X-Forwarded-For names the address of a request; empty believes none.',
  ),
  HEARTH_MAX_CONNECTIONS: setting(
    'count',
    '10000',
    'Connections that a gateway has open at once; a quarter of them may be of clients without a valid credential, a tenth (at least 16) of one account, and a twentieth is for operators and nodes only.',
  ),
  HEARTH_ADDRESS_CONNECTIONS: setting(
    'count',
    '1000',
    'Connections of one address over which no valid credential has come; the oldest beyond it are closed. Trusted proxies are exempt.',
  ),
  HEARTH_BODY_MEMORY_MB: setting(
    'count',
    '128',
    'Memory that the bodies of all requests may take at once, in MB; one account gets half of it, and never more than it leaves free. Beyond it requests get 503.',
  ),
  HEARTH_ANSWER_MEMORY_MB: setting(
    'count',
    '256',
    'Memory that large answers of models may take at once, in MB; one account gets half of it. Beyond it requests get 503.',
  ),
  HEARTH_STREAM_KEEPALIVE_S: setting(
    'integer',
    '15',
    'Seconds of silence after which a stream of a chat, before its first token, or of a training run gets a comment; 0 sends none.',
  ),
  HEARTH_CREDIT_USD: setting(
    'amount',
    '0.01',
    'What one credit is worth in US dollars. Prices are kept in credits: to be chosen before the first of them.',
  ),
  HEARTH_OBJECT_DIR: setting('path', '.hearth/objects', 'Local object store; used when S3_BUCKET is empty.'),
  HEARTH_OBJECT_RESERVE_MB: setting(
    'integer',
    '1024',
    'Free space on the disk of HEARTH_OBJECT_DIR, in MB, that uploads leave for results and checkpoints; never more than a twentieth of the disk. An upload that would use it gets 503.',
  ),
  HEARTH_ACCOUNT_STORAGE_GB: setting(
    'integer',
    undefined,
    'Gigabytes (of 10^9 bytes) that an account may store in the object store, uploads in progress included; 0 is no limit. Absent it is 100, but at most half of the disk of HEARTH_OBJECT_DIR. Results of admitted work are stored in any case and count. `hearth quotas set --storage` sets it for one account.',
  ),
  HEARTH_ACCOUNT_COPIES: setting(
    'integer',
    '4',
    'Copies of models that an account may reserve for its endpoints with PUT /endpoints/{id}/scaling; beyond it 409. `hearth quotas set --copies` sets it for one account.',
  ),
  HEARTH_ACCOUNT_ITEMS: setting(
    'count',
    '10000',
    'Datasets that an account may have, and as many endpoints, models and API keys; a further one gets 409.',
  ),
  HEARTH_ACCOUNT_LISTINGS_MB: setting(
    'count',
    '1000',
    'Megabytes (of 10^6 bytes) that the descriptions, schemas and examples of all endpoints of an account may have together; beyond it a registration or a longer listing gets 409.',
  ),
  HEARTH_HUB_ENDPOINT: setting('url', undefined, 'Address of a Hugging Face-compatible model hub.'),
  HEARTH_HUB_TOKEN: setting(
    'text',
    '',
    'Token the platform shows to the hub; nodes never see it. Accounts use private and gated repositories with it where they are listed for them (`hearth accounts hub-repos`).',
  ),
  HEARTH_EGRESS_ALLOW: setting(
    'networks',
    '',
    'Comma-separated CIDR:port that outbound calls may reach although private.',
  ),
  HEARTH_EGRESS_BLOCK: setting('domains', '', 'Comma-separated domains that outbound calls may never reach.'),
  HEARTH_WEBHOOK_DESTINATIONS: setting(
    'count',
    '20',
    'Webhook endpoints that an account may have; each of its events is sent to every one that subscribed.',
  ),
  HEARTH_WEBHOOK_CHALLENGES: setting(
    'count',
    '20',
    'Verification challenges an hour that an account may have sent to one host; three times as many to all hosts.',
  ),
  HEARTH_WEBHOOK_COOLDOWN_S: setting(
    'integer',
    '10',
    'Seconds between two verification challenges of one webhook endpoint.',
  ),
  HEARTH_TOOL_KINDS: setting(
    'kinds',
    '',
    'Comma-separated kinds of the tools in manifests and on /mcp: llm, specialist, tool, trained_model, generative, model, operation; empty shows all.',
  ),
  HEARTH_TOOL_STABILITY: setting(
    'stabilities',
    '',
    'Comma-separated levels of the tools in manifests and on /mcp: experimental, beta, stable; empty shows all.',
  ),
  HEARTH_TOOL_SLUGS: setting(
    'slugs',
    '',
    'Comma-separated names of the tools in manifests and on /mcp, with * for any characters, for example sales-*; empty shows all.',
  ),
  HEARTH_MEMORY: setting(
    'flag',
    '0',
    '1 serves the memory of accounts: its routes, and the entries that models are given.',
  ),
  HEARTH_MEMORY_EMBEDDINGS_MODEL: setting(
    'text',
    '',
    'Endpoint (id or name) of the model of embeddings by which memory is searched; when empty, the newest entries come first.',
  ),
  HEARTH_MEMORY_TOKENS: setting(
    'count',
    '1024',
    'Tokens of memory that one request to a language model gets at most, by estimate.',
  ),
  HEARTH_MEMORY_ENTRIES: setting('count', '10000', 'Entries that the memory of an account may have.'),
  HEARTH_GATEWAY_URL: setting('url', undefined, 'Node: address of any gateway, for joining.'),
  HEARTH_NODE_TOKEN: setting('text', '', 'Node: one-time join token; needed only for the first start.'),
  HEARTH_NODE_DIR: setting('path', '.hearth/node', 'Node: identity, spool, weights and work directories.'),
  HEARTH_NODE_NAME: setting('text', '', 'Node: name shown to operators; the host name when empty.'),
  HEARTH_NODE_MEMORY_MB: setting(
    'integer',
    '0',
    'Node: memory for models; 0 takes half of what is free at start.',
  ),
  HEARTH_NODE_SLOTS: setting('integer', '1', 'Node: training runs at once.'),
  HEARTH_NODE_CACHE_GB: setting(
    'integer',
    '0',
    'Node: gigabytes that its weights cache may take on disk; the model used longest ago makes room. 0 takes half of what is free at start, at least 20.',
  ),
  HEARTH_NODE_CACHE_MB: setting(
    'integer',
    '0',
    'Node: the same limit in megabytes, where HEARTH_NODE_CACHE_GB is 0.',
  ),
  HEARTH_IDLE_UNLOAD_S: setting(
    'integer',
    '1800',
    'Node: seconds without a request after which a loaded model is unloaded; 0 never. `idle_timeout_s` of an endpoint comes first. Pinned models and those that operators keep warm stay loaded.',
  ),
  HEARTH_NODE_EDGE_MB: setting(
    'integer',
    '0',
    'Node: room on disk for what stages of cohorts hand over; 0 takes a quarter of what is free at start, at most 10240.',
  ),
  HEARTH_NODE_EDGE_LISTEN: setting(
    'address',
    '127.0.0.1:0',
    'Node: host:port at which other nodes fetch what its stages hand over, 0.0.0.0:0 for every address of the machine; when empty everything goes through the object store.',
  ),
  HEARTH_EDGE_NETWORKS: setting(
    'subnets',
    '',
    'Comma-separated networks (CIDR) in which nodes may fetch from one another what stages of cohorts hand over, for the API and for nodes; empty allows private and public networks. Never link-local or metadata addresses, and loopback only on one machine.',
  ),
  HEARTH_NODE_RETRY_S: setting(
    'patience',
    '60',
    `Node: seconds, at most ${MAX_TIMEOUT_S}, for which it repeats a call that no gateway can answer, as while the database is away; after that the stage or task fails, and is tried anew.`,
  ),
  HEARTH_NODE_PINNED: setting(
    'list',
    '',
    'Node: comma-separated keys of models that are loaded at start and never evicted for others.',
  ),
  HEARTH_NODE_PREPARE: setting(
    'list',
    'all',
    'Node: comma-separated environments of runtime profiles and tools (llamacpp, tools, tabular, llm, vllm) that are installed in the background ' +
      'after it has joined: all, none, or their names. The others are installed when they are first needed.',
  ),
  HEARTH_CONTAINER_SOCKET: setting(
    'path',
    '/var/run/docker.sock',
    'Node: socket of the container engine, which speaks the Docker API.',
  ),
  HEARTH_TOOL_IMAGE: setting(
    'image',
    undefined,
    "Node: image with the interpreters of the catalog's tools, by digest (deploy/tools); without one the machine's own are mounted.",
  ),
  HEARTH_TOOL_POOL: setting(
    'integer',
    '0',
    'Node: programs of each tool in use that are started ahead and wait for their request; each serves one.',
  ),
  DATABASE_URL: setting(
    'database',
    undefined,
    'PostgreSQL as postgres://user:password@host:port/name, for the API and the workers; nodes never have it.',
  ),
  HEARTH_GATE_HOST: setting('host', '127.0.0.1', 'Address the Temporal gate listens on.'),
  HEARTH_GATE_PORT: setting('port', '7234', 'Port of the Temporal gate; 0 takes any free one.'),
  HEARTH_GATE_URL: setting(
    'url',
    undefined,
    'Where nodes reach the Temporal gate, as gateways tell them: http://host:port, or https:// where TLS is spoken.',
  ),
  HEARTH_GATE_TLS_CERT: setting(
    'path',
    undefined,
    'Gate: certificate chain (PEM) shown to nodes; with HEARTH_GATE_TLS_KEY the gate speaks TLS.',
  ),
  HEARTH_GATE_TLS_KEY: setting('path', undefined, 'Gate: private key (PEM) of HEARTH_GATE_TLS_CERT.'),
  HEARTH_GATE_TLS_CA: setting(
    'path',
    undefined,
    "Node: certificates (PEM) that the gate's is checked against; the system's own when absent.",
  ),
  TEMPORAL_ADDRESS: setting(
    'address',
    undefined,
    'host:port of the Temporal server, for the API, the workers and the gate; nodes never have it.',
  ),
  TEMPORAL_NAMESPACE: setting('text', 'default', 'Temporal namespace.'),
  TEMPORAL_TLS: setting(
    'flag',
    undefined,
    '1 connects to Temporal with TLS, 0 without; when absent, with TLS if another TEMPORAL_TLS_ setting or an API key is given.',
  ),
  TEMPORAL_TLS_CA: setting(
    'path',
    undefined,
    "Certificates (PEM) that Temporal's is checked against; the system's own when absent.",
  ),
  TEMPORAL_TLS_CERT: setting('path', undefined, 'Client certificate (PEM) shown to Temporal.'),
  TEMPORAL_TLS_KEY: setting('path', undefined, 'Private key (PEM) of TEMPORAL_TLS_CERT.'),
  TEMPORAL_TLS_SERVER_NAME: setting(
    'text',
    '',
    "Name that Temporal's certificate is for, where it is not that of its address.",
  ),
  TEMPORAL_API_KEY: setting('text', '', 'API key shown to Temporal.'),
  TEMPORAL_UI_URL: setting('url', undefined, 'Where operators find the Temporal UI.'),
  S3_BUCKET: setting('text', '', 'Bucket of the object store; empty uses HEARTH_OBJECT_DIR.'),
  S3_ENDPOINT: setting('url', undefined, 'Address of an S3-compatible server; absent means AWS.'),
  S3_PUBLIC_ENDPOINT: setting(
    'url',
    undefined,
    'Address of the S3 server in signed URLs, when clients need another one.',
  ),
  S3_REGION: setting('text', 'us-east-1', 'Region of the bucket.'),
  S3_ACCESS_KEY_ID: setting('text', '', 'Access key of the bucket.'),
  S3_SECRET_ACCESS_KEY: setting('text', '', 'Secret key of the bucket.'),
} as const satisfies Record<string, Setting>

type Name = keyof typeof SETTINGS
type Absent<S extends Setting> = S['default'] extends undefined ? undefined : never
/** The platform's settings, parsed. */
export type Config = {
  readonly [N in Name]: ValueOf<(typeof SETTINGS)[N]['kind']> | Absent<(typeof SETTINGS)[N]>
}

/** Names the variable and what it must be, in one sentence. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** Parses every setting; the first bad value throws a `ConfigError` that names it. */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const entries = Object.entries(SETTINGS).map(([name, declared]) => [
    name,
    valueOf(name, declared, env[name]),
  ])
  return Object.freeze(Object.fromEntries(entries)) as Config
}

function valueOf(
  name: string,
  { kind: kindName, default: fallback }: Setting,
  given: string | undefined,
): unknown {
  const kind: Kind = KINDS[kindName]
  const isAbsent = given === undefined || (given === '' && (fallback === undefined || kind.emptyIsAbsent))
  const text = isAbsent ? fallback : given
  if (text === undefined) return undefined
  const value = kind.read(text)
  if (value !== undefined) return value
  throw new ConfigError(
    `${name} must be ${kind.expected}${kind.isSecret ? '' : `, not ${JSON.stringify(text)}`}`,
  )
}

/** Returns a setting that this process requires; throws a `ConfigError` when it is unset. */
export function required<N extends Name>(config: Config, name: N): Exclude<Config[N], undefined> {
  const value = config[name]
  if (value !== undefined && value !== '') return value as Exclude<Config[N], undefined>
  throw new ConfigError(`${name} must be set: ${SETTINGS[name].meaning}`)
}
