import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import * as nodeModelRepository from '../../../../db/repositories/nodes/models.ts'
import type { JobFacts } from '../../../../db/repositories/training/jobs.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { weightsBytes } from '../../../../domain/models/memory.ts'
import {
  type Adapter,
  type Tuning,
  tuningMemoryMb,
  tuningWeightsMb,
  typicalEncoder,
  typicalShape,
} from '../../../../domain/models/tuning-memory.ts'
import { trainingCapacity } from '../../../../domain/placement/gpu-capacity.ts'
import { type NodeSnapshot, serves } from '../../../../domain/placement/node-snapshot.ts'
import type { JobBase } from '../../../../schemas/nodes/lease.ts'
import { QUEUES } from '../../../../workflows/contract/policy.ts'
import type { Services } from '../../../services.ts'

const BF16_BYTES = 2

/**
 * A run's base, and the memory that the run will use. If no node has enough memory, the base is `unavailable`, with the
 * numbers in its message.
 */
export interface RunWithMemory {
  base: JobBase | null
  memoryMb: number
}

/**
 * Estimates a run's memory from its dataset, its base and the training method. Throws `conflict` if the requesting node
 * is too small and another node is not; the run then waits for that node.
 */
export async function estimateRunMemory(
  services: Services,
  run: JobFacts,
  { base, nodeId }: { base: JobBase | null; nodeId: string },
): Promise<RunWithMemory> {
  const model = services.catalog.model(run.model_config_id)
  const { fileBytes, decodedBytes: decoded } = await datasetRepository.sizeOfDataset(
    services.db,
    run.dataset_id,
  )
  const nodes = services.links.snapshot().filter((node) => serves(node, run.account_id))
  const asking = nodes.find(({ node_id }) => node_id === nodeId)
  const dataBytes = Math.max(fileBytes, decoded)
  const isTuned = model?.config.trainer.base === 'required'
  const parameters = isTuned && base ? await parametersOf(services, base) : 0
  const isOnCpu = asking ? asking.hardware !== 'gpu' : run.task_queue !== QUEUES.train('gpu')
  // Datasets are kept in main memory, which does not count toward a GPU node's memory.
  const ownMb = model?.estimateMemoryMb(isOnCpu || parameters === 0 ? dataBytes : 0) ?? 0
  const tuning = tuningOf(run, {
    trainer: model?.config.trainer.module ?? '',
    parameters,
    dataBytes,
    isOnCpu,
  })
  const neededMb = ownMb + tuningWeightsMb(tuning)
  // Rows are often much shorter than the limit, so never reject a run because of its batch size: it gets up to a whole
  // GPU.
  const roomMb = asking ? Math.max(neededMb, trainingCapacity(asking)) : Infinity
  const memoryMb = Math.min(roomMb, ownMb + tuningMemoryMb(tuning))
  // The estimate for working data is too rough to reject a run on; the decoded data itself must fit.
  const leastMb = model && decoded > 0 ? model.leastMemoryMb(decoded) : 0
  if (asking && asking.hardware !== 'gpu' && asking.memory_total_mb < leastMb) {
    return { base: tooLarge(run, { memoryMb: leastMb, asking, nodes }), memoryMb }
  }
  if (!asking || parameters === 0 || trainingCapacity(asking) >= neededMb) return { base, memoryMb }
  return { base: tooLarge(run, { memoryMb: neededMb, asking, nodes }), memoryMb }
}

/** The maximum number of texts per row that an encoder trainer processes together. */
const TEXTS = 3
const MAX_ENCODER_TOKENS = 512

/**
 * Describes a run for its memory estimate. Text has at most one token per byte, so a small dataset bounds the length.
 */
function tuningOf(
  { hyperparameters }: JobFacts,
  {
    trainer,
    parameters,
    dataBytes,
    isOnCpu,
  }: { trainer: string; parameters: number; dataBytes: number; isOnCpu: boolean },
): Tuning {
  const { adapter, optimizer, lora_r, micro_batch_size, sequence_len, gradient_checkpointing } =
    hyperparameters
  const isEncoder = trainer.startsWith('hearth_trainers.encoders.')
  const rowTokens = isEncoder ? TEXTS * MAX_ENCODER_TOKENS : Infinity
  const length = Math.min(Number(sequence_len) || 0, dataBytes || Infinity) * (isEncoder ? TEXTS : 1)
  return {
    shape: isEncoder ? typicalEncoder(parameters) : typicalShape(parameters),
    adapter: adapter as Adapter,
    isOptimizer8Bit: String(optimizer).includes('8bit'),
    loraRank: Number(lora_r),
    tokens: (Number(micro_batch_size) || 1) * Math.min(length, rowTokens),
    isCheckpointed: gradient_checkpointing === true,
    isOnCpu,
  }
}

function tooLarge(
  { task_queue, hyperparameters }: JobFacts,
  { memoryMb, asking, nodes }: { memoryMb: number; asking: NodeSnapshot; nodes: readonly NodeSnapshot[] },
): JobBase {
  const able = nodes.filter(({ hardware, draining }) => {
    return !draining && (task_queue !== QUEUES.train('gpu') || hardware === 'gpu')
  })
  const ownMb = trainingCapacity(asking)
  const largestMb = Math.max(...able.map(trainingCapacity), ownMb)
  const on = asking.gpus ? ' on one GPU' : ''
  if (largestMb >= memoryMb) {
    throw new ApiError(
      'conflict',
      `the run needs about ${memoryMb} MB${on}; this node has ${ownMb} MB and another node has more`,
      { details: { state: 'too_large', needed_mb: memoryMb, node_mb: ownMb } },
    )
  }
  const how = hyperparameters['adapter'] === 'none' ? ' to train all weights' : ''
  return {
    type: 'unavailable',
    message: `The run needs about ${memoryMb} MB${on}${how}; the largest node that could run it has ${largestMb} MB.`,
  }
}

async function parametersOf({ db }: Services, base: JobBase): Promise<number> {
  if (base.type === 'unavailable') return 0
  if (base.type === 'files') return weightsBytes(base.files) / BF16_BYTES
  const found = await nodeModelRepository.findModelFiles(db, base.model_key)
  if (!found) return 0
  const hub = await hubModelRepository.findHubImport(db, found.version.id)
  // Weights on the hub may be float32; models trained or merged here are bf16.
  return hub?.params_b ? hub.params_b * 1e9 : weightsBytes(found.files) / BF16_BYTES
}
