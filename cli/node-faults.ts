import type { GateFault, GpuFault } from '../schemas/node.ts'

/** Says that a node cannot reach the gate, and what that means. */
export const gateFaultInWords = ({ address, since, reason }: GateFault): string =>
  inOneLine(
    `it has not reached the gate to Temporal${address === null ? '' : ` at ${address}`} since ${since}, and takes no runs, stages and queued tasks (${reason})`,
  )

/** The words of a node make no line of their own. */
const inOneLine = (text: string): string => text.replaceAll(/\s+/g, ' ')

/** The remedy; a node that is told another address follows by itself. */
export const GATE_TODO =
  'see that the gate runs, that HEARTH_GATE_URL of every gateway is its address, and that the network lets the node reach it'

/** Says that a node cannot compute on its GPUs, and what that means. */
export const gpuFaultInWords = ({ since, reason }: GpuFault): string =>
  inOneLine(`it cannot compute on its GPUs since ${since}, so what is placed there fails (${reason})`)

export const GPU_TODO =
  "check the machine's NVIDIA driver and the node's log; `npm run bench:gpu` there tries it step by step"
