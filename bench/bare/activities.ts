export const BARE_QUEUE = 'bench.bare'
export const BARE_NODE_QUEUE = 'bench.bare.node'

export async function place(_task: { id: string }): Promise<{ taskQueue: string }> {
  return { taskQueue: BARE_NODE_QUEUE }
}

export async function work(_task: { id: string }): Promise<void> {}
