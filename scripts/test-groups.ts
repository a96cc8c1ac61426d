import { globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { sep } from 'node:path'
import { countsOf, type TestEnding, type Suite } from './mocha-run.ts'

/** Test files whose time is measured together. */
interface Group {
  name: string
  /** Folders in `test/`. */
  folders: string[]
  /** The number of files that one mocha process runs in sequence. */
  filesPerProcess: number
  /** The maximum number of its processes that run at once. */
  sideBySide: number
  /** True if its tests start whole platforms, or need an environment of several gigabytes. */
  isHeavy?: true
}

/** Files in other folders that run PyTorch models. */
const MODELS: Group = { name: 'models', folders: [], filesPerProcess: 2, sideBySide: 2, isHeavy: true }
const NEEDS_PYTORCH = /\brequire(?:Llm|Specialist|Generative|Speech)\b/

/** The group of all folders that no other group lists. */
const RULES: Group = {
  name: 'rules and external systems',
  folders: ['domain', 'platform', 'db'],
  filesPerProcess: 20,
  sideBySide: 2,
}
/** Slow groups and folders come first, so that no slow file runs alone at the end. */
const GROUPS: readonly Group[] = [
  {
    name: 'platforms',
    folders: ['e2e', 'faults', 'upgrade', 'compose'],
    filesPerProcess: 1,
    sideBySide: 2,
    isHeavy: true,
  },
  MODELS,
  { name: 'jobs', folders: ['activities', 'workers'], filesPerProcess: 3, sideBySide: 2 },
  { name: 'nodes', folders: ['node-runtime', 'embedded', 'cli'], filesPerProcess: 8, sideBySide: 2 },
  { name: 'workflows', folders: ['workflows'], filesPerProcess: 6, sideBySide: 2 },
  { name: 'routes', folders: ['api', 'contract', 'client'], filesPerProcess: 16, sideBySide: 3 },
  RULES,
]

/** A test process uses most of a core, so one more lane than cores keeps all cores busy. */
const LANES = availableParallelism() + 1
/** On a two-core machine, tests time out if three heavy processes run at once. */
const MAX_HEAVY = 2
/** The time limit for one test process. */
const MINUTES = 30

/**
 * Runs every test file of the checkout and prints the duration of each group. A free lane takes the next process.
 * `isLight` leaves out the heavy groups.
 */
export async function runGroups(
  run: (suite: Suite) => Promise<TestEnding[]>,
  { isLight }: { isLight: boolean },
): Promise<TestEnding[]> {
  const files = Map.groupBy(globSync('test/*/**/*.test.ts'), groupOf)
  const groups = GROUPS.filter(({ isHeavy }) => !(isHeavy && isLight)).map((group) => {
    const waiting = suitesOf(group, files.get(group) ?? [])
    return { ...group, waiting, running: 0, seconds: 0, endings: [] as TestEnding[] }
  })
  const lane = async () => {
    for (;;) {
      const heavy = groups.reduce((sum, { isHeavy, running }) => sum + (isHeavy ? running : 0), 0)
      const group = groups.find(
        ({ waiting, running, sideBySide, isHeavy }) =>
          waiting.length > 0 && running < sideBySide && !(isHeavy && heavy >= MAX_HEAVY),
      )
      const suite = group?.waiting.shift()
      if (!group || !suite) return
      const startedAt = Date.now()
      group.running++
      group.endings.push(...(await run(suite)))
      group.running--
      group.seconds += (Date.now() - startedAt) / 1000
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  console.log('\nProcess seconds per group:')
  for (const { name, seconds, endings } of groups) {
    const { passed, failed, skipped } = countsOf(endings)
    const counts = `${passed} passed, ${failed} failed, ${skipped} skipped`
    console.log(`${seconds.toFixed(1).padStart(7)} s  ${name}: ${counts}`)
  }
  return groups.flatMap(({ endings }) => endings)
}

/**
 * Distributes files round-robin, because files in the same folder take about the same time. Throws if a folder has no
 * files.
 */
function suitesOf(group: Group, all: readonly string[]): Suite[] {
  const empty = group.folders.find((folder) => !all.some((file) => folderOf(file) === folder))
  if (empty !== undefined) throw new Error(`there are no tests in test/${empty}`)
  const files = all.toSorted((a, b) => folderAt(a, group) - folderAt(b, group) || a.localeCompare(b))
  const count = Math.ceil(files.length / group.filesPerProcess)
  return Array.from({ length: count }, (_, n) => ({
    name: `${group.name} ${n + 1}/${count}`,
    minutes: MINUTES,
    specs: files.filter((_file, at) => at % count === n),
  }))
}

const folderOf = (file: string): string => file.split(sep)[1] ?? ''
const folderAt = (file: string, { folders }: Group): number => folders.indexOf(folderOf(file))

function groupOf(file: string): Group {
  const group = GROUPS.find(({ folders }) => folders.includes(folderOf(file))) ?? RULES
  return !group.isHeavy && NEEDS_PYTORCH.test(readFileSync(file, 'utf8')) ? MODELS : group
}
