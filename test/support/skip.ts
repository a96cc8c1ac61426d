/** Skips every test of the suite whose `before` hook this is, and says why behind each name. */
export function skipBecause(context: Mocha.Context, reason: string): void {
  for (const test of context.test?.parent?.tests ?? []) test.title += ` (skipped: ${reason})`
  context.skip()
}
