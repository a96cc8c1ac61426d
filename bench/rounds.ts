/** True when a bench only proves that it runs, as for `npm run bench:all`: its figures say nothing. */
export const isOnce = process.env['HEARTH_BENCH_ONCE'] === '1'

/** Returns a count of a whole run, or the one that proves that the bench runs. */
export const unlessOnce = (whole: number, once = 1): number => (isOnce ? once : whole)

/** Ends the bench with 1 when it misses a goal; one short round has none to meet. */
export function endWith(isMet: boolean): void {
  process.exitCode = isMet || isOnce ? 0 : 1
}
