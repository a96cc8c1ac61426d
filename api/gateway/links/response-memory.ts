import { ApiError, temporaryError } from '../../../domain/errors.ts'
import { BodyBudget, type BudgetReservation } from '../../http/bodies/body-budget.ts'
import { isDear, weighJson } from '../../http/bodies/json-weight.ts'
import { LongResponses } from '../../http/long-responses.ts'

const MIB = 1024 * 1024
/** Larger responses must be streamed. */
const MAX_ANSWER = 64 * MIB
/** Responses of at most one frame are not counted. */
const UNCOUNTED = 64 * 1024

/** Returns whether a response is large enough to be counted. */
export const isCounted = (answer: Buffer): boolean => answer.length > UNCOUNTED

/**
 * The memory for model responses while this gateway assembles and sends them; one account can use at most half of it.
 */
export class ResponseMemory {
  readonly #budget: BodyBudget
  /** Lets accounts take turns having long responses parsed. */
  readonly reading = new LongResponses()

  constructor(bytes: number) {
    this.#budget = new BodyBudget(bytes)
  }

  /** Bytes in use. */
  get held(): number {
    return this.#budget.held
  }

  /** @param accountId the account that the response is for. */
  room(accountId: string): MemoryReservation {
    return new MemoryReservation(this.#budget, accountId)
  }
}

/** The memory that one response uses, until it is released. */
export class MemoryReservation {
  readonly #budget: BodyBudget
  readonly #owner: string
  #held: BudgetReservation | undefined
  #isOver = false

  constructor(budget: BodyBudget, owner: string) {
    this.#budget = budget
    this.#owner = owner
  }

  /** True while memory is reserved. */
  get isHeld(): boolean {
    return this.#held !== undefined
  }

  /** Reserves `bytes` more; returns false when they are not available. */
  grow(bytes: number): boolean {
    if (this.#isOver || !this.#budget.fits(this.#owner, bytes)) return false
    this.#held ??= { owner: this.#owner, bytes: 0 }
    this.#budget.hold(this.#held, bytes)
    return true
  }

  /**
   * Reserves the memory for the parsed values of a JSON text; throws `no_capacity` if that is too much. Throws
   * `internal` for JSON that would block the gateway's thread for long: a node may belong to a tenant, so we can't
   * trust it.
   */
  holdValues(json: Buffer): void {
    if (!isCounted(json)) return
    const weight = weighJson(json)
    if (isDear(weight, json.length))
      throw new ApiError(
        'internal',
        "the model's answer has too many different member names, lists or objects for its size",
      )
    if (!this.grow(weight.bytes)) throw tooMuch()
  }

  /** Releases everything permanently; safe to repeat. */
  release(): void {
    this.#isOver = true
    if (this.#held) this.#budget.release(this.#held)
    this.#held = undefined
  }
}

/** Assembles bytes that arrive in pieces. Copies each piece, which may be a small view of a large buffer. */
export class ResponseBuffer {
  readonly #room: MemoryReservation
  #bytes: Buffer = Buffer.alloc(0)
  #length = 0

  constructor(room: MemoryReservation) {
    this.#room = room
  }

  get length(): number {
    return this.#length
  }

  /** Throws `no_capacity` if no memory is left, `internal` if the response exceeds `MAX_ANSWER`. */
  append(chunk: Buffer): void {
    const length = this.#length + chunk.length
    if (length > MAX_ANSWER) {
      throw new ApiError('internal', `the model's answer exceeds ${MAX_ANSWER / MIB} MB`)
    }
    if (length > this.#bytes.length) this.#widen(length)
    this.#bytes.set(chunk, this.#length)
    this.#length = length
  }

  /** Returns all bytes and empties the buffer; their memory stays reserved. */
  take(): Buffer {
    const bytes = this.#bytes.subarray(0, this.#length)
    this.#bytes = Buffer.alloc(0)
    this.#length = 0
    return bytes
  }

  #widen(length: number): void {
    const capacity = Math.min(MAX_ANSWER, Math.max(length, 2 * this.#bytes.length))
    const counted = Math.max(0, capacity - UNCOUNTED) - Math.max(0, this.#bytes.length - UNCOUNTED)
    if (counted > 0 && !this.#room.grow(counted)) throw tooMuch()
    const wider = Buffer.allocUnsafe(capacity)
    wider.set(this.#bytes.subarray(0, this.#length))
    this.#bytes = wider
  }
}

const tooMuch = () =>
  temporaryError('no_capacity', 'too many large answers are being sent; try again in a moment', 1)
