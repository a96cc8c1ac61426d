import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { openDatabase } from '../../db/database.ts'
import { migrate } from '../../db/migrate.ts'
import type { Database } from '../../db/tables.ts'
import { newId } from '../../domain/ids.ts'
import { gatewayEnv, runGateway } from '../../test/support/servers/gateway-process.ts'
import { createAccount, fillDatasets, fillRuns, startServer } from '../list-fixture.ts'

export const OPERATIONS_KEY = 'bench-operations'
const EPOCHS = 2_000

export interface ConsoleFixture extends AsyncDisposable {
  baseUrl: string
  /** The pid of the gateway. */
  pid: number
  key: string
  /** An active run with a long log. */
  runId: string
  /** Simulates live work in the account until aborted: log lines and epochs of the run, and new runs. */
  live(signal: AbortSignal): Promise<void>
}

/** Starts a gateway process and an account with `runs` runs, one of which is active and has `lines` log lines. */
export async function startWorld(runs: number, lines: number): Promise<ConsoleFixture> {
  await using stack = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-'))
  stack.defer(() => rmSync(folder, { recursive: true, force: true }))
  const server = stack.use(await startServer())
  const url = await server.create('console')
  const db = stack.adopt(openDatabase(url, { max: 2 }), (open) => open.destroy())
  await migrate(db)
  const account = await createAccount(db)
  await fillRuns(db, account.id, runs)
  await fillDatasets(db, account.id, 1_000)
  const runId = await addRun(db, account.id, 'at work', 'running')
  await sql`
    insert into job_log (job_id, attempt, seq, message, created_at)
    select ${runId}, 1, n, 'step ' || n || ': the loss is ' || round((1000.0 / n)::numeric, 4), now()
    from generate_series(1, ${sql.lit(lines)}) n`.execute(db)
  await sql`
    insert into job_epoch (job_id, attempt, epoch, train_loss, val_loss)
    select ${runId}, 1, n, 1.0 / (n + 1), 1.2 / (n + 1) from generate_series(0, ${sql.lit(EPOCHS - 1)}) n`.execute(
    db,
  )
  await sql`vacuum analyze`.execute(db)
  const gateway = stack.use(
    runGateway({
      ...process.env,
      ...gatewayEnv(url, join(folder, 'objects')),
      HEARTH_OPERATIONS_KEY: OPERATIONS_KEY,
      HEARTH_DATA_DIR: folder,
      HEARTH_LOG_LEVEL: 'info',
    }),
  )
  const { baseUrl } = await gateway.ready()
  const opened = stack.move()
  return {
    baseUrl,
    pid: gateway.child.pid ?? 0,
    key: account.key,
    runId,
    live: (signal) => goOn(db, { accountId: account.id, runId, line: lines, epoch: EPOCHS }, signal),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

interface LiveRun {
  accountId: string
  runId: string
  line: number
  epoch: number
}

/** Writes five log lines and half an epoch per second, and a new run every five seconds. */
async function goOn(db: Kysely<Database>, at: LiveRun, signal: AbortSignal): Promise<void> {
  for (let second = 0; !signal.aborted; second++) {
    const log = Array.from({ length: 5 }, () => ({
      job_id: at.runId,
      attempt: 1,
      seq: ++at.line,
      message: `step ${at.line}: the loss is still falling`,
      created_at: new Date(),
    }))
    await db.insertInto('job_log').values(log).execute()
    if (second % 2 === 0) {
      const epoch = at.epoch++
      const losses = { train_loss: 1 / (epoch + 1), val_loss: 1.2 / (epoch + 1) }
      await db
        .insertInto('job_epoch')
        .values({ job_id: at.runId, attempt: 1, epoch, ...losses })
        .execute()
    }
    if (second % 5 === 0) await addRun(db, at.accountId, `new ${second}`, 'completed')
    await sleep(1_000, undefined, { signal }).catch(() => {})
  }
}

async function addRun(
  db: Kysely<Database>,
  accountId: string,
  name: string,
  status: string,
): Promise<string> {
  const id = newId()
  await sql`
    insert into training_run (id, account_id, job_type, job_name, status, model_config_id, hyperparameters,
      operating_mode, hardware_preference, task_queue, config_digest, attempt, created_at, started_at)
    values (${id}, ${accountId}, 'training', ${name}, ${status}, 'tabular-regression', '{"epochs": 100}',
      'balanced', 'auto', 'train.cpu', ${id}, 1, now(), now())`.execute(db)
  return id
}
