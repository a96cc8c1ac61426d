import { Button } from '@mantine/core'
import { ADMIN, call } from '../api.ts'
import type { NodeView } from '../types.ts'

interface NodeActionProps {
  of: Pick<NodeView, 'node_id' | 'name' | 'status'>
  run: (action: () => Promise<unknown>) => Promise<void>
}

/** Lets a node finish what it has and take nothing new, or takes that back. */
export function NodeAction({ of: { node_id, name, status }, run }: NodeActionProps) {
  const action = status === 'draining' ? 'resume' : 'drain'
  const words = status === 'draining' ? 'Resume' : 'Drain'
  return (
    <Button
      size="compact-sm"
      variant="default"
      disabled={status !== 'online' && status !== 'draining'}
      aria-label={`${words} ${name}`}
      onClick={() =>
        void run(() => call(`${ADMIN}/nodes/${node_id}/${action}`, { method: 'POST', body: {} }))
      }
    >
      {words}
    </Button>
  )
}
