import { ofAccount } from '../../../db/account-share.ts'
import type { Middleware } from './middleware.ts'

/** Counts a request's database connections for its account, which may only use a share of the pool. */
export const shareDatabase: Middleware = ({ state: { accountId } }, next) =>
  accountId === undefined ? next() : ofAccount(accountId, next)
