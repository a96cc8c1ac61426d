import { useSyncExternalStore } from 'react'

const TICK_INTERVAL_MS = 15_000

const drawn = new Set<() => void>()
let ticks = 0
let timer: ReturnType<typeof setInterval> | undefined

function tick(): void {
  ticks += 1
  for (const draw of drawn) draw()
}

/** Starts or stops the one timer for all times on the page: it runs only while the page is visible and shows times. */
function arrange(): void {
  const isNeeded = drawn.size > 0 && document.visibilityState === 'visible'
  if (isNeeded) timer ??= setInterval(tick, TICK_INTERVAL_MS)
  else {
    clearInterval(timer)
    timer = undefined
  }
}

document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') tick()
  arrange()
})

function subscribe(draw: () => void): () => void {
  drawn.add(draw)
  arrange()
  return () => {
    drawn.delete(draw)
    arrange()
  }
}

/** Rerenders a component every few seconds. */
export const useTick = (): number => useSyncExternalStore(subscribe, () => ticks)
