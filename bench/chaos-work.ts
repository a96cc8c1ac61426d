import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { openChat } from '../test/faults/chats.ts'
import { inferLater, inferNow, putTable } from '../test/faults/work.ts'
import { regressionTable } from '../test/support/builders/tables.ts'
import { runCohort } from './chaos-cohorts.ts'
import { type Customer, postOnce, type Run, type Shift } from './chaos-customer.ts'
import { sendAtOnce } from './chaos-keyed.ts'
import { oneOf, type Random, randomFrom } from './chaos-tally.ts'
import { callTool } from './chaos-tools.ts'

const MAX_RUNS = 3
const MAX_MODELS = 6
const MAX_FLOOD = 150
const ENDED = new Set(['completed', 'failed', 'cancelled'])
const EPOCHS = { short: 20, medium: 1500, retrain: 60, doomed: 20 } as const

/**
 * Runs every kind of work at once, with random pauses; resolves when all requests have a response. A `weight` of 1
 * makes the account busy.
 */
export async function work(customer: Customer, shift: Shift, seed: number, weight = 1): Promise<void> {
  const lane = async (number: number, pauseMs: number, step: (random: Random) => Promise<void>) => {
    const random = randomFrom(seed + number * 7919)
    while (Date.now() < shift.until) {
      await step(random)
      await sleep((random() * 2 * pauseMs) / weight)
    }
  }
  await Promise.all([
    lane(1, 8_000, (random) => upload(customer, shift, random)),
    lane(2, 1_500, (random) => train(customer, shift, random)),
    lane(3, 400, (random) => infer(customer, shift, random, 'later')),
    lane(4, 400, (random) => infer(customer, shift, random, 'now')),
    lane(5, 1_000, (random) => chat(customer, shift, random)),
    lane(6, 1_000, (random) => chat(customer, shift, random)),
    lane(7, 20_000, (random) => register(customer, shift, random)),
    lane(8, 1_500, (random) => callTool(customer, shift, random)),
    lane(9, 2_000, (random) => runCohort(customer, shift, random)),
    lane(10, 3_000, (random) => sendAtOnce(customer, shift, random)),
    lane(11, 20_000, (random) => flood(customer, shift, random)),
  ])
}

async function upload({ platform, datasets }: Customer, shift: Shift, random: Random): Promise<void> {
  const rows = oneOf(random, [200, 5_000, 60_000]) ?? 200
  const put = await shift.tally.attempt('upload', () => putTable(platform, regressionTable(rows)))
  if (!put) return
  datasets.push({ datasetId: put.datasetId, rows })
  const commit = () => platform.api.post<{ status: string; num_samples: number }>(put.commit)
  const done = await shift.tally.insist('commit', commit, shift.patience)
  if (done?.status === 'ready' && done.num_samples !== rows) {
    shift.tally.violation(
      'a dataset has all of its rows',
      `${put.datasetId}: ${done.num_samples} instead of ${rows}`,
    )
  }
}

/** Checks the account's runs, and starts another one if the quota allows it. */
async function train(customer: Customer, shift: Shift, random: Random): Promise<void> {
  await lookAfterRuns(customer, shift)
  if (customer.runs.filter(({ reported }) => reported === undefined).length >= MAX_RUNS) return
  const bases = customer.runs.filter(({ reported, kind }) => reported === 'completed' && kind !== 'medium')
  const base = oneOf(random, bases)
  const wanted = oneOf(random, ['short', 'short', 'short', 'medium', 'retrain', 'retrain', 'doomed'] as const)
  const kind = wanted === 'retrain' && !base ? 'short' : (wanted ?? 'short')
  const run = await startRun(customer, shift, kind, base)
  if (run && random() < 0.2 && kind !== 'doomed') run.cancelAt = Date.now() + random() * 15_000
}

