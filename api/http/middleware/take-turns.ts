import type { LongAnswers } from '../long-answers.ts'
import type { Middleware } from './middleware.ts'

/** Builds the long responses of an account one after another. */
export const takeTurns =
  (longAnswers: LongAnswers): Middleware =>
  async ({ state }, next) => {
    using turn = await longAnswers.take(state.accountId ?? '', state.signal)
    await next()
    turn.restFor(state.outgoing)
  }
