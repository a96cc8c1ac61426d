import type { Client } from '@temporalio/client'
import type { Kysely } from 'kysely'
import type { Database } from '../../db/tables.ts'
import type { Catalog } from '../../platform/catalog.ts'
import type { Config } from '../../platform/config.ts'
import type { Logger } from '../../platform/log.ts'
import type { ObjectStore } from '../../platform/object-store/store.ts'

/** The dependencies of the control plane's activities. */
export interface ControlDeps {
  readonly db: Kysely<Database>
  readonly objects: ObjectStore
  readonly temporal: Client
  readonly catalog: Catalog
  readonly config: Config
  readonly log: Logger
  readonly now: () => Date
}
