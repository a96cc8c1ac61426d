import type { Config } from '../platform/config.ts'

/** Returns a workflow's URL in the Temporal UI; null if no UI is configured. */
export function temporalLink(
  {
    TEMPORAL_UI_URL: ui,
    TEMPORAL_NAMESPACE: namespace,
  }: Pick<Config, 'TEMPORAL_UI_URL' | 'TEMPORAL_NAMESPACE'>,
  workflowId: string,
): string | null {
  if (!ui) return null
  const path = `namespaces/${encodeURIComponent(namespace)}/workflows/${encodeURIComponent(workflowId)}`
  return `${ui.replace(/\/+$/, '')}/${path}`
}
