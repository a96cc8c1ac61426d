import {
  exposedName,
  type Instrument,
  type InstrumentKind,
  type ProcessKind,
} from '../platform/metrics/declarations.ts'
import { INSTRUMENTS } from '../platform/metrics/instruments.ts'

/** The lines between which the page's tables are generated. */
const BEGIN = '<!-- metrics:begin -->'
const END = '<!-- metrics:end -->'

const TITLES: readonly (readonly [string, (processes: readonly ProcessKind[]) => boolean])[] = [
  ['Every process', (processes) => processes.length === 4],
  ['Gateway', isOf('gateway')],
  ['Worker', isOf('worker')],
  ['Gate', isOf('gate')],
  ['Node', isOf('node')],
]

function isOf(kind: ProcessKind): (processes: readonly ProcessKind[]) => boolean {
  return (processes) => processes.length < 4 && processes.includes(kind)
}

/** A total is a counter to Prometheus. */
const TYPES: Readonly<Record<InstrumentKind, string>> = {
  counter: 'counter',
  histogram: 'histogram',
  gauge: 'gauge',
  total: 'counter',
}

/** Returns the page with the tables of metrics as they are declared. */
export function metricsDocument(page: string): string {
  const [before = '', rest] = page.split(BEGIN)
  const after = rest?.split(END)[1]
  if (after === undefined) throw new Error(`docs/monitoring.md must have the lines ${BEGIN} and ${END}`)
  return `${before}${BEGIN}\n${tables()}\n${END}${after}`
}

function tables(): string {
  return TITLES.flatMap(([title, isShown]) => {
    const rows = Object.entries(INSTRUMENTS).flatMap(([name, instrument]: [string, Instrument]) =>
      isShown(instrument.processes) ? [row(name, instrument)] : [],
    )
    if (rows.length === 0) return []
    const table = ['| metric | type | labels | meaning |', '| --- | --- | --- | --- |', ...rows].join('\n')
    return [`\n### ${title}\n\n${table}\n`]
  }).join('')
}

function row(name: string, instrument: Instrument): string {
  const labels = instrument.attributes.map((attribute) => `\`${attribute.replaceAll('.', '_')}\``)
  const cells = [`\`${exposedName(name, instrument)}\``, TYPES[instrument.kind], labels.join(', ')]
  return `| ${[...cells, instrument.description].join(' | ')} |`
}
