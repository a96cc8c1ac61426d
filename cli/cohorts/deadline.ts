import { InvalidArgumentError } from 'commander'
import { MAX_DEADLINE_S } from '../../schemas/cohorts/plan.ts'

/** Parses the deadline of a run. */
export function deadline(text: string): number {
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= MAX_DEADLINE_S) return seconds
  throw new InvalidArgumentError(`Expected a whole number of seconds from 1 to ${MAX_DEADLINE_S}.`)
}
