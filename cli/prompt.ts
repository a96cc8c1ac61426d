import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { usageError } from './cli-error.ts'

/**
 * Prompts for a line on the terminal, without echo for a secret. Without a terminal, reads a line from standard input.
 */
export async function promptFor(question: string, { secret = false } = {}): Promise<string> {
  const isTerminal = process.stdin.isTTY === true
  if (isTerminal) process.stderr.write(question)
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({
    input: process.stdin,
    output: secret ? nowhere : process.stderr,
    terminal: isTerminal,
  })
  // Readline would swallow Ctrl-C at a prompt, so exit as other commands do.
  lines.once('SIGINT', () => process.exit(130))
  try {
    for await (const line of lines) return line.trim()
  } finally {
    lines.close()
    if (secret && isTerminal) process.stderr.write('\n')
  }
  throw usageError(
    `${question.replace(/[:\s]+$/, '')}: no value given; pass it on standard input or as an option`,
  )
}
