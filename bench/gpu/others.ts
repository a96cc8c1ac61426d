import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { saveOutput } from '../../node-runtime/models/output-stream.ts'
import type { ModelServer } from '../../node-runtime/models/server.ts'
import type { LineProgram } from '../line-program.ts'
import { median } from '../platform.ts'
import { type Machine, needModule, PeakMemory, post, startPlain, startServer, timed } from './machine.ts'
import { type ModelName, modelFolder } from './models.ts'
import type { Section } from './sections.ts'
import type { Figure, Row } from './table.ts'

const ROUNDS = 3
const EMBEDDINGS_PEER = join(import.meta.dirname, '..', 'embeddings', 'peers.py')
const IMAGE_PEER = join(import.meta.dirname, '..', 'generation', 'peer.py')
const WORDS = 'the quick brown fox jumps over a lazy dog what is capital of france you are'.split(' ')
const MAX_WORDS = 120

/** Returns the sections that embed texts, and that generate an image. */
export function otherSections(
  machine: Machine,
  sentenceTransformersPython: () => Promise<string>,
): { rows: Row[]; sections: Section[] } {
  const embeddings = embeddingSections(machine, sentenceTransformersPython)
  const images = imageSections(machine)
  return {
    rows: [embeddings.row, images.row],
    sections: [...embeddings.sections, ...images.sections],
  }
}

function embeddingSections(
  machine: Machine,
  sentenceTransformersPython: () => Promise<string>,
): { row: Row; sections: Section[] } {
  const texts = textsOf(machine.scale.embedder.texts)
  const row: Row = {
    section: 'embeddings',
    what: `embeddings: ${texts.length} texts in one request`,
    unit: 'texts/s',
    referenceName: 'sentence-transformers',
    notes: [],
  }
  const rateOf = (ms: number) => (1_000 * texts.length) / ms
  const ours: Section = {
    name: 'embeddings',
    side: 'ours',
    title: 'embeddings with specialist-torch',
    limitS: 45,
    rows: [row],
    async run() {
      const { value, memoryMb } = await medianOfServer(machine, {
        profile: 'specialist-torch',
        model: 'embedder',
        send: async (server) => (await post(server, '/infer/embeddings', { text: texts })).dump(),
      })
      row.ours = { value: rateOf(value), memoryMb }
    },
  }
  const reference: Section = {
    name: 'embeddings',
    side: 'reference',
    title: 'the same texts with sentence-transformers',
    limitS: 45,
    rows: [row],
    async run(signal) {
      const file = join(machine.dir, 'texts.json')
      writeFileSync(file, JSON.stringify({ texts }))
      const python = await sentenceTransformersPython()
      const device = machine.gpus.length > 0 ? 'cuda' : 'cpu'
      const args = [EMBEDDINGS_PEER, file, device, modelFolder(machine, 'embedder')]
      await using peer = await startPlain(machine, args, { python, signal })
      const { value, memoryMb } = await medianOfPeer(machine, peer, 'texts')
      row.reference = { value: rateOf(value), memoryMb }
    },
  }
  return { row, sections: [ours, reference] }
}

/** Texts of one word and more. */
const textsOf = (count: number): string[] =>
  Array.from({ length: count }, (_, index) =>
    Array.from(
      { length: 1 + ((index * 7) % MAX_WORDS) },
      (_each, at) => WORDS[(index + at * at) % WORDS.length],
    ).join(' '),
  )

function imageSections(machine: Machine): { row: Row; sections: Section[] } {
  const { side, steps } = machine.scale.image
  const row: Row = {
    section: 'image',
    what: `image: ${side} × ${side}, ${steps} steps`,
    unit: 'ms',
    referenceName: 'diffusers',
    notes: [],
  }
  const request = { prompt: 'a boat', width: side, height: side, num_inference_steps: steps, seed: 1 }
  const ours: Section = {
    name: 'image',
    side: 'ours',
    title: 'an image with generative-torch',
    limitS: 60,
    rows: [row],
    async run() {
      row.ours = await medianOfServer(machine, {
        profile: 'generative-torch',
        model: 'image',
        send: async (server) => void (await saveOutput(await post(server, '/infer/text-to-image', request))),
      })
    },
  }
  const reference: Section = {
    name: 'image',
    side: 'reference',
    title: 'the same image with diffusers',
    limitS: 60,
    rows: [row],
    async run(signal) {
      await needModule(machine.python, 'diffusers', 'diffusers')
      const args = [IMAGE_PEER, modelFolder(machine, 'image'), String(side), String(steps)]
      await using peer = await startPlain(machine, args, { signal })
      row.reference = await medianOfPeer(machine, peer, '1')
    },
  }
  return { row, sections: [ours, reference] }
}

interface ServerWork {
  profile: string
  model: ModelName
  send: (server: ModelServer) => Promise<void>
}

/** Returns the median milliseconds of a request, after one that is not counted. */
async function medianOfServer(machine: Machine, { profile, model, send }: ServerWork): Promise<Figure> {
  const server = await startServer(machine, profile, { modelDir: modelFolder(machine, model) })
  using memory = new PeakMemory(machine, () => server.pids())
  try {
    return await medianFigure(memory, async () => (await timed(() => send(server)))[0])
  } finally {
    await server.stop({ graceMs: 0 })
  }
}

/** The same for a reference program; `line` names the work. */
async function medianOfPeer(machine: Machine, peer: LineProgram, line: string): Promise<Figure> {
  using memory = PeakMemory.ofTree(machine, peer.pid)
  return await medianFigure(memory, async () => 1_000 * (await peer.seconds(line)).clock)
}

async function medianFigure(memory: PeakMemory, measure: () => Promise<number>): Promise<Figure> {
  await measure()
  const times: number[] = []
  for (let round = 0; round < ROUNDS; round++) times.push(await measure())
  return { value: median(times), memoryMb: await memory.read() }
}
