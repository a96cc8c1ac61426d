import type { LongResponses } from '../long-responses.ts'
import type { Middleware } from './middleware.ts'

/**
 * Builds an account's long responses one after another. The next one starts when the client has read the previous one,
 * so clients that don't read hold the memory of only one response.
 */
export const takeTurns =
  (longAnswers: LongResponses): Middleware =>
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
