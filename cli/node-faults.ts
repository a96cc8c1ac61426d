import type { GateFault } from '../schemas/node.ts'

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
