import Type from 'typebox'
import { findAccount } from '../../../../db/repositories/platform/accounts.ts'
import {
  createApiKey as makeApiKey,
  listApiKeys as readApiKeys,
  revokeApiKey as endApiKey,
} from '../../../../db/repositories/platform/api-keys.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { ApiKey, CreateApiKey, CreatedApiKey } from '../../../../schemas/admin.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { route } from '../../../http/route.ts'
import { noAccount } from './accounts.ts'
import { presentApiKey } from './present.ts'

const params = Type.Object({ account_id: Uuid })

export const createApiKey = route({
  operationId: 'createApiKey',
  summary: 'Create an API key; its text is shown this once',
  method: 'POST',
  path: '/admin/accounts/{account_id}/keys',
  auth: 'operations-key',
  params,
  body: CreateApiKey,
  success: { status: 201, schema: CreatedApiKey },
  errors: ['not_found'],

  async handler({ params: { account_id }, body: { name, role = 'operator' } }, { db }) {
    if (!(await findAccount(db, account_id))) throw noAccount()
    const { row, key } = await db
      .transaction()
      .execute((trx) => makeApiKey(trx, { accountId: account_id, name, role }))
    return { ...presentApiKey(row), api_key: key }
  },
})

export const listApiKeys = route({
  operationId: 'listApiKeys',
  summary: 'List the API keys of an account, without their texts',
  method: 'GET',
  path: '/admin/accounts/{account_id}/keys',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Type.Object({ keys: Type.Array(ApiKey) }) },
  errors: ['not_found'],

  async handler({ params: { account_id } }, { db }) {
    if (!(await findAccount(db, account_id))) throw noAccount()
    return { keys: (await readApiKeys(db, account_id)).map(presentApiKey) }
  },
})

export const revokeApiKey = route({
  operationId: 'revokeApiKey',
  summary: 'Revoke an API key; every gateway refuses it within a second',
  method: 'DELETE',
  path: '/admin/keys/{key_id}',
  auth: 'operations-key',
  params: Type.Object({ key_id: Uuid }),
  success: { status: 204 },
  errors: ['not_found'],

  async handler({ params: { key_id } }, { db, now }) {
    const revoked = await db.transaction().execute((trx) => endApiKey(trx, key_id, now()))
    if (!revoked) throw new ApiError('not_found', 'there is no live key with this id')
  },
})
