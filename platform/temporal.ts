import { type ChannelOptions, credentials as grpc, type ChannelCredentials } from '@grpc/grpc-js'
import { Client, Connection, type TLSConfig } from '@temporalio/client'
import { defineSearchAttributeKey, SearchAttributeType, TypedSearchAttributes } from '@temporalio/common'
import { type Config, ConfigError, required } from './config.ts'
import { readPem } from './config/pem.ts'

/** Typed search attributes that operators use to find work. */
export const SEARCH_ATTRIBUTES = {
  HearthAccount: defineSearchAttributeKey('HearthAccount', SearchAttributeType.KEYWORD),
  HearthKind: defineSearchAttributeKey('HearthKind', SearchAttributeType.KEYWORD),
  HearthModel: defineSearchAttributeKey('HearthModel', SearchAttributeType.KEYWORD),
  HearthNode: defineSearchAttributeKey('HearthNode', SearchAttributeType.KEYWORD),
} as const

/** Converts values by attribute name to Temporal's typed pairs; an unknown name is a programming error. */
export function searchAttributes(values: Readonly<Record<string, string>>): TypedSearchAttributes {
  return new TypedSearchAttributes(
    Object.entries(values).map(([name, value]) => {
      const key = SEARCH_ATTRIBUTES[name as keyof typeof SEARCH_ATTRIBUTES]
      if (!key) throw new Error(`unknown search attribute ${name}`)
      return { key, value }
    }),
  )
}

/**
 * grpc-js reads only the lower-case http_proxy, and the native connections of workers and nodes read no variable at
 * all. gRPC therefore always connects directly, so that every process reaches the same server.
 */
export const DIRECT_CHANNEL = { 'grpc.enable_http_proxy': 0 }

/**
 * The channel itself retries. The SDK's retries leave timers behind that throw uncaught errors when the connection is
 * closed while Temporal is unreachable.
 */
const RETRIES = {
  interceptors: [],
  channelArgs: {
    ...DIRECT_CHANNEL,
    'grpc.service_config': JSON.stringify({
      methodConfig: [
        {
          name: [{}],
          retryPolicy: {
            maxAttempts: 5,
            initialBackoff: '0.1s',
            maxBackoff: '1s',
            backoffMultiplier: 2,
            retryableStatusCodes: ['UNAVAILABLE', 'RESOURCE_EXHAUSTED'],
          },
        },
      ],
    }),
  },
}

/** The options with which control-plane processes connect to Temporal, for both kinds of SDK connection. */
export interface TemporalAccess {
  address: string
  tls: TLSConfig | false
  metadata: Record<string, string>
}

/** Returns the TLS options, client certificate and API key from the settings. */
export function temporalAccess(config: Config): TemporalAccess {
  const { TEMPORAL_API_KEY: apiKey } = config
  return {
    address: required(config, 'TEMPORAL_ADDRESS'),
    tls: tlsOf(config) ?? false,
    metadata: {
      'temporal-namespace': config.TEMPORAL_NAMESPACE,
      ...(apiKey && { authorization: `Bearer ${apiKey}` }),
    },
  }
}

/** Returns the same TLS options for a plain gRPC channel. */
export function channelCredentials(config: Config): {
  credentials: ChannelCredentials
  options: ChannelOptions
} {
  const tls = tlsOf(config)
  if (!tls) return { credentials: grpc.createInsecure(), options: DIRECT_CHANNEL }
  const { serverRootCACertificate: ca, clientCertPair: pair, serverNameOverride: name } = tls
  const asBuffer = (bytes: Uint8Array | undefined) => (bytes ? Buffer.from(bytes) : null)
  return {
    credentials: grpc.createSsl(asBuffer(ca), asBuffer(pair?.key), asBuffer(pair?.crt)),
    options: {
      ...DIRECT_CHANNEL,
      ...(name && { 'grpc.ssl_target_name_override': name, 'grpc.default_authority': name }),
    },
  }
}

/** Returns the TLS options; undefined without TLS, which is the default unless a setting requires it. */
function tlsOf(config: Config): TLSConfig | undefined {
  const {
    TEMPORAL_TLS_CA: ca,
    TEMPORAL_TLS_CERT: cert,
    TEMPORAL_TLS_KEY: key,
    TEMPORAL_TLS_SERVER_NAME: name,
    TEMPORAL_API_KEY: apiKey,
  } = config
  const isOn = config.TEMPORAL_TLS ?? Boolean(ca || cert || key || name || apiKey)
  if (!isOn) return undefined
  if (Boolean(cert) !== Boolean(key))
    throw new ConfigError('TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY belong together: set both, or neither.')
  return {
    ...(name && { serverNameOverride: name }),
    ...(ca && { serverRootCACertificate: readPem('TEMPORAL_TLS_CA', ca) }),
    ...(cert &&
      key && {
        clientCertPair: { crt: readPem('TEMPORAL_TLS_CERT', cert), key: readPem('TEMPORAL_TLS_KEY', key) },
      }),
  }
}

/** Creates a client that connects on first use, so that a process can start while Temporal is down. */
export function openTemporal(config: Config): { client: Client; close: () => Promise<void> } {
  const connection = Connection.lazy({ ...temporalAccess(config), ...RETRIES })
  const client = new Client({ connection, namespace: config.TEMPORAL_NAMESPACE })
  return { client, close: () => connection.close() }
}
