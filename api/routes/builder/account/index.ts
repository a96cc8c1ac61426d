import { getLedger } from './get-ledger.ts'
import { getMe } from './get-me.ts'
import { getUsage } from './get-usage.ts'
import { listEvents } from './list-events.ts'
import { streamEvents } from './stream-events.ts'

export const account = [getMe, getLedger, getUsage, listEvents, streamEvents]
