import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { LogFile } from './log-file.ts'

const LEVELS: Record<number, string> = { 30: 'info', 40: 'warn', 50: 'error', 60: 'fatal' }

/** The output of the supervisor and its children. */
export interface Output {
  say: (line: string) => void
  /** Copies a child's output to its log file and, in readable lines, to the console. */
  follow(name: string, streams: Readable[], options: { echo: boolean }): void
}

export function createOutput(logDir: string, { quiet }: { quiet: boolean | 'children' }): Output {
  const print = (name: string, line: string) => console.log(`${clock()} ${name.padEnd(10)} ${line}`)
  return {
    say: (line) => {
      if (quiet !== true) print('hearth', line)
    },
    follow(name, streams, { echo }) {
      const file = new LogFile(join(logDir, `${name}.log`))
      for (const stream of streams) {
        eachLine(stream, (line) => {
          file.write(line)
          const text = echo && !quiet ? readable(line) : undefined
          if (text !== undefined) print(name, text)
        })
      }
      let open = streams.length
      for (const stream of streams) stream.once('close', () => --open === 0 && file.end())
    },
  }
}

function clock(): string {
  return new Date().toISOString().slice(11, 19)
}

function eachLine(stream: Readable, use: (line: string) => void): void {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  stream.on('data', (chunk: Buffer) => {
    const lines = (rest + decoder.write(chunk)).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) use(line)
  })
  stream.once('close', () => {
    if (rest !== '') use(rest)
  })
}

/** Formats a JSON log line for people; lines below `info`, and lines about requests, go to the file only. */
function readable(line: string): string | undefined {
  if (!line.startsWith('{')) return line
  try {
    const {
      level,
      time: _time,
      pid: _pid,
      hostname: _host,
      msg,
      err,
      event: _event,
      ...rest
    } = JSON.parse(line)
    if (level < 30 || (level === 30 && 'request_id' in rest)) return undefined
    const fields = Object.entries(rest).map(([key, value]) => `${key}=${brief(value)}`)
    const why = typeof err === 'string' ? err : err?.message
    const cause = why ? `: ${String(why)}` : ''
    return [LEVELS[level] ?? '', `${String(msg ?? '')}${cause}`, ...fields].filter(Boolean).join(' ')
  } catch {
    return line
  }
}

function brief(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text !== undefined && text.length > 120 ? `${text.slice(0, 119)}…` : String(text)
}