/** Starts a run, with idempotent retries until the platform accepts it; a retraining continues from `base`. */
export async function startRun(
  customer: Customer,
  shift: Shift,
  kind: Run['kind'],
  base?: Run,
): Promise<Run | undefined> {
  const body = {
    job_name: `chaos-${kind}`,
    model_config_id: 'tabular-regression',
    dataset_id: kind === 'doomed' ? customer.wordsTable : customer.table,
    hyperparameters: {
      epochs: EPOCHS[kind],
      learning_rate: 0.05,
      ...(kind === 'medium' && { checkpoint_every_epochs: 100, num_leaves: 63 }),
    },
    ...(kind === 'retrain' && base && { base: { type: 'job', job_id: base.id } }),
  }
  const key = randomUUID()
  const started = await shift.tally.insist(
    `run ${kind}`,
    () => postOnce(customer, 'builder/v1/training/runs', { body, key }),
    shift.patience,
  )
  if (started === undefined) return undefined
  const run: Run = { id: (JSON.parse(started) as { job_id: string }).job_id, kind }
  customer.runs.push(run)
  return run
}

/** Cancels runs whose cancellation is due, and records which have ended. */
export async function lookAfterRuns({ platform: { api }, runs }: Customer, { tally }: Shift): Promise<void> {
  for (const run of runs.filter(({ reported }) => reported === undefined)) {
    if (run.cancelAt !== undefined && Date.now() > run.cancelAt && run.cancel !== 'answered') {
      run.cancel = 'sent'
      const path = `/training/runs/${run.id}`
      const answer = await tally.attempt('cancel', () => api.post(`${path}/cancel`))
      if (answer) run.cancel = 'answered'
    }
    const read = () => api.get<{ status: string }>(`/training/runs/${run.id}`)
    const status = (await tally.attempt('run status', read))?.status
    if (status !== undefined && ENDED.has(status)) run.reported = status
  }
}

async function infer(
  { platform, models, tasks }: Customer,
  { tally }: Shift,
  random: Random,
  kind: 'later' | 'now',
): Promise<void> {
  // Most requests go to a loaded model; the other models are cached or cold.
  const model = random() < 0.6 ? models[0] : oneOf(random, models)
  if (!model) return
  const ask = kind === 'later' ? inferLater : inferNow
  const task = await tally.attempt(`inference ${kind}`, () => ask(platform, model))
  if (task) tasks.push({ ...task, kind })
}

/** Sends far more requests to loaded models than they serve at once, so that some wait and some are rejected. */
async function flood(customer: Customer, shift: Shift, random: Random): Promise<void> {
  const { chatModels, models } = customer
  const loaded = { ...customer, chatModels: chatModels.slice(0, 1), models: models.slice(0, 1) }
  await Promise.all([
    ...Array.from({ length: MAX_FLOOD }, () => chat(loaded, shift, random, 20)),
    ...Array.from({ length: MAX_FLOOD }, () => infer(loaded, shift, random, 'now')),
  ])
}

async function chat(
  { platform, chatModels, chats }: Customer,
  { tally }: Shift,
  random: Random,
  maxTokens = 300,
): Promise<void> {
  const model = random() < 0.8 ? chatModels[0] : oneOf(random, chatModels)
  if (!model) return
  const kind = random() < 0.5 ? 'stream' : 'whole'
  const tokens = Math.floor(5 + random() * (maxTokens - 5))
  const fake = kind === 'stream' ? { tokens, gap_ms: 15 } : { tokens, delay_ms: tokens * 10 }
  const began = Date.now()
  const body = { stream: kind === 'stream', fake }
  const ended = await openChat(platform, model, kind, body).ended
  chats.push({ ...ended, began, ended: Date.now() })
  tally.count(`chat ${kind}`, ended.end === 'whole', Date.now() - began)
  if (ended.end !== 'whole') tally.refused(`chat ${kind}`, ended.end)
}

/**
 * Registers an endpoint for a completed run under a unique name. Doesn't repeat a request that may have succeeded.
 */
async function register({ platform, runs, models }: Customer, { tally }: Shift, random: Random) {
  const run = oneOf(
    random,
    runs.filter(({ reported }) => reported === 'completed'),
  )
  if (!run || models.length >= MAX_MODELS) return
  const body = { name: `chaos-${randomUUID().slice(0, 8)}`, price_per_request: 0.01 }
  const path = `/training/runs/${run.id}/register-for-inference`
  const made = await tally.attempt('registration', () =>
    platform.api.post<{ endpoint_id: string }>(path, body),
  )
  if (made) models.push({ endpointId: made.endpoint_id })
}
