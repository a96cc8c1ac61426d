import Type, { type Static } from 'typebox'
import { endpointNamesOf } from '../../../domain/endpoint-name.ts'
import { ApiError } from '../../../domain/errors.ts'
import { Endpoint, RegisterForInference } from '../../../schemas/endpoint.ts'
import { type TrainingRun, TrainingRunParams } from '../../../schemas/training-run.ts'
import { getEndpoint } from '../../routes/builder/endpoints/get-endpoint.ts'
import { registerForInference } from '../../routes/builder/endpoints/register-for-inference.ts'
import { getTrainingRun } from '../../routes/builder/training-runs/get-training-run.ts'
import { publicSchema } from '../json-schema.ts'
import { operate } from '../operate.ts'
import { checked, CREATES } from '../operation-tool.ts'
import { structured } from '../results.ts'
import type { CallContext, Tool } from '../tool.ts'

const { name, ...listing } = RegisterForInference.properties
const Input = Type.Object(
  { ...TrainingRunParams.properties, name: Type.Optional(name), ...listing },
  { additionalProperties: false },
)
type Listing = Omit<Static<typeof Input>, 'run_id' | 'name'>

export const registerForInferenceTool: Tool = {
  name: 'register_for_inference',
  title: 'Make a trained model callable',
  description:
    "Serves the model of a completed training run or merge as an endpoint that run_inference can call. Without a name, the endpoint gets one derived from the job's name; a repeat returns the same endpoint, unless that is deprecated. A public endpoint needs all fields of its listing, and a review.",
  inputSchema: publicSchema(Input),
  outputSchema: publicSchema(Endpoint),
  annotations: CREATES,
  call: checked(Input, async ({ run_id, name: given, ...body }, context) =>
    structured(
      given === undefined
        ? await registerUnderFreeName(context, run_id, body)
        : await register(context, run_id, { ...body, name: given }),
    ),
  ),
}

const register = (on: CallContext, run_id: string, body: Listing & { name: string }) =>
  operate<Endpoint>(registerForInference, on, { params: { run_id }, body })

/** Registers a run under a name derived from its job's name. If the run already has that name, this is a repeat. */
async function registerUnderFreeName(context: CallContext, run_id: string, body: Listing): Promise<Endpoint> {
  const run = await operate<TrainingRun>(getTrainingRun, context, { params: { run_id } })
  const [short, long] = endpointNamesOf(run.job_name, run.job_id)
  try {
    return await register(context, run_id, { ...body, name: short })
  } catch (err) {
    if (!isTaken(err, short)) throw err
  }
  const known = (await ownEndpoint(context, short, run)) ?? (await ownEndpoint(context, long, run))
  if (known) return known
  try {
    return await register(context, run_id, { ...body, name: long })
  } catch (err) {
    if (!isTaken(err, long)) throw err
    throw new ApiError(
      'conflict',
      `the names ${short} and ${long}, derived from the job's name, are not available; choose a name`,
    )
  }
}

const isTaken = (err: unknown, taken: string): boolean =>
  err instanceof ApiError && err.code === 'conflict' && err.details.name === taken

/** Returns the account's endpoint with this name if it serves this run's model and is not deprecated. */
async function ownEndpoint(
  on: CallContext,
  endpoint_id: string,
  { version_id }: TrainingRun,
): Promise<Endpoint | undefined> {
  try {
    const endpoint = await operate<Endpoint>(getEndpoint, on, { params: { endpoint_id } })
    const { owned, status } = endpoint
    return owned && status !== 'deprecated' && endpoint.version_id === version_id ? endpoint : undefined
  } catch (err) {
    if (err instanceof ApiError && (err.code === 'not_found' || err.code === 'forbidden')) return undefined
    throw err
  }
}
