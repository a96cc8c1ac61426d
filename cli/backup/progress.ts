import { plain, printStatus } from '../print.ts'
import { isDrawable, type Screen } from '../screen.ts'

const REDRAW_INTERVAL_MS = 200
/** In files and pipes, a line for every redraw would be too many. */
const LINE_INTERVAL_MS = 10_000

/** Reports the progress of work whose total is unknown: one updated line in a terminal, else a line now and then. */
export function progressLine(screen: Screen = process.stderr): {
  report: (text: () => string) => void
  end: () => void
} {
  const isDrawn = isDrawable(screen)
  let reportedAt = isDrawn ? 0 : Date.now()
  let isOpen = false
  return {
    report: (text) => {
      if (Date.now() - reportedAt < (isDrawn ? REDRAW_INTERVAL_MS : LINE_INTERVAL_MS)) return
      reportedAt = Date.now()
      if (!isDrawn) return printStatus(text())
      isOpen = true
      screen.write(`\r\u001B[2K${plain(text())}`)
    },
    end: () => {
      if (isOpen) screen.write('\r\u001B[2K')
      isOpen = false
    },
  }
}
