import { ApiError, tryLater } from '../../../domain/errors.ts'
import { BodyBudget, type Held, parsedBytes } from '../../http/body-budget.ts'

const MIB = 1024 * 1024
/** Larger answers are for streams. */
const MAX_ANSWER = 64 * MIB
/** What any answer may take uncounted: those that come in one frame. */
const UNCOUNTED = 64 * 1024

/** Whether an answer is large enough to be counted. */
export const isCounted = (answer: Buffer): boolean => answer.length > UNCOUNTED

/** The memory that answers of models take on this gateway while they are put together and sent on; one account has half of it. */
export class AnswerMemory {
  readonly #budget: BodyBudget

  constructor(bytes: number) {
    this.#budget = new BodyBudget(bytes)
  }

  /** Bytes held now. */
  get held(): number {
    return this.#budget.held
  }

  /** @param accountId who the answer is for. */
  room(accountId: string): AnswerRoom {
    return new AnswerRoom(this.#budget, accountId)
  }
}

/** What one answer holds of the memory, until it is released. */
export class AnswerRoom {
  readonly #budget: BodyBudget
  readonly #owner: string
  #held: Held | undefined
  #isOver = false

  constructor(budget: BodyBudget, owner: string) {
    this.#budget = budget
    this.#owner = owner
  }

  /** Whether `bytes` more could be had, which then are held. */
  grow(bytes: number): boolean {
    if (this.#isOver || !this.#budget.fits(this.#owner, bytes)) return false
    this.#held ??= { owner: this.#owner, bytes: 0 }
    this.#budget.hold(this.#held, bytes)
    return true
  }

  /** Holds what the values of a JSON text take beside it; throws when that is too much. */
  holdValues(json: Buffer): void {
    if (isCounted(json) && !this.grow(parsedBytes(json))) throw tooMuch()
  }

  /** Gives everything back, for good; safe to repeat. */
  release(): void {
    this.#isOver = true
    if (this.#held) this.#budget.release(this.#held)
    this.#held = undefined
  }
}

/** Bytes that come in pieces, as one; the pieces are not kept, which may be small parts of what they came in. */
export class AnswerBuffer {
  readonly #room: AnswerRoom
  #bytes: Buffer = Buffer.alloc(0)
  #length = 0

  constructor(room: AnswerRoom) {
    this.#room = room
  }

  get length(): number {
    return this.#length
  }

  /** Throws `no_capacity` when no memory is left, `internal` when the answer is larger than any may be. */
  append(chunk: Buffer): void {
    const length = this.#length + chunk.length
    if (length > MAX_ANSWER) {
      throw new ApiError('internal', `the model's answer exceeds ${MAX_ANSWER / MIB} MB`)
    }
    if (length > this.#bytes.length) this.#widen(length)
    this.#bytes.set(chunk, this.#length)
    this.#length = length
  }

  /** All there is; the buffer is empty afterwards, and its memory still held. */
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
  tryLater('no_capacity', 'too many large answers are being sent; try again in a moment', 1)
