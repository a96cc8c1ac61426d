import assert from 'node:assert/strict'
import { request } from 'undici'

export interface Sample {
  name: string
  labels: Readonly<Record<string, string>>
  value: number
}

export interface Family {
  type: string
  help: string
  samples: Sample[]
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/
const TYPES = ['counter', 'gauge', 'histogram', 'summary', 'untyped']

/** Scrapes a metrics port and parses the response strictly. */
export async function scrape(port: number | undefined): Promise<Exposition> {
  const { statusCode, headers, body } = await request(`http://127.0.0.1:${port}/metrics`)
  const text = await body.text()
  assert.equal(statusCode, 200, text)
  assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
  return new Exposition(text)
}

/** Metrics in Prometheus' text format. Parsing fails on anything that Prometheus or `promtool check metrics` rejects. */
export class Exposition {
  readonly families = new Map<string, Family>()
  readonly text: string

  constructor(text: string) {
    this.text = text
    assert.ok(text.endsWith('\n'), 'the text ends with a line break')
    let name = ''
    for (const line of text.trimEnd().split('\n')) {
      const [, keyword, of = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? []
      if (keyword === 'HELP') {
        assert.match(of, NAME)
        assert.ok(!this.families.has(of), `${of} is described once, and its lines are together`)
        assert.notEqual(rest, '')
        this.families.set((name = of), { type: '', help: rest, samples: [] })
      } else if (keyword === 'TYPE') {
        const family = this.families.get(of)
        assert.ok(of === name && family?.type === '', `the type of ${of} follows its description`)
        assert.ok(TYPES.includes(rest), line)
        family.type = rest
      } else if (!line.startsWith('#')) this.#add(name, line)
    }
    this.#check()
  }

  /** Returns the value of the only series of this name with these labels; undefined if there is none. */
  value(name: string, labels: Record<string, string> = {}): number | undefined {
    const found = this.samples(name).filter((sample) =>
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    )
    assert.ok(found.length < 2, `${name} has several such series`)
    return found[0]?.value
  }

  samples(name: string): Sample[] {
    return [...this.families.values()].flatMap(({ samples }) =>
      samples.filter((sample) => sample.name === name),
    )
  }

  #add(family: string, line: string): void {
    const [, name = '', labels = '', value = ''] = SAMPLE.exec(line) ?? []
    const { type, samples } = this.families.get(family) ?? assert.fail(`${line} has no family`)
    const suffixes = type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
    assert.ok(
      suffixes.some((suffix) => name === family + suffix),
      `${line} does not belong to ${family}`,
    )
    const parsed: Record<string, string> = {}
    for (let rest = labels; rest !== '';) {
      const [whole = '', label = '', text = ''] = LABEL.exec(rest) ?? []
      assert.notEqual(whole, '', `the labels of ${line}`)
      assert.ok(!(label in parsed), `${label} occurs once in ${line}`)
      parsed[label] = text
      rest = rest.slice(whole.length)
    }
    const number = value === '+Inf' ? Infinity : Number(value)
    assert.ok(!Number.isNaN(number), line)
    samples.push({ name, labels: parsed, value: number })
  }

  #check(): void {
    for (const [family, { type, samples }] of this.families) {
      assert.ok(type, `${family} has a type`)
      if (type === 'counter') assert.match(family, /_total$/)
      const keys = samples.map(({ name, labels }) => name + keyOf(labels))
      assert.equal(new Set(keys).size, keys.length, `${family} has no series twice`)
      if (type === 'histogram') checkBuckets(samples)
    }
  }
}

function checkBuckets(samples: readonly Sample[]): void {
  let before = 0
  for (const { name, labels, value } of samples) {
    if (!name.endsWith('_bucket')) before = 0
    else {
      assert.ok(value >= before, 'buckets are cumulative')
      before = value
      if (labels['le'] === '+Inf') {
        const { le: _le, ...others } = labels
        const total = samples.find(
          (sample) =>
            sample.name === name.replace('_bucket', '_count') && keyOf(sample.labels) === keyOf(others),
        )
        assert.equal(value, total?.value)
      }
    }
  }
}

const keyOf = (labels: Sample['labels']): string =>
  JSON.stringify(Object.entries(labels).toSorted(([a], [b]) => a.localeCompare(b)))
