import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import * as creditRepository from '../../../../../db/repositories/platform/credits.ts'
import { invalid } from '../../../../../domain/errors.ts'
import { creditsToMicro, microToCredits } from '../../../../../domain/money.ts'
import { AccountCredit, GiveCredits } from '../../../../../schemas/admin.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { accountNotFound, params } from './account.ts'

export const giveAccountCredits = route({
  operationId: 'giveAccountCredits',
  summary: 'Add credits to an account, or remove some with a negative amount',
  method: 'POST',
  path: '/admin/accounts/{account_id}/credits',
  auth: 'operations-key',
  idempotent: true,
  params,
  body: GiveCredits,
  success: { status: 201, schema: AccountCredit },
  errors: ['not_found'],

  async handler({ params: { account_id: accountId }, body: { amount_credits, reason }, trx }) {
    const amountMicro = creditsToMicro(amount_credits)
    if (amountMicro === 0)
      throw invalid(['body', 'amount_credits'], 'must be at least a millionth of a credit')
    if (!(await accountRepository.lockAccount(trx, accountId))) throw accountNotFound()
    const row = await creditRepository.giveCredits(trx, { accountId, amountMicro, reason })
    await audit(trx, {
      action: 'giveAccountCredits',
      subject: { kind: 'account', id: accountId },
      accountId,
      after: { credit_id: row.id, amount_micro: row.amount_micro, reason },
    })
    const balance = await creditRepository.balanceOf(trx, accountId)
    return {
      credit_id: row.id,
      account_id: accountId,
      amount_micro: row.amount_micro,
      amount_credits: microToCredits(row.amount_micro),
      reason,
      balance: { micro: balance, credits: microToCredits(balance) },
      created_at: row.created_at.toISOString(),
    }
  },
})
