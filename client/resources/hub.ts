import type { Static } from 'typebox'
import type {
  HubEntry,
  HubRegistration,
  HubSearch,
  HubSearchResult,
  RegisterHubModel,
} from '../../schemas/hub.ts'
import type { Operations } from '../operations.ts'

/** Models of the model hub. */
export function hub(on: Operations) {
  return {
    search: on.send<[], Static<typeof HubSearch>, Static<typeof HubSearchResult>>({
      id: 'searchHub',
      method: 'POST',
      path: '/models/hf/search',
      repeatable: true,
    }),
    /** `repo_id` has the form `organisation/name`. */
    get: on.call<[repo_id: string], HubEntry>({
      id: 'getHubModel',
      method: 'GET',
      path: '/models/hf/{repo_id}/info',
    }),
    register: on.send<[], RegisterHubModel, HubRegistration>({
      id: 'registerHubModel',
      method: 'POST',
      path: '/models/hf/register',
    }),
  }
}
