import type { CacheWatch } from '../../db/cache-watch.ts'
import type { Services } from '../services.ts'
import { Embeddings } from './embeddings.ts'
import { GatewayMemory } from './gateway-memory.ts'
import { MemoryRegistry } from './memory-registry.ts'
import type { Memory } from './memory.ts'
import { Nearness } from './nearness.ts'
import { MemoryUpkeep } from './upkeep.ts'

type Deps = Pick<
  Services,
  | 'config'
  | 'db'
  | 'log'
  | 'secretBox'
  | 'gateway'
  | 'endpoints'
  | 'links'
  | 'places'
  | 'catalog'
  | 'now'
  | 'loads'
  | 'outbox'
  | 'objects'
>

/** Opens accounts' memory if the setting enables it; adds its background work to the disposable stack. */
export async function openMemory(
  services: Deps,
  watch: CacheWatch,
  stack: AsyncDisposableStack,
): Promise<Memory> {
  const { config, db, log, secretBox, gateway, outbox } = services
  if (!config.HEARTH_MEMORY) return new GatewayMemory(undefined)
  const embeddings = new Embeddings(services, config.HEARTH_MEMORY_EMBEDDINGS_MODEL)
  const known = stack.use(new MemoryRegistry({ db, watch, log, gatewayId: gateway.id }))
  await known.refresh()
  const upkeep = stack.use(
    new MemoryUpkeep({ db, log, secretBox, gatewayId: gateway.id, embeddings, outbox }),
  )
  const nearness = new Nearness({ db, log, secretBox, embeddings })
  return new GatewayMemory({
    db,
    log,
    secretBox,
    known,
    nearness,
    upkeep,
    embeddings,
    budget: config.HEARTH_MEMORY_TOKENS,
  })
}
