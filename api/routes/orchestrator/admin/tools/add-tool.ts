import * as toolRepository from '../../../../../db/repositories/tools/tools.ts'
import { isReserved } from '../../../../../domain/actions/reserved.ts'
import { ApiError, invalid } from '../../../../../domain/errors.ts'
import { toolFault } from '../../../../../platform/catalog-tools.ts'
import { OfferedTool } from '../../../../../schemas/admin.ts'
import { CatalogTool } from '../../../../../schemas/catalog-tool.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { offerTool } from '../../../../tools/register.ts'
import { presentTool } from './present.ts'

export const addTool = route({
  operationId: 'addTool',
  summary: 'Offer a tool from a container image to every account, or replace one',
  method: 'POST',
  path: '/admin/tools',
  auth: 'operations-key',
  body: CatalogTool,
  success: { status: 201, schema: OfferedTool },
  errors: ['conflict'],

  async handler({ body }, { db, now }) {
    if (body.image === undefined)
      throw invalid(['body', 'image'], "Field required: the tool's image, by digest", 'missing')
    if (isReserved(body.slug))
      throw invalid(
        ['body', 'slug'],
        `${body.slug} is the name of a tool that every MCP server has`,
        'endpoint_name',
      )
    const fault = toolFault(body)
    if (fault) {
      const loc = fault.path.slice(1).split('/')
      throw invalid(['body', ...loc], fault.problem, 'value_error')
    }
    const row = await db.transaction().execute(async (trx) => {
      const known = await toolRepository.findTool(trx, body.slug)
      await offerTool(trx, body, { origin: 'operator', now: now() })
      await audit(trx, {
        action: 'addTool',
        subject: { kind: 'tool', id: body.slug },
        before: known && !known.removed_at ? { image: known.definition.image } : undefined,
        after: { image: body.image, network: body.network },
      })
      return toolRepository.findTool(trx, body.slug)
    })
    if (!row) throw new ApiError('conflict', 'the tool was removed in the meantime; try again')
    return presentTool(row)
  },
})
