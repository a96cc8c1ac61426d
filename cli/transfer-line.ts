import { seconds, size } from './amounts.ts'
import { isDrawable, type Screen } from './screen.ts'

const REDRAW_INTERVAL_MS = 150
const PLAIN_STEP = 25

interface TransferProgress {
  sent: number
  total: number
}

/** Returns a function that shows transfer progress: one updated line in a terminal, else a line per quarter. */
export function transferLine(
  name: string,
  screen: Screen = process.stderr,
): (moved: TransferProgress) => void {
  const began = Date.now()
  const isDrawn = isDrawable(screen)
  let drawnAt = 0
  let lastDrawnAt = 0
  return ({ sent, total }) => {
    const pct = total === 0 ? 100 : Math.floor((100 * sent) / total)
    const isEnd = sent >= total
    if (isDrawn ? !isEnd && Date.now() - drawnAt < REDRAW_INTERVAL_MS : pct < lastDrawnAt + PLAIN_STEP) return
    drawnAt = Date.now()
    lastDrawnAt = pct - (pct % PLAIN_STEP)
    const pace = (sent / Math.max(1, drawnAt - began)) * 1000
    const remaining = isEnd ? '' : `, about ${seconds((total - sent) / pace)} left`
    const text = `${name} ${pct} % (${size(sent)} of ${size(total)}, ${size(pace)}/s${remaining})`
    screen.write(isDrawn ? `\r\u001B[2K${text}${isEnd ? '\n' : ''}` : `${text}\n`)
  }
}
