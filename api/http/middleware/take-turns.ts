import type { LongAnswers } from '../long-answers.ts'
import type { Middleware } from './middleware.ts'

/**
 * Builds the long responses of an account one after another; the next one begins when the client has read the last, so
 * that clients which read nothing hold the memory of one response.
 */
export const takeTurns =
  (longAnswers: LongAnswers): Middleware =>
  async ({ state }, next) => {
    const turn = await longAnswers.take(state.accountId ?? '', state.signal)
    let bytes = 0
    try {
      await next()
      const body = state.outgoing?.body
      if (typeof body === 'string' || body instanceof Uint8Array) bytes = body.length
    } finally {
      turn.endWith(state.response, bytes)
    }
  }
