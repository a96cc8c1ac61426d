import { ApiError } from '../../../../domain/errors.ts'
import { ActionDetail, ActionParams } from '../../../../schemas/action.ts'
import { actionNotFound } from '../../../actions/find-action.ts'
import { requireAllowed } from '../../../actions/limits.ts'
import { operationAction } from '../../../actions/operation-actions.ts'
import { presentEndpointAction, presentOperationAction } from '../../../actions/present.ts'
import { route } from '../../../http/route.ts'
import { usableEndpoint } from '../endpoints/access.ts'

export const getAction = route({
  operationId: 'getAction',
  summary: 'Get an action with its input and output schemas',
  method: 'GET',
  path: '/actions/{slug}',
  auth: 'api-key',
  forLimitedKeys: true,
  params: ActionParams,
  success: { status: 200, schema: ActionDetail },
  isLong: true,
  errors: ['not_found', 'forbidden'],

  async handler({ caller, params: { slug } }, services) {
    const { db, config } = services
    const { accountId } = caller
    await requireAllowed(services, caller, slug)
    const operation = operationAction(slug)
    if (operation) {
      return {
        ...presentOperationAction(operation),
        input_schema: { ...operation.inputSchema },
        output_schema: { ...operation.outputSchema },
        example_input: null,
        example_output: null,
      }
    }
    const row = await usableEndpoint(db, accountId, slug).catch((err: unknown) => {
      throw err instanceof ApiError && err.code === 'not_found' ? actionNotFound(slug) : err
    })
    if (row.name !== slug) throw actionNotFound(slug)
    const { input_schema, output_schema, example_input, example_output } = row
    return {
      ...presentEndpointAction(row, { accountId, config }),
      input_schema,
      output_schema,
      example_input,
      example_output,
    }
  },
})
