import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AdminClient } from '../../../../cli/admin-client.ts'
import { importModel } from '../../../../cli/commands/models.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { newId } from '../../../../domain/ids.ts'
import type { ImportedModel } from '../../../../schemas/model-import.ts'
import { runTwice } from '../../assertions/at-least-once.ts'
import { eventually } from '../../assertions/until.ts'
import { buildEndpoint, buildVersion } from '../../builders/build-endpoint.ts'
import { embeddingSpace, evaluate, EVALUATOR, TOKEN_HEADER } from '../../builders/cohorts/evidence.ts'
import { type TinySpecialist, tinySpecialist } from '../../builders/models/tiny-specialist.ts'
import { type AnyBody, OPERATIONS_KEY } from '../api.ts'
import type { TrainerRun } from '../nodes/trainer.ts'
import { type InferenceWorld, startInferenceWorld, type WorldNode } from './inference-world.ts'

/** The width of the tiny encoders' vectors. */
const WIDTH = 32

/** A gateway, Temporal and a node that serves real tiny encoders, for structured runs. */
export class EvaluationWorld implements AsyncDisposable {
  readonly on: InferenceWorld
  readonly node: WorldNode
  readonly #stack: AsyncDisposableStack

  private constructor(on: InferenceWorld, node: WorldNode, stack: AsyncDisposableStack) {
    this.on = on
    this.node = node
    this.#stack = stack
  }

  static async start(): Promise<EvaluationWorld> {
    await using stack = new AsyncDisposableStack()
    const on = stack.use(await startInferenceWorld())
    // Run every control activity twice, as if a worker died before its reply.
    stack.use(await on.control(runTwice))
    const { accountId } = on
    const node = stack.use(await on.node({ realCatalog: true, memoryMb: 12_000, accountId }))
    return new EvaluationWorld(on, node, stack.move())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }

  /** Imports an encoder, and registers its space as an evaluator does. */
  async encoder(
    name: string,
    like: TinySpecialist,
    { isRegistered = true }: { isRegistered?: boolean } = {},
  ): Promise<ImportedModel & { spaceId: string }> {
    const client = new AdminClient(this.on.api.baseUrl, OPERATIONS_KEY)
    const path = await tinySpecialist({ hidden: WIDTH, ...like })
    const model = await importModel(client, { name, path, task: 'embeddings', accountId: this.on.accountId })
    if (!isRegistered) return { ...model, spaceId: '' }
    const { body } = await evaluate(this.on.api, 'model-spaces', {
      model_config_id: model.version_id,
      spaces: [embeddingSpace(WIDTH, { pooling: like.pooling === 'cls' ? 'cls' : 'mean' })],
    })
    return { ...model, spaceId: body.spaces[0].space_id as string }
  }

  /** Stores a dataset of these texts, as an upload would. */
  async texts(texts: readonly string[]): Promise<string> {
    const { db, objects } = this.on.api.services
    const id = newId()
    const object_key = `datasets/${this.on.accountId}/${id}/data.jsonl`
    const bytes = Buffer.from(texts.map((text) => JSON.stringify({ text })).join('\n'))
    await objects.put(object_key, bytes, { contentType: 'application/json' })
    await db
      .insertInto('dataset')
      .values({
        id,
        account_id: this.on.accountId,
        dataset_name: 'anchors',
        description: '',
        status: 'ready',
        storage_format: 'jsonl',
        visibility: 'private',
        num_samples: texts.length,
        total_size_bytes: bytes.length,
        columns: JSON.stringify([{ name: 'text', type: 'string' }]),
        object_key,
      })
      .execute()
    return id
  }

  /** Stores the result of a trainer as a model with an endpoint, as a completed run would. */
  async trained(name: string, { events, outputDir, result }: TrainerRun): Promise<EndpointRow> {
    const { db, objects } = this.on.api.services
    const listing = {
      input_schema: JSON.stringify(result.input_schema),
      output_schema: JSON.stringify(result.output_schema),
      example_input: JSON.stringify(result.example_input),
      example_output: JSON.stringify(result.example_output),
    }
    const { id: version_id, model_key } = await buildVersion(db, this.on.accountId, listing)
    for (const path of events.filter(({ event }) => event === 'artifact').map((one) => String(one['name']))) {
      const bytes = await readFile(join(outputDir, path))
      const object_key = `versions/${version_id}/${path}`
      await objects.put(object_key, bytes, { contentType: 'application/octet-stream' })
      const sha256 = createHash('sha256').update(bytes).digest('hex')
      await db
        .insertInto('version_file')
        .values({ version_id, path, object_key, size_bytes: bytes.length, sha256 })
        .execute()
    }
    const task_type = 'classification'
    return buildEndpoint(db, this.on.accountId, { name, version_id, model_key, task_type, ...listing })
  }

  async read(runId: string): Promise<AnyBody> {
    const headers = TOKEN_HEADER
    return (await this.on.api.call('GET', `${EVALUATOR}/structured-runs/${runId}`, { headers })).body
  }

  /** Starts a run and waits until it ends. */
  async run(body: object): Promise<AnyBody> {
    const started = await evaluate(this.on.api, 'structured-runs', body)
    if (started.status !== 202) throw new Error(started.text)
    return eventually(
      'a run that has ended',
      async () => {
        const run = await this.read(started.body.run_id)
        return ['registered', 'rejected', 'failed'].includes(run.status) ? run : undefined
      },
      300_000,
    )
  }
}

const COLOURS = ['red', 'blue', 'green', 'black', 'white', 'brown', 'grey', 'pink']
const THINGS = ['fox', 'dog', 'house', 'river', 'letter', 'number', 'capital', 'assistant', 'road', 'boat']
const PLACES = ['here', 'there', 'at home', 'in the city', 'by the sea', 'on the hill']

/** Returns 480 different sentences made from a few words. */
export const colouredTexts = (): string[] =>
  COLOURS.flatMap((colour) =>
    THINGS.flatMap((thing) => PLACES.map((place) => `the ${colour} ${thing} ${place}`)),
  )
