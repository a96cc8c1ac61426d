import { setTimeout as sleep } from 'node:timers/promises'
import { type Process, processesOn, type TestPlatform } from '../test/support/servers/platform.ts'
import { oneOf, type Random } from './chaos-tally.ts'

type KillTarget = Process | 'model server' | 'trainer'

export const PREY: readonly KillTarget[] = [
  'api',
  'control',
  'gate',
  'node',
  'temporal',
  'postgres',
  'model server',
  'trainer',
]
const GAP_MS = { least: 10_000, most: 40_000 }

export interface Kill {
  at: number
  prey: KillTarget
}

/** Kills a random process every 10 to 40 s until the time is over. */
export async function hunt(
  platform: TestPlatform,
  dataDir: string,
  { random, until, say }: { random: Random; until: number; say: (line: string) => void },
): Promise<Kill[]> {
  const kills: Kill[] = []
  for (;;) {
    const pause = GAP_MS.least + random() * (GAP_MS.most - GAP_MS.least)
    if (Date.now() + pause > until) return kills
    await sleep(pause)
    for (;;) {
      const prey = oneOf(random, PREY)
      const pid = prey && oneOf(random, pidsOf(platform, dataDir, prey))
      if (prey === undefined || pid === undefined) {
        await sleep(100)
        continue
      }
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        continue
      }
      kills.push({ at: Date.now(), prey })
      say(`killed ${prey} (${pid})`)
      break
    }
  }
}

function pidsOf(platform: TestPlatform, dataDir: string, prey: KillTarget): number[] {
  if (prey === 'model server') return modelServers(dataDir).map(({ pid }) => pid)
  if (prey === 'trainer') return trainers(dataDir)
  const pid = platform.pidOf(prey)
  return pid === undefined ? [] : [pid]
}

/** Returns every model server with the key of its model. */
export function modelServers(dataDir: string): { pid: number; modelKey: string }[] {
  return processesOn(dataDir).flatMap(({ pid, command }) => {
    const modelKey = /\/weights\/models\/([^/\s]+)/.exec(command)?.[1]
    return modelKey === undefined || /launcher\.py|hearth_trainers/.test(command) ? [] : [{ pid, modelKey }]
  })
}

export const trainers = (dataDir: string): number[] =>
  processesOn(dataDir)
    .filter(({ command }) => command.includes('-m hearth_trainers') && !command.includes('launcher.py'))
    .map(({ pid }) => pid)
