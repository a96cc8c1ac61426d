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
  /** The cores that one of its processes uses on average, measured on a two-core machine; the rest is waiting. */
  cores: number
  /** True if its tests start whole platforms, or need an environment of several gigabytes. */
  isHeavy?: true
}

/** Files in other folders that run PyTorch models. */
const MODELS: Group = {
  name: 'models',
  folders: [],
  filesPerProcess: 3,
  sideBySide: 2,
  cores: 0.6,
  isHeavy: true,
}
const NEEDS_PYTORCH = /\brequire(?:Llm|Specialist|Generative|Speech)\b/

/** The group of all folders that no other group lists. */
const RULES: Group = {
  name: 'rules and external systems',
  folders: ['domain', 'platform', 'db'],
  filesPerProcess: 20,
  sideBySide: 2,
  cores: 0.45,
}
/** Slow groups and folders come first, so that no slow file runs alone at the end. */
const GROUPS: readonly Group[] = [
  {
    name: 'platforms',
    folders: ['e2e', 'faults', 'upgrade', 'compose'],
    filesPerProcess: 1,
    sideBySide: 2,
    cores: 0.7,
    isHeavy: true,
  },
  MODELS,
  { name: 'jobs', folders: ['activities', 'workers'], filesPerProcess: 3, sideBySide: 2, cores: 0.4 },
  {
    name: 'nodes',
    folders: ['node-runtime', 'embedded', 'cli'],
    filesPerProcess: 8,
    sideBySide: 2,
    cores: 0.35,
  },
  { name: 'workflows', folders: ['workflows'], filesPerProcess: 6, sideBySide: 2, cores: 0.3 },
  { name: 'routes', folders: ['api', 'contract', 'client'], filesPerProcess: 16, sideBySide: 3, cores: 0.45 },
  RULES,
]

const CORES = availableParallelism()
/** More processes at once slow each other down until tests time out. */
const MAX_PROCESSES = CORES + 2
/** On a two-core machine, tests time out if three heavy processes run at once. */
const MAX_HEAVY = 2
/** The time limit for one test process. */
const MINUTES = 30

/**
 * Runs every test file of the checkout and prints the duration of each group. The next process starts as soon as the
 * cores have room for it. `isLight` leaves out the heavy groups.
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
  const runOne = async (group: (typeof groups)[number], suite: Suite) => {
    const startedAt = Date.now()
    group.running++
    group.endings.push(...(await run(suite)))
    group.running--
    group.seconds += (Date.now() - startedAt) / 1000
  }
  const sumOf = (each: (group: (typeof groups)[number]) => number) =>
    groups.reduce((sum, group) => sum + each(group), 0)
  const startNext = (): Promise<void> | undefined => {
    if (sumOf(({ running }) => running) >= MAX_PROCESSES) return undefined
    const free = CORES - sumOf(({ running, cores }) => running * cores)
    const heavy = sumOf(({ isHeavy, running }) => (isHeavy ? running : 0))
    const group = groups.find(
      ({ waiting, running, sideBySide, cores, isHeavy }) =>
        waiting.length > 0 && running < sideBySide && cores <= free && !(isHeavy && heavy >= MAX_HEAVY),
    )
    const suite = group?.waiting.shift()
    return group && suite && runOne(group, suite)
  }
  await new Promise<void>((resolve, reject) => {
    const fill = () => {
      for (let one = startNext(); one; one = startNext()) one.then(fill, reject)
      if (sumOf(({ running }) => running) === 0) resolve()
    }
    fill()
  })
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
