import type { Kysely } from 'kysely'
import { CHAT_TASK_TYPES } from '../../../domain/chat/chat.ts'
import type { Database } from '../../tables.ts'
import { disabledByOwner } from '../models/config-lifecycle.ts'

const AT_ONCE = 1_000

/**
 * Lists the models of some task types that an account can use, newest first: its own active endpoints, and those offered
 * to all.
 */
export async function listModels(
  db: Kysely<Database>,
  accountId: string,
  taskTypes: readonly string[],
): Promise<ChatModelRow[]> {
  const rows: ChatModelRow[] = []
  // The response is not paged. The query is, so that no page holds a connection for long.
  for (let before: string | undefined; ; before = rows.at(-1)?.id) {
    const page = await offeredModels(db, accountId, taskTypes)
      .$if(before !== undefined, (qb) => qb.where('endpoint.id', '<', before ?? ''))
      .orderBy('endpoint.id', 'desc')
      .limit(AT_ONCE)
      .execute()
    rows.push(...page)
    if (page.length < AT_ONCE) return rows
  }
}

/** Finds a model to chat with by id or name, among those that `listModels` lists. */
export function findChatModel(
  db: Kysely<Database>,
  accountId: string,
  by: { id: string } | { name: string },
): Promise<ChatModelRow | undefined> {
  const rows = offeredModels(db, accountId, CHAT_TASK_TYPES)
  const found = 'id' in by ? rows.where('endpoint.id', '=', by.id) : rows.where('endpoint.name', '=', by.name)
  return found.executeTakeFirst()
}

function offeredModels(db: Kysely<Database>, accountId: string, taskTypes: readonly string[]) {
  return db
    .selectFrom('endpoint')
    .innerJoin('model_version', 'model_version.id', 'endpoint.version_id')
    .select([
      'endpoint.id',
      'endpoint.model_key',
      'endpoint.account_id',
      'endpoint.name',
      'endpoint.task_type',
      'endpoint.source',
      'endpoint.is_base_model',
      'endpoint.base_model',
      'endpoint.hub_revision',
      'endpoint.created_at',
    ])
    .select((eb) =>
      eb
        .selectFrom('endpoint as parent')
        .select('parent.name')
        .whereRef('parent.version_id', '=', 'endpoint.base_version_id')
        .where('parent.deleted_at', 'is', null)
        // The name of a base that the account can't see stays hidden.
        .where((where) =>
          where.or([
            where('parent.account_id', '=', accountId),
            where.and([
              where('parent.visibility', '=', 'public'),
              where('parent.review_status', '=', 'approved'),
            ]),
          ]),
        )
        .orderBy('parent.id')
        .limit(1)
        .as('parent'),
    )
    .where('endpoint.deleted_at', 'is', null)
    .where('endpoint.status', 'in', ['active', 'deprecated'])
    .where('endpoint.task_type', 'in', [...taskTypes])
    .where('model_version.lifecycle_status', '<>', 'disabled')
    .where((eb) => eb.not(disabledByOwner()))
    .where((eb) =>
      eb.or([
        eb('endpoint.account_id', '=', accountId),
        eb.and([
          eb('endpoint.visibility', '=', 'public'),
          eb('endpoint.review_status', '=', 'approved'),
          eb('endpoint.status', '=', 'active'),
        ]),
      ]),
    )
}

export type ChatModelRow = Awaited<ReturnType<ReturnType<typeof offeredModels>['execute']>>[number]
