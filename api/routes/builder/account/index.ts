import { getLedger } from './get-ledger.ts'
import { getMe } from './get-me.ts'

export const account = [getMe, getLedger]
