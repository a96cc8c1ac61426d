import type { Kysely } from 'kysely'
import * as toolSourceRepository from '../../db/repositories/tools/sources.ts'
import type { Database } from '../../db/tables.ts'
import { kindOf } from '../../domain/actions/kind.ts'
import { toolStability } from '../../domain/tools/manifest.ts'
import type { AccountCaller } from '../http/caller.ts'
import { mayUse } from './tools-of.ts'

/** Returns whether a key may see one of its account's tasks. A key limited to tools only sees those tools' tasks. */
export async function maySeeTask(
  db: Kysely<Database>,
  caller: AccountCaller,
  task: { endpoint_id: string },
): Promise<boolean> {
  if (!caller.tools) return true
  const [endpoint] = await toolSourceRepository.readTools(db, [task.endpoint_id])
  if (!endpoint) return false
  return mayUse(caller, {
    slug: endpoint.name,
    kind: kindOf(endpoint),
    stability: toolStability(endpoint),
  })
}
