import * as accountRepository from '../../../../db/repositories/platform/accounts.ts'
import * as apiKeyRepository from '../../../../db/repositories/platform/api-keys.ts'
import * as creditRepository from '../../../../db/repositories/platform/credits.ts'
import * as storageRepository from '../../../../db/repositories/platform/storage.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { microToCredits } from '../../../../domain/money.ts'
import { Me } from '../../../../schemas/account.ts'
import { route } from '../../../http/route.ts'
import { defaultQuotaBytes } from '../../../storage/storage-quota.ts'

export const getMe = route({
  operationId: 'getMe',
  summary: "Get this request's account and key, with quotas and balance",
  method: 'GET',
  path: '/me',
  auth: 'api-key',
  success: { status: 200, schema: Me },

  async handler({ caller: { accountId, keyId, role } }, { db, config, publicUrl }) {
    const [account, key, balance, storage] = await Promise.all([
      accountRepository.findAccount(db, accountId),
      apiKeyRepository.findOwnKey(db, { id: keyId, accountId }),
      creditRepository.balanceOf(db, accountId),
      storageRepository.storageUse(db, accountId, defaultQuotaBytes(config)),
    ])
    if (!account || !key) throw new ApiError('unauthenticated', 'this API key is not valid')
    return {
      account: { id: account.id, name: account.name },
      role,
      key: {
        id: key.id,
        name: key.name,
        hint: key.key_hint,
        expires_at: key.expires_at?.toISOString() ?? null,
        limits: key.limits,
      },
      quotas: {
        training: account.training_quota,
        tasks: account.task_quota,
        copies: account.copy_quota ?? config.HEARTH_ACCOUNT_COPIES,
      },
      storage: {
        limit_bytes: storage.limitBytes,
        stored_bytes: storage.storedBytes,
        under_way_bytes: storage.underWayBytes,
      },
      balance_credits: microToCredits(balance),
      features: [...config.HEARTH_FEATURES, ...(config.HEARTH_MEMORY ? ['memory'] : [])],
      base_url: publicUrl,
    }
  },
})
