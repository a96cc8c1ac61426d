import { UNAUTHENTICATED, type BodyBudget } from '../bodies/body-budget.ts'
import {
  checkMediaType,
  declaredLength,
  fileTooLarge,
  hasBody,
  JSON_TYPE,
  MAX_JSON_BYTES,
  readBody,
  tooLarge,
} from '../bodies/body.ts'
import type { Operation } from '../operation.ts'
import type { RequestContext } from '../request-context.ts'
import type { Middleware } from './middleware.ts'

const MIB = 1024 * 1024
const JSON_TYPES = [JSON_TYPE]
/** The maximum size of a form without its file: 32 fields of 64 KiB, plus the headers of its parts. */
const FORM_BYTES = 4 * MIB

/**
 * Reads a JSON body into the context, or checks the headers of a request whose body the handler will read. Both reserve
 * memory in `bodies`, at most `streamBytes` for a streamed body.
 */
export function takeBody(
  { route, isOpen }: Operation,
  { bodies, streamBytes }: { bodies: BodyBudget; streamBytes: number },
): Middleware {
  const maxBytes = route.stream ? Infinity : Math.min(route.maxBodyBytes ?? MAX_JSON_BYTES, bodies.share)
  /** The owner of a body's memory if its sender has no account. */
  const fallbackOwner = isOpen ? UNAUTHENTICATED : route.auth

  /** Checks the declared length before reading a byte. */
  function checkDeclared(bytes: number): void {
    const file = route.stream?.file
    if (file && bytes > file.maxBytes + FORM_BYTES) throw fileTooLarge(file)
    if (bytes > maxBytes) throw tooLarge(maxBytes)
  }

  /** Reserves memory for the body. */
  function reserve(state: RequestContext): void {
    const declared = declaredLength(state.req)
    const held = (state.held = { owner: state.accountId ?? state.owner ?? fallbackOwner, bytes: 0 })
    if (!route.stream) return bodies.check(held.owner, declared)
    bodies.hold(held, Math.min(declared || streamBytes, streamBytes))
    state.req.once('close', () => bodies.release(held))
    const kept = (state.kept = { owner: held.owner, bytes: 0 })
    state.hold = (bytes) => bodies.hold(kept, bytes)
  }

  function read(state: RequestContext): Promise<void> {
    const { req, held } = state
    const hold = (bytes: number) => held && bodies.hold(held, bytes)
    return readBody(req, maxBytes, { hold, done: (bytes) => (state.rawBody = bytes) })
  }

  return ({ state }, next) => {
    const { req } = state
    if (!hasBody(req)) return next()
    checkDeclared(declaredLength(req))
    if (route.stream) checkMediaType(req, route.stream.contentTypes)
    else if (route.body) checkMediaType(req, JSON_TYPES)
    reserve(state)

    if (req.headers.expect?.toLowerCase() === '100-continue') state.response.writeContinue()
    return route.stream ? next() : read(state).then(next)
  }
}
