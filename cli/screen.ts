import { plain, remark } from './print.ts'

/** The stream that work is told to while it runs. */
export interface Screen {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): void
}

/** Returns whether a text on a screen may be drawn over: not in files and pipes, and not where plain lines are wanted. */
export const isDrawable = (screen: Screen, env: NodeJS.ProcessEnv = process.env): boolean =>
  screen.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb'

/** Writes a line to a screen. */
export const writeLine = (screen: Screen, text: string): void => screen.write(`${plain(text)}\n`)

/** Returns a function that writes a text over the one that it wrote before. */
export function drawer(screen: Screen): (text: string) => void {
  const ESCAPE = '\u001B['
  let height = 0
  return (text) => {
    // A line that wraps would be two to the cursor. A terminal that does not tell its width is given whole lines.
    const width = screen.columns ? Math.max(20, screen.columns) : Infinity
    const lines = plain(text)
      .split('\n')
      .map((line) => (line.length < width ? line : `${line.slice(0, width - 2)}…`))
    const back = height > 0 ? `${ESCAPE}${height}A${ESCAPE}0J` : ''
    screen.write(`${back}${lines.join('\n')}\n`)
    height = lines.length
  }
}

/** Watches work that goes on without this process: Ctrl-C leaves it and says so. */
export async function watching<T>(goesOn: string, watch: () => Promise<T>): Promise<T> {
  const leave = () => {
    remark(`\nhearth: ${goesOn}`)
    process.exit(130)
  }
  process.once('SIGINT', leave)
  try {
    return await watch()
  } finally {
    process.off('SIGINT', leave)
  }
}
