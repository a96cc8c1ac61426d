import { ApplicationFailure, cancellationSignal } from '@temporalio/activity'
import { ModelUnavailableError } from '../../node-runtime/model-manager.ts'
import { compileUserSchema } from '../../platform/user-schema.ts'
import type { NodeModelSpec } from '../../schemas/node.ts'
import { beat } from './beat.ts'
import type { NodeDeps } from './deps.ts'
import { toFailure } from './models.ts'

/** What a test found. The reason names places and codes and quotes nothing that was said to or by the model. */
export interface TestVerdict {
  passed: boolean
  reason?: string
}

export const createTestActivities = ({ models, control }: NodeDeps) => ({
  /**
   * Loads a model on this node, asks it its own example, and checks what the answer looks like. Safe to repeat because
   * it changes nothing but what is loaded.
   */
  async testModel({ modelKey }: { modelKey: string }): Promise<TestVerdict> {
    using _alive = beat()
    const signal = cancellationSignal()
    try {
      const spec = await control.modelSpec(modelKey, { signal })
      await models.load(modelKey)
      using use = models.use(modelKey)
      if (!use) throw new ModelUnavailableError('no_capacity', 'the model was evicted before it was tested')
      const answer = await use.server.pool.request({
        method: 'POST',
        path: use.server.profile.infer_path,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(spec.warmup_input ?? use.server.profile.warmup_input ?? {}),
        signal,
      })
      return judge(answer.statusCode, await answer.body.text(), spec)
    } catch (err) {
      throw err instanceof ApplicationFailure ? err : toFailure(err)
    }
  },
})

function judge(status: number, text: string, { output_schema: schema }: NodeModelSpec): TestVerdict {
  if (status !== 200) return { passed: false, reason: `its test inference was answered with ${status}` }
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    return { passed: false, reason: 'its answer to the test inference is not JSON' }
  }
  if (!schema) return { passed: true }
  const validate = compileUserSchema(schema)
  if (validate(answer)) return { passed: true }
  const [first] = validate.errors ?? []
  const where = first?.instancePath || 'the answer'
  return {
    passed: false,
    reason: `its answer breaks the output schema: ${where} ${first?.message ?? 'is not valid'}`,
  }
}
