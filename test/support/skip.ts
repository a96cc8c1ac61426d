/** Skips every test of the suite whose `before` hook this is, and says why behind each name. */
export function skipBecause(context: Mocha.Context, reason: string): void {
  for (const test of context.test?.parent?.tests ?? []) test.title += ` (skipped: ${reason})`
  context.skip()
}

/**
 * For `before`: skips the suite where what it needs cannot be installed. The runner of all tests has tried that before
 * them, and says in `missing` why it failed.
 */
export async function requireInstalled(
  context: Mocha.Context,
  missing: string | undefined,
  install: () => Promise<unknown>,
): Promise<void> {
  const reason = missing ?? (await install().then(() => undefined, String))
  if (reason !== undefined) skipBecause(context, reason.split('\n')[0] ?? '')
}
