import { readFile } from 'node:fs/promises'
import { EdgeError } from '../../../domain/cohorts/edge-error.ts'
import { QuorumError } from '../../../domain/cohorts/quorum.ts'
import { faultOfValue, isByValue, withCarried } from '../../../domain/cohorts/values.ts'
import { withVectors } from '../../../domain/cohorts/vector-input.ts'
import { receivePayload, type ReceivedPayload } from '../../../node-runtime/cohorts/receive-payload.ts'
import { receiveValue } from '../../../node-runtime/cohorts/receive-value.ts'
import { mapVector, readMap, readVectors } from '../../../node-runtime/cohorts/vectors.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import { fetchRelayed } from '../../../node-runtime/edges/fetch-payload.ts'
import type { IncomingEdge, StageClaim } from '../../../schemas/cohorts/stage.ts'
import type { NodeDeps } from '../deps.ts'
import { InferenceError } from '../models/call-model.ts'
import type { StageSteps } from './stage-steps.ts'

/** A stage's input, and the representations that can't be expressed in JSON. Disposing it removes their files. */
export interface StageInputs extends Disposable {
  readonly input: Record<string, unknown>
  readonly payloads: readonly ReceivedPayload[]
  /** Resolves once the platform has recorded what was consumed. */
  readonly consumption: Promise<unknown>
}

/**
 * Waits for as many hand-overs as the stage needs, and writes their values into its input. Throws a `QuorumError` when
 * so many hand-overs were closed that the quorum can't be met. With `isEarly`, returns the input while the platform is
 * still recording that its values are consumed.
 */
export async function gatherInput(
  deps: Pick<NodeDeps, 'control' | 'edges'>,
  { cohort_id: cohortId, lease_token: leaseToken, turn, input, incoming, quorum = 0 }: StageClaim,
  { steps, signal, isEarly = false }: { steps: StageSteps; signal: AbortSignal; isEarly?: boolean },
): Promise<StageInputs> {
  using stack = new DisposableStack()
  const payloads: ReceivedPayload[] = []
  /** How each hand-over changes the input; applied in edge order, not arrival order. */
  const writes = new Map<IncomingEdge, (known: StageInputs['input']) => StageInputs['input']>()
  const caller = {
    control: deps.control,
    edges: deps.edges,
    cohortId,
    leaseToken,
    turn,
    waitsForRoom: (isWaiting: boolean) => steps.waitForRoom(isWaiting),
  }
  const enough = new AbortController()
  // Without a quorum every hand-over is needed, so none is left to abort when the last one is consumed.
  const until = quorum === 0 ? signal : AbortSignal.any([signal, enough.signal])
  const noteConsumed = (mayRun: boolean) => {
    if (mayRun && quorum > 0) enough.abort()
  }
  let consumed = 0
  const consumptions: Promise<unknown>[] = []
  const refused = Promise.withResolvers<never>()
  refused.promise.catch(() => {})

  const receive = async (edge: IncomingEdge) => {
    if (isByValue(edge.kind)) {
      // Only the platform's record of each consumption shows that a quorum is met, so wait for it.
      const options = { signal: until, isEarly: isEarly && quorum === 0 }
      const { value, mayRun, consumption } = await receiveValue(caller, edge, options)
      if (consumption) {
        consumption.catch(refused.reject)
        consumptions.push(consumption)
      }
      if (enough.signal.aborted) return
      if (value) {
        const fault = faultOfValue(edge.kind, value.value)
        if (fault !== undefined)
          throw new EdgeError('shape_mismatch', `the value that was handed over ${fault}`)
        consumed += 1
        writes.set(edge, (known) => withCarried(known, { to_path: edge.path }, value.value))
      }
      noteConsumed(mayRun)
      return
    }
    const { received, mayRun } = await receivePayload(caller, edge, until)
    if (received) {
      stack.use(received)
      consumed += 1
      if (edge.kind === 'embedding') {
        const vectors = await vectorsOf(deps, received, signal)
        writes.set(edge, (known) => filled(known, edge.path, vectors))
      } else payloads.push(received)
    }
    noteConsumed(mayRun)
  }
  try {
    await Promise.race([Promise.all(incoming.map(receive)), refused.promise])
  } catch (err) {
    if (!enough.signal.aborted || signal.aborted) throw nameOf(err)
  }
  if (!enough.signal.aborted && consumed < quorum)
    throw new QuorumError({ consumed, quorum, edges: incoming.length })
  const known: unknown = incoming.reduce((gathered, edge) => writes.get(edge)?.(gathered) ?? gathered, input)
  if (!isInput(known))
    throw new InferenceError(
      'the value that was handed over replaces the whole input, so it must be an object',
      false,
    )
  const consumption = Promise.all(consumptions).catch((err: unknown) => {
    throw nameOf(err)
  })
  // The caller awaits this promise with the work; an earlier rejection must not count as unhandled.
  consumption.catch(() => {})
  const opened = stack.move()
  return { input: known, payloads, consumption, [Symbol.dispose]: () => opened.dispose() }
}

const isInput = (value: unknown): value is StageInputs['input'] =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Converts the platform's refusal of a call into an `EdgeError` with the code `refused`. */
const nameOf = (err: unknown): unknown =>
  err instanceof ControlError && err.status < 500
    ? new EdgeError('refused', `the platform refuses the hand-over: ${err.message}`, { cause: err })
    : err

/** Writes vectors to `path` in the input; throws an `EdgeError` when the number of columns differs. */
function filled(
  input: Record<string, unknown>,
  path: string,
  vectors: readonly number[][],
): Record<string, unknown> {
  const known = withVectors(input, path, vectors)
  if (known !== undefined) return known as Record<string, unknown>
  const message = `the input does not have the ${vectors[0]?.length} columns of the vectors that were handed over`
  throw new EdgeError('shape_mismatch', message)
}

/** Returns the vectors of a payload in the consumer's space. */
async function vectorsOf(
  deps: Pick<NodeDeps, 'edges'>,
  { payload, agreed: { adapter } }: ReceivedPayload,
  signal: AbortSignal,
): Promise<number[][]> {
  const vectors = readVectors(await readFile(payload.path))
  const map = adapter && readMap(await fetchAdapter(deps, adapter, signal))
  return vectors.map((one) => [...(map ? mapVector(map, one) : one)])
}

async function fetchAdapter(
  { edges: { store } }: Pick<NodeDeps, 'edges'>,
  { url, sha256, size_bytes: sizeBytes }: NonNullable<ReceivedPayload['agreed']['adapter']>,
  signal: AbortSignal,
): Promise<Buffer> {
  if (url === '') throw new EdgeError('refused', 'the platform returned no URL for the map')
  const writer = await store.write({ sizeBytes, maxBytes: sizeBytes })
  using file = await fetchRelayed(url, { writer, sizeBytes, sha256, signal })
  return await readFile(file.path)
}
