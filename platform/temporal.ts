import { Client, Connection } from '@temporalio/client'
import { defineSearchAttributeKey, SearchAttributeType, TypedSearchAttributes } from '@temporalio/common'
import { type Config, required } from './config.ts'

/** Typed search attributes by which operators find work (design section 7). */
export const SEARCH_ATTRIBUTES = {
  HearthAccount: defineSearchAttributeKey('HearthAccount', SearchAttributeType.KEYWORD),
  HearthKind: defineSearchAttributeKey('HearthKind', SearchAttributeType.KEYWORD),
  HearthModel: defineSearchAttributeKey('HearthModel', SearchAttributeType.KEYWORD),
  HearthNode: defineSearchAttributeKey('HearthNode', SearchAttributeType.KEYWORD),
} as const

/** Values by attribute name as Temporal's typed pairs; unknown names are a programming error. */
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
 * Retries by the channel itself. Those of the SDK leave timers behind that throw, with nobody to catch it, when the
 * connection is closed while Temporal is away.
 */
const RETRIES = {
  interceptors: [],
  channelArgs: {
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

/** A client that connects when first used, so that a process starts while Temporal is down. */
export function openTemporal(config: Config): { client: Client; close: () => Promise<void> } {
  const connection = Connection.lazy({ address: required(config, 'TEMPORAL_ADDRESS'), ...RETRIES })
  const client = new Client({ connection, namespace: config.TEMPORAL_NAMESPACE })
  return { client, close: () => connection.close() }
}
