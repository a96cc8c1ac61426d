import { plain, printStatus } from './print.ts'

/** The stream that shows the progress of work. */
export interface Screen {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): void
}

/** Returns whether we may redraw text in place: not in files and pipes, and not if the user wants plain lines. */
export const isDrawable = (screen: Screen, env: NodeJS.ProcessEnv = process.env): boolean =>
  screen.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb'

/** Writes a line to a screen. */
export const writeLine = (screen: Screen, text: string): void => screen.write(`${plain(text)}\n`)

/** Returns a function that replaces the text of its previous call. */
export function drawer(screen: Screen): (text: string) => void {
  const ESCAPE = '\u001B['
  let height = 0
  return (text) => {
    // A wrapped line would break the cursor movement, so truncate. If the width is unknown, write whole lines.
    const width = screen.columns ? Math.max(20, screen.columns) : Infinity
    const lines = plain(text)
      .split('\n')
      .map((line) => (line.length < width ? line : `${line.slice(0, width - 2)}…`))
    const back = height > 0 ? `${ESCAPE}${height}A${ESCAPE}0J` : ''
    screen.write(`${back}${lines.join('\n')}\n`)
    height = lines.length
  }
}

/** Watches work that doesn't depend on this process. Ctrl-C stops watching and says that the work continues. */
export async function watching<T>(goesOn: string, watch: () => Promise<T>): Promise<T> {
  const leave = () => {
    printStatus(`\nhearth: ${goesOn}`)
    process.exit(130)
  }
  process.once('SIGINT', leave)
  try {
    return await watch()
  } finally {
    process.off('SIGINT', leave)
  }
}
