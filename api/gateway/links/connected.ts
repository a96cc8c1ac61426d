import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import { Allowance } from '../../../platform/async/allowance.ts'
import type { NodeInventory, NodeReport } from '../../../schemas/node.ts'
import type { Decided } from './decided.ts'
import type { NodeLink } from './node-link.ts'

/** Bytes of lines and losses of one node. */
const SPOOLED = { perSecond: 1024 * 1024, burst: 8 * 1024 * 1024 }
const SOON = { perSecond: 10, burst: 40 }

/** A linked node, as its gateway knows it. */
export interface Connected {
  link: NodeLink
  /** Whose node it is. */
  accountId: string
  /** As the newest hello has it. */
  inventory: NodeInventory | undefined
  /** A hello is being recorded; what comes meanwhile follows as one. */
  recording: boolean
  snapshot: NodeSnapshot | undefined
  /** What operators have decided; unknown until its hello is recorded, and nothing is placed on it before. */
  decided: Decided | undefined
  /** As it was last told, with models that nobody ordered. */
  report: NodeReport | undefined
  /** Its reports hold more models than are told on. */
  isCut: boolean
  /** Frames of types that this version does not know. */
  unknownFrames: number
  /** Changes that workers see at once; others come with the next beat. */
  soon: Allowance
  /** Bytes of lines and losses that it may have stored. */
  spooled: Allowance
  /** Models without an order that it was seen to have, and that its account may have loaded by itself. */
  asked: Set<string>
}

/** A node whose link has just been opened. */
export const connected = (link: NodeLink, accountId: string): Connected => ({
  link,
  accountId,
  inventory: undefined,
  recording: false,
  snapshot: undefined,
  decided: undefined,
  report: undefined,
  isCut: false,
  unknownFrames: 0,
  soon: new Allowance(SOON),
  spooled: new Allowance(SPOOLED),
  asked: new Set(),
})
