import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Returns sums in the alpaca format, short enough for a tiny model to learn. */
export function sumRows(count: number): { instruction: string; input: string; output: string }[] {
  return Array.from({ length: count }, (_, index) => ({
    instruction: `Add ${index} and ${index + 1}.`,
    input: index % 2 ? '' : 'Please.',
    output: `It is ${2 * index + 1}.`,
  }))
}

/** Writes rows as jsonl and returns the path. */
export async function writeJsonl(
  folder: string,
  rows: readonly object[],
  name = 'rows.jsonl',
): Promise<string> {
  const file = join(folder, name)
  await writeFile(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  return file
}
