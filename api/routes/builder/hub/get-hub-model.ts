import Type from 'typebox'
import { HubEntry, RepoId } from '../../../../schemas/hub.ts'
import { route } from '../../../http/route.ts'
import { askingHub } from '../../../hub/errors.ts'
import { lookAtRepo, presentHubEntry } from './look-at-repo.ts'

export const getHubModel = route({
  operationId: 'getHubModel',
  summary: 'Check whether a hub repository can be served here, and what it requires',
  method: 'GET',
  path: '/models/hf/{repo_id}/info',
  auth: 'api-key',
  params: Type.Object({ repo_id: RepoId }),
  success: { status: 200, schema: HubEntry },
  errors: ['not_found', 'forbidden', 'rate_limited', 'unavailable'],

  async handler({ caller: { accountId }, params: { repo_id: repoId } }, services) {
    return presentHubEntry(await askingHub(lookAtRepo(services, { accountId, repoId }, { thorough: true })))
  },
})
