/** Skips the test that this is, or every test of the suite whose `before` hook this is, and says why behind each name. */
export function skipBecause(context: Mocha.Context, reason: string): void {
  const all = context.test?.parent?.tests ?? []
  const own = all.filter((test) => test === context.test)
  for (const test of own.length > 0 ? own : all) test.title += ` (skipped: ${reason})`
  context.skip()
}

/**
 * For `before` or a single test: skips it where the program cannot be installed. The runner of all tests has tried to
 * install it, and `missing` has its error.
 */
export async function requireInstalled(
  context: Mocha.Context,
  missing: string | undefined,
  install: () => Promise<unknown>,
): Promise<void> {
  const reason = missing ?? (await install().then(() => undefined, String))
  if (reason !== undefined) skipBecause(context, reason.split('\n')[0] ?? '')
}
