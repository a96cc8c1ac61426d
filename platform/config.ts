import { homedir } from 'node:os'
import { join } from 'node:path'
import { MAX_TIMEOUT_S } from '../schemas/nodes/lease-terms.ts'
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

/** The cache folder of the current user; an empty variable counts as unset. */
export const CACHE_HOME = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')

/** Every environment variable that the platform reads: type, default and meaning. */
export const SETTINGS = {
  HEARTH_PORT: setting('port', '8420', 'Port of the HTTP API; 0 picks any free one.'),
  HEARTH_HOST: setting('host', '127.0.0.1', 'Address that the HTTP API listens on.'),
  HEARTH_BASE_URL: setting(
    'url',
    undefined,
    'URL at which clients and nodes reach this gateway; if unset, it is derived from host and port.',
  ),
  HEARTH_PUBLIC_URL: setting(
    'url',
    undefined,
    'URL at which clients reach all gateways, if they share a load balancer; if unset, HEARTH_BASE_URL.',
  ),
  HEARTH_DATA_DIR: setting('path', '.hearth', 'Folder in which the embedded platform stores all its data.'),
  HEARTH_CACHE_DIR: setting(
    'path',
    join(CACHE_HOME, 'hearth'),
    'Folder for tools and Python environments, which are installed once per machine.',
  ),
  HEARTH_FEATURES: setting('features', '', 'Comma-separated features to enable: webhooks.'),
  HEARTH_LOG_LEVEL: setting('level', 'info', 'Log level: trace, debug, info, warn, error or silent.'),
  HEARTH_METRICS_PORT: setting('port', '0', 'Port for metrics and health checks; 0 turns it off.'),
  HEARTH_METRICS_HOST: setting('host', '127.0.0.1', 'Address that the metrics port listens on.'),
  HEARTH_OPERATIONS_KEY: setting('text', '', 'Key for /api/v1/admin; if empty, every call is rejected.'),
  HEARTH_PROFILE: setting(
    'text',
    '',
    'Profile from `npx hearth login` that commands use; if empty, the profile of the last login.',
  ),
  HEARTH_API_KEY: setting(
    'text',
    '',
    'API key that `npx hearth` uses; if empty, it uses the key from the profile, or from a platform running on this machine.',
  ),
  HEARTH_ACCOUNT_ID: setting(
    'text',
    '',
    'The account that the key belongs to, for `npx hearth cohorts`; if empty, it is looked up on the platform.',
  ),
  HEARTH_USER_ID: setting(
    'text',
    '',
    "User on whose behalf `npx hearth cohorts` runs; if empty, the current user's name.",
  ),
  HEARTH_EVALUATOR_TOKEN: setting(
    'text',
    '',
    'Token for /api/v1/internal/cohort/evaluator; if empty, every call is rejected.',
  ),
  HEARTH_ENCRYPTION_KEYS: setting(
    'keys',
    '',
    'Comma-separated base64 keys of 32 bytes: the first encrypts, all decrypt.',
  ),
  HEARTH_RATE_LIMIT: setting(
    'integer',
    '1000',
    'Sustained requests per second for each account; 0 disables the limit.',
  ),
  HEARTH_RATE_BURST: setting('count', '5000', 'Number of requests that an account may send in one burst.'),
  HEARTH_ADDRESS_RATE: setting(
    'integer',
    '100',
    'Sustained requests per second that one address may send without a valid credential. Bursts may be five times as large; 0 disables the limit.',
  ),
  HEARTH_TRUSTED_PROXIES: setting(
    'subnets',
    '',
    'Comma-separated networks (CIDR) of proxies whose X-Forwarded-For is trusted; if empty, no proxy is trusted.',
  ),
  HEARTH_MAX_CONNECTIONS: setting(
    'count',
    '10000',
    'Maximum open connections per gateway. Clients without a valid credential get a quarter, and one account gets a tenth (at least 16). A twentieth is reserved for operators and nodes.',
  ),
  HEARTH_ADDRESS_CONNECTIONS: setting(
    'count',
    '1000',
    'Maximum connections without a valid credential from one address; beyond this limit, the oldest are closed. Trusted proxies are exempt.',
  ),
  HEARTH_BODY_MEMORY_MB: setting(
    'count',
    '128',
    'Memory in MB for the bodies of all concurrent requests; one account gets at most half. Beyond 256 KiB, it never gets more than it leaves free for others. Requests beyond this limit get 503.',
  ),
  HEARTH_ANSWER_MEMORY_MB: setting(
    'count',
    '256',
    'Memory in MB for all concurrent large model responses; one account gets at most half. Requests beyond this limit get 503.',
  ),
  HEARTH_STREAM_KEEPALIVE_S: setting(
    'integer',
    '15',
    'Seconds of silence after which a chat stream (before its first token) or a training-run stream gets a comment; 0 disables these comments.',
  ),
  HEARTH_CREDIT_USD: setting(
    'amount',
    '0.01',
    'Value of one credit in US dollars. Prices are stored in credits, so choose it before you set the first price.',
  ),
  HEARTH_OBJECT_DIR: setting(
    'path',
    '.hearth/objects',
    'Folder of the local object store; used when S3_BUCKET is empty.',
  ),
  HEARTH_OBJECT_RESERVE_MB: setting(
    'integer',
    '1024',
    'Free space in MB that uploads must leave for results and checkpoints on the disk of HEARTH_OBJECT_DIR; at most a twentieth of the disk. An upload that would use this space gets 503.',
  ),
  HEARTH_ACCOUNT_STORAGE_GB: setting(
    'integer',
    undefined,
    'Gigabytes (10^9 bytes) that an account may store; 0 means no limit. If unset, 100, but at most half of the disk of HEARTH_OBJECT_DIR. Use `hearth quotas set --storage` to set it for one account.',
  ),
  HEARTH_ACCOUNT_COPIES: setting(
    'integer',
    '4',
    'Model copies that an account may reserve for its endpoints with PUT /endpoints/{id}/scaling; requests beyond this limit get 409. Use `hearth quotas set --copies` to set it for one account.',
  ),
  HEARTH_ACCOUNT_ITEMS: setting(
    'count',
    '10000',
    'Maximum datasets per account; the same limit applies to its endpoints, models and API keys. A request that would create more gets 409.',
  ),
  HEARTH_ACCOUNT_LISTINGS_MB: setting(
    'count',
    '1000',
    "Megabytes (10^6 bytes) that the descriptions, schemas and examples of all of an account's endpoints may take up. Beyond this limit, a registration or a longer listing gets 409.",
  ),
  HEARTH_HUB_ENDPOINT: setting('url', undefined, 'URL of a Hugging Face-compatible model hub.'),
  HEARTH_HUB_TOKEN: setting(
    'text',
    '',
    'Token that the platform sends to the hub; nodes never see it. Accounts can use the private and gated repositories that are listed for them (`hearth accounts hub-repos`).',
  ),
  HEARTH_EGRESS_ALLOW: setting(
    'networks',
    '',
    'Comma-separated private networks and ports, as CIDR:port, that outbound calls may reach.',
  ),
  HEARTH_EGRESS_BLOCK: setting('domains', '', 'Comma-separated domains that outbound calls may never reach.'),
  HEARTH_WEBHOOK_DESTINATIONS: setting(
    'count',
    '20',
    'Maximum webhook endpoints per account; each event is sent to every endpoint that subscribes to it.',
  ),
  HEARTH_WEBHOOK_CHALLENGES: setting(
    'count',
    '20',
    'Verification challenges that an account may request per hour for one host; the limit for all hosts together is three times as high.',
  ),
  HEARTH_WEBHOOK_COOLDOWN_S: setting(
    'integer',
    '10',
    'Minimum seconds between two verification challenges for the same webhook endpoint.',
  ),
  HEARTH_TOOL_KINDS: setting(
    'kinds',
    '',
    'Comma-separated kinds of tools to show in manifests and on /mcp: llm, specialist, tool, trained_model, generative, model, operation; if empty, all.',
  ),
  HEARTH_TOOL_STABILITY: setting(
    'stabilities',
    '',
    'Comma-separated stability levels of tools to show in manifests and on /mcp: experimental, beta, stable; if empty, all.',
  ),
  HEARTH_TOOL_SLUGS: setting(
    'slugs',
    '',
    'Comma-separated names of tools to show in manifests and on /mcp; * stands for any characters, as in sales-*. If empty, all.',
  ),
  HEARTH_MEMORY: setting(
    'flag',
    '0',
    '1 enables memory for accounts: its routes, and the entries that are added to model requests.',
  ),
  HEARTH_MEMORY_EMBEDDINGS_MODEL: setting(
    'text',
    '',
    'Endpoint (id or name) of the embedding model that searches memory; if empty, the newest entries come first.',
  ),
  HEARTH_MEMORY_TOKENS: setting(
    'count',
    '1024',
    'Maximum (estimated) tokens of memory added to each request to a language model.',
  ),
  HEARTH_MEMORY_ENTRIES: setting('count', '10000', "Maximum entries in an account's memory."),
  HEARTH_GATEWAY_URL: setting(
    'url',
    undefined,
    'Node: URL of any gateway through which the node can join the pool.',
  ),
  HEARTH_NODE_TOKEN: setting('text', '', 'Node: one-time join token; needed only for the first start.'),
  HEARTH_NODE_DIR: setting(
    'path',
    '.hearth/node',
    'Node: folder for its identity, spool, weights and work directories.',
  ),
  HEARTH_NODE_NAME: setting('text', '', 'Node: name shown to operators; if empty, the host name.'),
  HEARTH_NODE_MEMORY_MB: setting(
    'integer',
    '0',
    'Node: memory for models in MB; 0 means half of the memory that is free at startup.',
  ),
  HEARTH_NODE_SLOTS: setting('integer', '1', 'Node: number of concurrent training runs.'),
  HEARTH_NODE_CACHE_GB: setting(
    'integer',
    '0',
    'Node: size of the weights cache on disk in gigabytes; the least recently used model is evicted first. 0 means half of the space that is free at startup, but at least 20.',
  ),
  HEARTH_NODE_CACHE_MB: setting(
    'integer',
    '0',
    'Node: the same limit in megabytes; it is used if HEARTH_NODE_CACHE_GB is 0.',
  ),
  HEARTH_NODE_SLEEP_PCT: setting(
    'integer',
    '50',
    'Node: the share of its RAM, in percent, that vLLM models may use to sleep while other models use their GPU memory. 0 means that no model sleeps.',
  ),
  HEARTH_IDLE_UNLOAD_S: setting(
    'integer',
    '1800',
    "Node: seconds without a request after which a model is unloaded; 0 means never. An endpoint's `idle_timeout_s` takes precedence. Pinned models, and models that are kept warm, stay loaded.",
  ),
  HEARTH_NODE_EDGE_MB: setting(
    'integer',
    '0',
    'Node: disk space in MB for payloads of cohort stages. 0 means a quarter of the space that is free at startup, but at most 10240.',
  ),
  HEARTH_NODE_EDGE_LISTEN: setting(
    'address',
    '127.0.0.1:0',
    "Node: host:port at which other nodes fetch its stages' payloads; 0.0.0.0:0 means every address of the machine. If empty, all payloads go through the object store.",
  ),
  HEARTH_EDGE_NETWORKS: setting(
    'subnets',
    '',
    'API and nodes: comma-separated networks (CIDR) where nodes may fetch payloads from each other. If empty: private and public networks, but not link-local ones; loopback works only within one machine.',
  ),
  HEARTH_NODE_RETRY_S: setting(
    'patience',
    '60',
    `Node: number of seconds (at most ${MAX_TIMEOUT_S}) during which the node retries a call that no gateway can answer. After that, the stage or task fails and is retried.`,
  ),
  HEARTH_NODE_PINNED: setting(
    'list',
    '',
    'Node: comma-separated keys of models that are loaded at startup and never evicted to make room.',
  ),
  HEARTH_NODE_PREPARE: setting(
    'list',
    'all',
    'Node: environments to install in the background after joining: all, none, or names (llamacpp, tools, tabular, llm, vllm, or the image of a runtime profile). All others are installed on first use.',
  ),
  HEARTH_CONTAINER_SOCKET: setting(
    'path',
    '/var/run/docker.sock',
    'Node: socket of a container engine that has the Docker API.',
  ),
  HEARTH_TOOL_IMAGE: setting(
    'image',
    undefined,
    "Node: image with the interpreters of the catalog's tools, by digest (deploy/tools); if unset, the machine's own interpreters are mounted.",
  ),
  HEARTH_TOOL_POOL: setting(
    'integer',
    '0',
    'Node: number of processes to start in advance for each tool in use; each process serves one request.',
  ),
  DATABASE_URL: setting(
    'database',
    undefined,
    'PostgreSQL as postgres://user:password@host:port/name, for the API, the workers and the gate; nodes never get this address.',
  ),
  HEARTH_GATE_HOST: setting('host', '127.0.0.1', 'Address that the Temporal gate listens on.'),
  HEARTH_GATE_PORT: setting('port', '7234', 'Port of the Temporal gate; 0 picks any free one.'),
  HEARTH_GATE_URL: setting(
    'url',
    undefined,
    'URL of the Temporal gate that gateways announce to nodes: http://host:port, or https:// with TLS.',
  ),
  HEARTH_GATE_TLS_CERT: setting(
    'path',
    undefined,
    'Gate: certificate chain (PEM) that it presents to nodes; together with HEARTH_GATE_TLS_KEY, it enables TLS.',
  ),
  HEARTH_GATE_TLS_KEY: setting('path', undefined, 'Gate: private key (PEM) of HEARTH_GATE_TLS_CERT.'),
  HEARTH_GATE_TLS_CA: setting(
    'path',
    undefined,
    "Node: CA certificates (PEM) for verifying the gate's certificate; if unset, the system's certificates.",
  ),
  TEMPORAL_ADDRESS: setting(
    'address',
    undefined,
    'host:port of the Temporal server, for the API, the workers and the gate; nodes never get this address.',
  ),
  TEMPORAL_NAMESPACE: setting('text', 'default', 'Temporal namespace.'),
  TEMPORAL_TLS: setting(
    'flag',
    undefined,
    '1 connects to Temporal with TLS, and 0 connects without it. If unset, TLS is used if another TEMPORAL_TLS_ setting or an API key is set.',
  ),
  TEMPORAL_TLS_CA: setting(
    'path',
    undefined,
    "CA certificates (PEM) for verifying Temporal's certificate; if unset, the system's certificates.",
  ),
  TEMPORAL_TLS_CERT: setting('path', undefined, 'Client certificate (PEM) that is presented to Temporal.'),
  TEMPORAL_TLS_KEY: setting('path', undefined, 'Private key (PEM) of TEMPORAL_TLS_CERT.'),
  TEMPORAL_TLS_SERVER_NAME: setting(
    'text',
    '',
    "Name in Temporal's certificate, if it differs from the host in its address.",
  ),
  TEMPORAL_API_KEY: setting('text', '', 'API key that is sent to Temporal.'),
  TEMPORAL_UI_URL: setting('url', undefined, 'URL of the Temporal UI, for operators.'),
  S3_BUCKET: setting('text', '', "The object store's bucket; if empty, HEARTH_OBJECT_DIR is used."),
  S3_ENDPOINT: setting('url', undefined, 'URL of an S3-compatible server; if unset, AWS is used.'),
  S3_PUBLIC_ENDPOINT: setting(
    'url',
    undefined,
    'URL of the S3 server to use in signed URLs, if clients reach it at a different URL than Hearth does.',
  ),
  S3_REGION: setting('text', 'us-east-1', 'Region of the bucket.'),
  S3_ACCESS_KEY_ID: setting('text', '', 'Access key of the bucket.'),
  S3_SECRET_ACCESS_KEY: setting('text', '', 'Secret key of the bucket.'),
} as const satisfies Record<string, Setting>

type Name = keyof typeof SETTINGS
type AbsentValue<S extends Setting> = S['default'] extends undefined ? undefined : never
/** The platform's settings, parsed. */
export type Config = {
  readonly [N in Name]: ValueOf<(typeof SETTINGS)[N]['kind']> | AbsentValue<(typeof SETTINGS)[N]>
}

/** An invalid setting; the message names the variable and what it must be, in one sentence. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** Parses every setting; throws a `ConfigError` that names the first invalid one. */
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
