import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { endWith } from './rounds.ts'

const FLOORS = JSON.parse(readFileSync(join(import.meta.dirname, 'floors.json'), 'utf8')) as Record<
  string,
  Record<string, number>
>

/** A measured figure with its goal. Lower is better unless `isMost` is set. */
export interface Figure {
  readonly what: string
  readonly measured: number
  readonly goal: number
  readonly isMost?: boolean
}

/**
 * Prints figures with their goals and their floors from floors.json, and exits with 1 if a figure is worse than its
 * floor. Floors are about a third worse than this release's results on a busy machine with two cores. A missed goal
 * doesn't fail the bench.
 */
export function judge(bench: string, figures: readonly Figure[]): void {
  const line = ([what = '', ...cells]: readonly string[]) =>
    console.log(what.padEnd(36) + cells.map((cell) => cell.padStart(16)).join(''))
  line(['', 'measured', 'floor', '', 'goal', ''])
  const holds = figures.map(({ what, measured, goal, isMost = false }) => {
    const floor = FLOORS[bench]?.[what]
    if (floor === undefined) throw new Error(`bench/floors.json has no floor for ${bench}: ${what}`)
    const isWithin = (bound: number) => (isMost ? measured >= bound : measured <= bound)
    const side = isMost ? 'at least' : 'at most'
    const verdicts = [isWithin(floor) ? 'holds' : 'broken', isWithin(goal) ? 'met' : 'missed']
    line([what, measured.toFixed(2), `${side} ${floor}`, verdicts[0]!, `${side} ${goal}`, verdicts[1]!])
    return isWithin(floor)
  })
  endWith(holds.every(Boolean))
}
