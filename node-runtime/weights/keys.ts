/** The prefix for the bases of training runs. They are cached like models but cannot be served. */
const BASE_PREFIX = 'base/'
/** The prefix for models that are cached without weights of their own, as adapters of their base. */
const ADAPTER_PREFIX = 'adapter/'

/** Returns the key under which the base of a training run is cached. */
export const baseKey = (key: string): string => `${BASE_PREFIX}${key}`

/** Returns the key under which the adapter of a model is cached. */
export const adapterKey = (modelKey: string): string => `${ADAPTER_PREFIX}${modelKey}`

/** Returns the keys of the models that can be served from these cache entries. */
export function modelKeysOf(keys: readonly string[]): string[] {
  const served = keys.filter((key) => !key.startsWith(BASE_PREFIX))
  const models = served.map((key) =>
    key.startsWith(ADAPTER_PREFIX) ? key.slice(ADAPTER_PREFIX.length) : key,
  )
  return [...new Set(models)]
}
