/** True if a bench only proves that it runs, as in `npm run bench:all`; its figures are then meaningless. */
export const isOnce = process.env['HEARTH_BENCH_ONCE'] === '1'

/** Returns the count for a full run, or the smaller one that only proves that the bench runs. */
export const unlessOnce = (whole: number, once = 1): number => (isOnce ? once : whole)

/** Exits the bench with 1 if it missed a goal; a single short round has no goals. */
export function endWith(isMet: boolean): void {
  process.exitCode = isMet || isOnce ? 0 : 1
}
