import type { Static, TSchema } from 'typebox'
import { ApiError } from '../../domain/errors.ts'
import { type Frame, LinkProtocolError, parseJson } from '../../platform/link-codec.ts'
import { HelloMeta, StateBody } from '../../schemas/link.ts'
import { jsonCheck } from '../http/validate.ts'

/**
 * Reads what a node says of itself. Every gateway and worker places work by it, so one node that speaks otherwise than
 * agreed (another version, or worse) may lose its link, and nobody else anything.
 */
const readerOf = <S extends TSchema>(schema: S) => {
  const check = jsonCheck('body', schema)
  return ({ body }: Pick<Frame, 'body'>): Static<S> => {
    try {
      return check(parseJson(body), true) as Static<S>
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause
      throw new LinkProtocolError(`malformed report: ${cause.message}`, { cause })
    }
  }
}

/** The body of a `state` or `progress` frame. */
export const readState = readerOf(StateBody)
/** The body of a node's `hello`. */
export const readHello = readerOf(HelloMeta)
