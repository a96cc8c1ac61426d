import type { CatalogTool } from '../../schemas/catalog-tool.ts'
import { withoutPaths } from '../models/without-paths.ts'
import type { StartedTool } from './driver.ts'
import { formatOutput, readBounded, type ProgramOutput } from './output.ts'
import { ToolError } from './tool-error.ts'

/** A program that writes more than this is ended, because reading its output takes the node's time. */
const MAX_WRITTEN = 16 * 1024 * 1024
const MAX_REASON = 1_000
/** The exit status of a program that reports an invalid input. */
const INPUT_FAULT = 2
const KILLED = 137

/** Waits for a started tool to end and returns its result as JSON. Throws `ToolError`, or the signal's reason. */
export async function resultOf(
  tool: CatalogTool,
  started: StartedTool,
  { timeS, signal }: { timeS: number; signal: AbortSignal },
): Promise<Buffer> {
  let ended: ToolError | undefined
  const end = (why: string, isLate = false) => {
    ended ??= new ToolError(`the tool ${why}`, { isLate })
    started.kill()
  }
  const late = `was ended after ${timeS} s, its time limit`
  const timer = setTimeout(() => end(late, true), timeS * 1_000)
  const abort = () => end('was stopped')
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  const most = tool.limits.output_kb * 1_024
  const onTotal = (bytes: number) =>
    bytes > MAX_WRITTEN && end(`was ended because it wrote more than ${MAX_WRITTEN / 1_048_576} MB`)
  try {
    const [stdout, stderr, { code }] = await Promise.all([
      readBounded(started.stdout, most, onTotal),
      readBounded(started.stderr, most, onTotal),
      started.exited,
    ])
    signal.throwIfAborted()
    if (ended !== undefined) throw ended
    if (started.excess !== undefined) throw new ToolError(`the tool was ended because ${started.excess}`)
    return tool.output === 'streams' ? streams(code, stdout, stderr) : jsonResult(tool, code, stdout, stderr)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', abort)
  }
}

function streams(exit_code: number, stdout: ProgramOutput, stderr: ProgramOutput): Buffer {
  if (exit_code === 126 && isOwnFault(stderr)) throw unconfined(stderr)
  return Buffer.from(
    JSON.stringify({ stdout: formatOutput(stdout), stderr: formatOutput(stderr), exit_code }),
  )
}

function jsonResult(
  { slug, limits }: CatalogTool,
  code: number,
  stdout: ProgramOutput,
  stderr: ProgramOutput,
): Buffer {
  if (code === 126 && isOwnFault(stderr)) throw unconfined(stderr)
  if (stdout.droppedBytes > 0)
    throw new ToolError(`the result of the tool is larger than ${limits.output_kb} KB`)
  const value = parse(stdout.text)
  if (code === INPUT_FAULT && typeof value?.['error'] === 'object') {
    const { message } = value['error'] as { message?: unknown }
    if (typeof message === 'string') throw new ToolError(message.slice(0, MAX_REASON))
  }
  if (code !== 0) throw new ToolError(`the tool ${slug} failed: ${lastErrorLine(stderr, code)}`)
  if (!value) throw new ToolError(`the tool ${slug} did not print a JSON object`)
  return stdout.text
}

/** Returns whether the output is the launcher's own message that it could not set up the sandbox. */
const isOwnFault = ({ text }: ProgramOutput): boolean =>
  text.toString().startsWith('this node cannot confine')

const unconfined = ({ text }: ProgramOutput): ToolError =>
  new ToolError(withoutPaths(text.toString().split('\n')[0] ?? ''), { isOfNode: true })

function lastErrorLine({ text }: ProgramOutput, code: number): string {
  const line = text.toString().trim().split('\n').at(-1)?.trim() ?? ''
  if (line !== '') return withoutPaths(line).slice(0, MAX_REASON)
  return code === KILLED
    ? 'it was killed, most likely because it used too much memory'
    : `it exited with status ${code}`
}

function parse(text: Buffer): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text.toString()) as unknown
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}
