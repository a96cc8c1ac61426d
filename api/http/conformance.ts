import { Readable } from 'node:stream'
import { ApiError } from '../../domain/errors.ts'
import { errorCodesOf } from './openapi/implied-errors.ts'
import type { Outgoing } from './outgoing.ts'
import type { AnyRoute } from './route.ts'
import { type Check, jsonCheck } from './validate.ts'

/** Checks a route against its own declaration, for tests. A violation becomes a 500 that explains it. */
export class Conformance {
  readonly #route: AnyRoute
  readonly #codes: ReadonlySet<string>
  readonly #checks = new Map<number, Check | null>()

  constructor(route: AnyRoute) {
    this.#route = route
    this.#codes = new Set(errorCodesOf(route))
    const { success, also = {} } = route
    const answers = [[success.status, success.schema ?? null] as const, ...Object.entries(also)]
    for (const [status, schema] of answers) {
      this.#checks.set(Number(status), schema && jsonCheck('response', schema))
    }
  }

  /** Throws if a successful response has an undeclared status, or a body that doesn't match its schema. */
  checkAnswer({ status, body, headers }: Outgoing): void {
    const check = this.#checks.get(status)
    if (check === undefined) throw this.#lie(`returned ${status}, which it does not declare`)
    if (check === null) {
      const isEmpty = body === undefined || this.#route.success.contentType !== undefined
      if (!isEmpty) throw this.#lie(`returned ${status} with a body, which it does not declare`)
      return
    }
    // A stream is not read here; the tests of its route read it.
    if (body instanceof Readable) return
    if (this.#route.success.otherTypes?.includes(String(headers?.['content-type']))) return
    try {
      const isJson = typeof body === 'string' || body instanceof Uint8Array
      check(isJson ? JSON.parse(String(body)) : undefined)
    } catch (cause) {
      throw this.#lie(
        `returned ${status} with a body that does not match its schema: ${(cause as Error).message}`,
      )
    }
  }

  /** Returns the error if it is declared, or else an error that reports it as undeclared. */
  checkError(error: ApiError): ApiError {
    if (this.#codes.has(error.code)) return error
    return this.#lie(`failed with ${error.code} (${error.message}), which it does not declare`)
  }

  #lie(what: string): ApiError {
    return new ApiError('internal', `${this.#route.operationId} ${what}`, { cause: new Error(what) })
  }
}
