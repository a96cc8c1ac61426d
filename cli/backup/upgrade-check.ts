import { knownMigrations } from '../../db/migrate.ts'
import { readUpgradeState, type UpgradeState } from '../../db/upgrade-check.ts'
import { readDiskSpace } from '../../platform/disk-space.ts'
import { VERSION } from '../../platform/version.ts'
import { size } from '../amounts.ts'
import { type Check, ok, warning, wrong } from '../doctor/check.ts'
import type { Deployment } from './deployment.ts'

/** The free space that an upgrade needs besides a copy of the largest table, which a migration may write. */
const MIN_FREE_BYTES = 1e9

/** Work that a rollback by one release would hand to older processes (docs/upgrading.md). */
const OF_ROLLBACKS: ReadonlySet<string> = new Set(['paused runs', 'cohorts', 'structured runs'])

/** The effects of upgrading a deployment to this checkout. */
export interface UpgradeReport {
  from: string
  version: string
  /** The migrations that this checkout would apply, oldest first. */
  pending_migrations: readonly string[]
  /** True if the processes of the current version could still run after these migrations. */
  rollback_possible: boolean
  open_work: Record<string, number>
  checks: readonly Check[]
  /** False if something has to be done first. */
  ready: boolean
}

/** Compares this checkout with the database of a deployment. Changes nothing. */
export async function checkUpgrade(deployment: Deployment): Promise<UpgradeReport> {
  const known = await knownMigrations()
  await using database = await deployment.openDatabase()
  const state = await readUpgradeState(database.url)
  const pending = Object.keys(known).filter((name) => !state.applied.includes(name))
  const breaking = breakingMigration(pending, known, state.applied)
  const checks = [
    checkSchema(state, Object.keys(known)),
    checkPending(pending),
    checkRollback(breaking),
    checkWork(state),
    ...checkNodes(state),
    await checkDisk(deployment, state),
    ...checkBackups(state),
  ]
  return {
    from: deployment.from,
    version: VERSION,
    pending_migrations: pending,
    rollback_possible: breaking === undefined,
    open_work: Object.fromEntries(state.open.map(({ kind, count }) => [kind, count])),
    checks,
    ready: checks.every(({ state: each }) => each !== 'wrong'),
  }
}

const numberOf = (name: string): number => Number.parseInt(name, 10)

/** Returns the first pending migration after which processes at the current level would refuse to start. */
export function breakingMigration(
  pending: readonly string[],
  texts: Readonly<Record<string, string>>,
  applied: readonly string[],
): string | undefined {
  const current = Math.max(0, ...applied.map(numberOf))
  return pending.find((name) =>
    [
      ...(texts[name] ?? '').matchAll(
        /\bupdate\s+schema_compatibility\s+set\s+oldest_migration\s*=\s*(\d+)/gi,
      ),
    ].some(([, oldest]) => Number(oldest) > current),
  )
}

function checkSchema({ applied, oldest }: UpgradeState, known: readonly string[]): Check {
  const about = 'Schema'
  if (applied.length === 0)
    return warning(about, 'the database has no tables of Hearth', 'check the address of the database')
  const newer = applied.filter((name) => !known.includes(name))
  const newest = Math.max(0, ...known.map(numberOf))
  if (oldest && oldest.migration > newest) {
    return wrong(
      about,
      `the database needs Hearth ${oldest.version} or newer, and this checkout is ${VERSION}`,
      `check out version ${oldest.version} or newer`,
    )
  }
  return newer.length === 0
    ? ok(about, `at migration ${applied.at(-1)}`)
    : warning(
        about,
        `the database already has migrations of a newer version: ${newer.join(', ')}`,
        'check that you want to go back to this version',
      )
}

const checkPending = (pending: readonly string[]): Check =>
  ok(
    'Migrations',
    pending.length === 0 ? 'none is pending' : `${pending.length} pending: ${pending.join(', ')}`,
  )

const checkRollback = (breaking: string | undefined): Check =>
  breaking === undefined
    ? ok('Rollback', 'possible: the current version can run on the new schema')
    : warning(
        'Rollback',
        `impossible after ${breaking}, except by restoring a backup`,
        'take a backup immediately before the upgrade',
      )

function checkWork({ open }: UpgradeState): Check {
  const counted = open.filter(({ count }) => count > 0).map(({ kind, count }) => `${count} ${kind}`)
  const delicate = open.filter(({ kind, count }) => count > 0 && OF_ROLLBACKS.has(kind))
  const message = counted.length === 0 ? 'none' : `${counted.join(', ')}; it continues during the upgrade`
  return delicate.length === 0
    ? ok('Open work', message)
    : warning(
        'Open work',
        message,
        `before a rollback, resume or finish ${delicate.map(({ kind }) => kind).join(', ')} (docs/upgrading.md)`,
      )
}

/** Nodes work with gateways of their own release and the next one. */
function checkNodes({ nodes }: UpgradeState): Check[] {
  const isOld = nodes.filter(({ runtime_version: version }) => releasesBehind(version) > 1)
  if (isOld.length === 0) return [ok('Nodes', `${nodes.length} nodes, each at most one release older`)]
  return isOld.map(({ name, runtime_version: version }) =>
    wrong(
      `Node ${name}`,
      `its version ${version} is more than one release older than ${VERSION}`,
      'upgrade it first, or remove it with `npx hearth nodes remove`',
    ),
  )
}

/** Counts minor releases; another major version counts as many. */
function releasesBehind(version: string): number {
  const [ownMajor = 0, ownMinor = 0] = VERSION.split('.').map(Number)
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return (ownMajor - major) * 1000 + ownMinor - minor
}

async function checkDisk({ dataDir }: Deployment, state: UpgradeState): Promise<Check> {
  const about = 'Disk'
  const database = `the database has ${size(state.sizeBytes)}, its largest table ${size(state.largestTableBytes)}`
  if (dataDir === undefined)
    return ok(about, `${database}; check the free space on the disk of your PostgreSQL server`)
  const needed = MIN_FREE_BYTES + state.largestTableBytes
  const { freeBytes } = await readDiskSpace(dataDir)
  const message = `${size(freeBytes)} free in ${dataDir}; ${database}`
  return freeBytes >= needed ? ok(about, message) : wrong(about, message, `free ${size(needed - freeBytes)}`)
}

const checkBackups = ({ backups }: UpgradeState): Check[] =>
  backups === 0
    ? []
    : [wrong('Backups', 'a backup is running, and migrations would wait for it', 'wait until it has ended')]
