import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { putFile } from '../weights/transfer.ts'
import { callModel } from './call-model.ts'
import { EvaluationError } from './evaluation-error.ts'
import { headOf } from './npy.ts'
import { type EvaluationTask, type EvaluationTools, Workbench } from './workbench.ts'

/** The number of texts per request to a model. */
const BATCH = 32
/** The memory for reading a dataset, which takes more than the size of its text. */
const MEMORY_MB = 512

/** Draws a run's texts, sends them through a model, and stores the vectors as rows of 32-bit floats. */
export async function collectVectors(tools: EvaluationTools, task: EvaluationTask): Promise<void> {
  const { work, signal } = task
  const { dataset, model, upload } = work
  if (!dataset || !model || !upload)
    throw new EvaluationError('work_incomplete', 'the work lacks a dataset, model or upload')
  await using bench = await Workbench.open(tools, task, MEMORY_MB)
  const path = await bench.fetch(`dataset-${dataset.filename}`, dataset.url)
  const count = work.fit_count + work.test_count
  await bench.run('anchors', {
    dataset: { format: dataset.format, path },
    text_field: dataset.text_field,
    count,
  })
  const texts = await bench.read<string[]>('texts.json')

  const file = join(bench.dir, 'vectors.npy')
  {
    await using out = await open(file, 'w')
    await out.write(headOf(texts.length, model.dimensions))
    for (let at = 0; at < texts.length; at += BATCH) {
      signal.throwIfAborted()
      const batch = texts.slice(at, at + BATCH)
      const order = { modelKey: model.model_key, taskType: 'embeddings', signal }
      const answer = await callModel(tools, order, { text: batch, truncate: true })
      await out.write(bytesOf(answer, batch.length, model.dimensions))
    }
  }
  await putFile(upload.url, file, { headers: upload.headers, signal })
}

/** Returns the vectors of a response as bytes; throws if they don't match the space. */
function bytesOf(answer: unknown, count: number, dimensions: number): Buffer {
  const vectors = (answer as { embeddings?: unknown }).embeddings
  const isRight =
    Array.isArray(vectors) &&
    vectors.length === count &&
    vectors.every((one) => Array.isArray(one) && one.length === dimensions)
  if (!isRight) {
    throw new EvaluationError(
      'space_mismatch',
      `the model did not return vectors of ${dimensions} dimensions`,
      {
        isFinal: true,
      },
    )
  }
  return Buffer.from(new Float32Array((vectors as number[][]).flat()).buffer)
}
