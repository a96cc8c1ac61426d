import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import pg from 'pg'
import { openServices } from '../api/open-services.ts'
import { startGateway } from '../api/server.ts'
import { openDatabase } from '../db/database.ts'
import { migrate } from '../db/migrate.ts'
import * as apiKeyRepository from '../db/repositories/platform/api-keys.ts'
import type { Database } from '../db/tables.ts'
import { newId } from '../domain/ids.ts'
import { ensureDatabase, initPostgres, postgresChild } from '../embedded/postgres.ts'
import { readConfig } from '../platform/config.ts'
import { freePorts } from '../platform/free-ports.ts'
import { createLogger } from '../platform/log.ts'

/** One PostgreSQL server for the bench, removed at the end. */
export interface Server extends AsyncDisposable {
  pid: number
  /** Creates a migrated database. */
  create(name: string): Promise<string>
}

export async function startServer({ core }: { core?: string } = {}): Promise<Server> {
  await using stack = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-'))
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  const [port = 0] = await freePorts(1)
  const cluster = { dataDir: join(folder, 'postgres'), port, password: 'bench' }
  await initPostgres(cluster)
  const { command, args, env, cwd, uid, gid } = await postgresChild(cluster)
  const pin = core === undefined ? [] : ['taskset', '-c', core]
  const [program = '', ...rest] = [...pin, command, ...args]
  const child = spawn(program, rest, { env, cwd, stdio: 'ignore', ...(uid && { uid }), ...(gid && { gid }) })
  stack.defer(async () => {
    child.kill('SIGINT')
    await once(child, 'exit')
  })
  const url = await ensureDatabase(cluster)
  const opened = stack.move()
  const { pid } = child
  if (pid === undefined) throw new Error('PostgreSQL could not be started')
  return {
    pid,
    async create(name) {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      await client.query(`create database ${name}`)
      await client.end()
      return url.replace(/\/hearth$/, `/${name}`)
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

/** A gateway backed by one database. */
export interface GatewaySide extends AsyncDisposable {
  baseUrl: string
  db: Kysely<Database>
}

export async function startSide(url: string): Promise<GatewaySide> {
  const db = openDatabase(url, { max: 4 })
  await migrate(db)
  const config = {
    ...readConfig({ DATABASE_URL: url, TEMPORAL_ADDRESS: '127.0.0.1:1', HEARTH_LOG_LEVEL: 'silent' }),
    HEARTH_OBJECT_DIR: join(tmpdir(), 'hearth-bench-objects'),
    HEARTH_ENCRYPTION_KEYS: [Buffer.alloc(32).toString('base64')],
    HEARTH_RATE_LIMIT: 0,
  }
  const log = createLogger('bench', 'silent')
  const gateway = await startGateway({
    host: '127.0.0.1',
    port: 0,
    open: (baseUrl) => openServices(config, baseUrl, log),
  })
  return {
    baseUrl: gateway.baseUrl,
    db,
    async [Symbol.asyncDispose]() {
      await gateway.stop()
      await db.destroy()
    },
  }
}

export interface BenchAccount {
  id: string
  key: string
}

export async function createAccount(db: Kysely<Database>): Promise<BenchAccount> {
  const id = newId()
  await db.insertInto('account').values({ id, name: 'bench' }).execute()
  const { key } = await db
    .transaction()
    .execute((trx) => apiKeyRepository.createApiKey(trx, { accountId: id, name: 'bench', role: 'admin' }))
  return { id, key }
}

/** Row `n` was created `n` ms ago. Failed rows are the oldest, which a query plan based on averages wouldn't expect. */
const ID = sql`uuidv7(make_interval(secs => n / -1000.0))`
const TIME = sql`now() + make_interval(secs => n / -1000.0)`

export async function fillDatasets(db: Kysely<Database>, account: string, rows: number): Promise<void> {
  await sql`
    insert into dataset (id, account_id, dataset_name, status, storage_format, visibility, created_at)
    select ${ID}, ${account}, 'dataset ' || n, case when n > ${sql.lit(rows)} * 0.9 then 'failed' else 'ready' end, 'csv', 'private', ${TIME}
    from generate_series(1, ${sql.lit(rows)}) n`.execute(db)
}

export async function fillRuns(db: Kysely<Database>, account: string, rows: number): Promise<void> {
  await sql`
    insert into training_run (id, account_id, job_type, job_name, status, model_config_id, hyperparameters,
      operating_mode, hardware_preference, task_queue, config_digest, created_at)
    select ${ID}, ${account}, 'training', 'run ' || n, case when n > ${sql.lit(rows)} * 0.9 then 'failed' else 'completed' end,
      'tabular-regression', '{}', 'balanced', 'auto', 'train.cpu', n::text, ${TIME}
    from generate_series(1, ${sql.lit(rows)}) n`.execute(db)
}

export interface EndpointFill {
  account: string
  rows: number
  prefix: string
  offered?: boolean
}

export async function fillEndpoints(
  db: Kysely<Database>,
  { account, rows, prefix, offered = false }: EndpointFill,
): Promise<void> {
  const version = newId()
  const schema = '{"type": "object", "properties": {"instances": {"type": "array"}}}'
  await sql`
    insert into model_version (id, account_id, model_key, name, model_config_id, runtime_profile, memory_mb,
      input_schema, output_schema, example_input, example_output)
    values (${version}, ${account}, ${version}, 'bench', 'tabular-regression', 'tabular', 1, '{}', '{}', '{}', '{}')`.execute(
    db,
  )
  const [visibility, review] = offered ? ['public', 'approved'] : ['account', 'active']
  await sql`
    insert into endpoint (id, account_id, name, display_name, description, visibility, review_status, source,
      task_type, base_model, model_category, version_id, model_key, runtime_profile, input_schema, output_schema,
      example_input, example_output, total_requests, created_at)
    select ${ID}, ${account}, ${sql.lit(prefix)} || '-' || n, 'Endpoint ' || n, 'What it does, number ' || n,
      ${visibility}, ${review}, case n % 4 when 0 then 'catalog' else 'trained' end, 'regression',
      'model-' || n % 40, 'ml_classical', ${version}, ${version}, 'tabular', ${schema}::jsonb, ${schema}::jsonb,
      '{}', '{}', n % 1000, ${TIME}
    from generate_series(1, ${sql.lit(rows)}) n`.execute(db)
}
