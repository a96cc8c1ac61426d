import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

interface QueryResult {
  columns?: { name: string; type: string }[]
  rows?: Record<string, unknown>[]
  note?: string
  error?: string
}

/** Queries files with the `query_table` program, outside the tool sandbox. */
export async function runQueries(
  python: string,
  requests: ({ text: string } | { base64: string })[] & { sql?: string }[],
): Promise<QueryResult[]> {
  const child = spawn(python, ['-I', join(import.meta.dirname, 'query_probe.py')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(JSON.stringify(requests))
  return JSON.parse(await text(child.stdout)) as QueryResult[]
}
