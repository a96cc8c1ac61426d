import { ofAccount } from '../../../db/account-share.ts'
import type { Middleware } from './middleware.ts'

/** Counts the database connections of a request for its account, which may hold a share of them only. */
export const shareDatabase: Middleware = ({ state: { accountId } }, next) =>
  accountId === undefined ? next() : ofAccount(accountId, next)
