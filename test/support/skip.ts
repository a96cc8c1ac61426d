/** Skips the current test, or every test of the suite in a `before` hook, and appends the reason to each title. */
export function skipBecause(context: Mocha.Context, reason: string): void {
  const all = context.test?.parent?.tests ?? []
  const own = all.filter((test) => test === context.test)
  for (const test of own.length > 0 ? own : all) test.title += ` (skipped: ${reason})`
  context.skip()
}

/**
 * For `before` or a single test: skips it if the program can't be installed. The test runner has tried to install it,
 * and `missing` contains the error.
 */
export async function requireInstalled(
  context: Mocha.Context,
  missing: string | undefined,
  install: () => Promise<unknown>,
): Promise<void> {
  const reason = missing ?? (await install().then(() => undefined, String))
  if (reason !== undefined) skipBecause(context, reason.split('\n')[0] ?? '')
}
