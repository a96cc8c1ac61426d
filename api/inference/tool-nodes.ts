import { temporaryError } from '../../domain/errors.ts'
import type { Services } from '../services.ts'
import { type AdmittedRequest, modelStateOf } from './admission.ts'

const RETRY_AFTER_S = 10

/** Throws a 503 unless a node can run this tool now, with confinement: tools never run without it. */
export function requireToolNode(
  services: Pick<Services, 'links'>,
  request: Pick<AdmittedRequest, 'endpoint' | 'accountId'>,
): void {
  if (modelStateOf(services, request) === 'resident') return
  const { name } = request.endpoint
  throw temporaryError(
    'no_capacity',
    `no connected node can run the tool ${name}: it needs an online node with a container engine or a Linux kernel that allows it to create namespaces`,
    RETRY_AFTER_S,
  )
}
